/* Calls that a library counts on their way from the program to libc. */
#define COUNTED(X) \
    X(pthread_mutex_lock) X(pthread_mutex_trylock) X(pthread_mutex_timedlock) X(pthread_mutex_unlock) \
    X(pthread_spin_lock) X(pthread_spin_trylock) X(pthread_spin_unlock) \
    X(pthread_rwlock_rdlock) X(pthread_rwlock_wrlock) X(pthread_rwlock_trywrlock) X(pthread_rwlock_timedwrlock) \
    X(pthread_rwlock_unlock) X(pthread_cond_wait) X(pthread_cond_timedwait) X(pthread_cond_signal) \
    X(pthread_cond_broadcast) X(sem_wait) X(sem_trywait) X(sem_timedwait) X(sem_post) \
    X(mtx_lock) X(mtx_trylock) X(mtx_unlock) X(cnd_signal)
#define NUMBER(name) AT_##name,
enum { COUNTED(NUMBER) CALLS };
