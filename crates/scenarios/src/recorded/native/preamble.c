#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
/* Kinds of work between accesses: one chain that goes on whatever was loaded, one that waits for what was loaded, and
   work that waits for nothing. A processor hides most of a line's way behind the first. */
#define CHAIN 0
#define FED 1
#define INDEPENDENT 2
#define KINDS 3

static _Alignas(4096) unsigned char memory[2][BYTES];
/* Rounds of work by its number; written while nobody runs. */
static uint32_t work_rounds[1 << 16];

/* One chain: every step waits for the one before it. */
static inline uint64_t chain(uint64_t x, uint32_t n) {
    for (; n; n--) {
        x = x * 0x9e3779b97f4a7c15u + 1;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

/* Eight that wait for nothing but themselves and begin anew with every piece of work. */
static inline void apart(uint32_t n) {
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
    for (; n; n--) {
        a *= 3; b *= 3; c *= 3; d *= 3; e *= 3; f *= 3; g *= 3; h *= 3;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
    }
}

#define WORK(i) if (KIND == INDEPENDENT) apart(work_rounds[i]); else x = chain(x, work_rounds[i]);
#define AT(bits, at) ((volatile uint##bits##_t *)(MEMORY + (at)))
#define SINK(v) if (KIND == FED) x ^= (v); else __asm__ volatile("" : : "r"((uint64_t)(v)));
#define LOAD(bits, at) { uint64_t v = *AT(bits, at); SINK(v) }
#define STORE(bits, at) *AT(bits, at) = (uint##bits##_t)(KIND == FED ? x : 1);
#define INCREMENT(bits, at) { uint##bits##_t v = *AT(bits, at); *AT(bits, at) = v + 1; if (KIND == FED) x ^= v; }
#define ADD(bits, at) { uint64_t v = __atomic_fetch_add(AT(bits, at), 1, __ATOMIC_SEQ_CST); SINK(v) }
#define MUTEX(at) ((pthread_mutex_t *)(void *)(MEMORY + (at)))
#define MUTEX_INIT(at) pthread_mutex_init(MUTEX(at), 0);
#define MUTEX_LOCK(at) pthread_mutex_lock(MUTEX(at));
#define MUTEX_UNLOCK(at) pthread_mutex_unlock(MUTEX(at));
#define RW(at) ((pthread_rwlock_t *)(void *)(MEMORY + (at)))
#define RW_INIT(at) pthread_rwlock_init(RW(at), 0);
#define RW_RDLOCK(at) pthread_rwlock_rdlock(RW(at));
#define RW_WRLOCK(at) pthread_rwlock_wrlock(RW(at));
#define RW_UNLOCK(at) pthread_rwlock_unlock(RW(at));
#define SPIN(at) ((pthread_spinlock_t *)(void *)(MEMORY + (at)))
#define SPIN_INIT(at) pthread_spin_init(SPIN(at), 0);
#define SPIN_LOCK(at) pthread_spin_lock(SPIN(at));
#define SPIN_UNLOCK(at) pthread_spin_unlock(SPIN(at));

struct round { uint64_t (*run)(uint64_t); uint32_t ops; };
/* A piece of work: its nominal length in nanoseconds, the thread that does it, and whether it lies between two
   operations. */
struct piece { double ns; int thread, between; };
