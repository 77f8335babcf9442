/* A library between program and libc that counts calls, as lock profilers and clock fakers do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include "counted_calls.h"
long counted_calls[CALLS];
/* Before glibc 2.36 dlsym returns the oldest condition, which is another one than programs are linked to. */
static void *behind(const char *name) {
    void *p = strncmp(name, "pthread_cond_", 13) ? NULL : dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return p ? p : dlsym(RTLD_NEXT, name);
}
#define COUNT(name, given, passed) \
    int name given { \
        static int(*next) given; \
        if (!next) next = behind(#name); \
        __atomic_fetch_add(&counted_calls[AT_##name], 1, __ATOMIC_RELAXED); \
        return next passed; \
    }
#define COUNT1(name, type) COUNT(name, (type * a), (a))
#define COUNT2(name, type) COUNT(name, (type * a, const struct timespec *t), (a, t))
COUNT1(pthread_mutex_lock, pthread_mutex_t)
COUNT1(pthread_mutex_trylock, pthread_mutex_t)
COUNT2(pthread_mutex_timedlock, pthread_mutex_t)
COUNT1(pthread_mutex_unlock, pthread_mutex_t)
COUNT1(pthread_spin_lock, volatile pthread_spinlock_t)
COUNT1(pthread_spin_trylock, volatile pthread_spinlock_t)
COUNT1(pthread_spin_unlock, volatile pthread_spinlock_t)
COUNT1(pthread_rwlock_rdlock, pthread_rwlock_t)
COUNT1(pthread_rwlock_wrlock, pthread_rwlock_t)
COUNT1(pthread_rwlock_trywrlock, pthread_rwlock_t)
COUNT2(pthread_rwlock_timedwrlock, pthread_rwlock_t)
COUNT1(pthread_rwlock_unlock, pthread_rwlock_t)
COUNT(pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m), (c, m))
COUNT(pthread_cond_timedwait, (pthread_cond_t * c, pthread_mutex_t *m, const struct timespec *t), (c, m, t))
COUNT1(pthread_cond_signal, pthread_cond_t)
COUNT1(pthread_cond_broadcast, pthread_cond_t)
COUNT1(sem_wait, sem_t)
COUNT1(sem_trywait, sem_t)
COUNT2(sem_timedwait, sem_t)
COUNT1(sem_post, sem_t)
COUNT1(mtx_lock, mtx_t)
COUNT1(mtx_trylock, mtx_t)
COUNT1(mtx_unlock, mtx_t)
COUNT1(cnd_signal, cnd_t)
