/* Settings with a lock for readers and writers and what it protects in one line. Who comes in stores to the lock and
 * brings the line, and with it what it reads. Apart, every look would take one line more.
 * LIBC: the C library's lock; else one of a word: readers compare when they come in and count down when they leave.
 * BROKEN: what a thread counts for itself lies in the same line, outside of the lock. */
#include "common.h"
#ifdef LIBC
typedef pthread_rwlock_t lock_t;
#define in(l) pthread_rwlock_rdlock(l)
#define out(l) pthread_rwlock_unlock(l)
#define in_alone(l) pthread_rwlock_wrlock(l)
#define out_alone(l) pthread_rwlock_unlock(l)
#else
#include <stdatomic.h>
#define ALONE 0x3fffffffu
typedef atomic_uint lock_t;
static void in(lock_t *l)
{
	for (;;) {
		unsigned n = atomic_load_explicit(l, memory_order_relaxed);
		if (n < ALONE - 1 && atomic_compare_exchange_weak(l, &n, n + 1))
			return;
	}
}
static void out(lock_t *l) { atomic_fetch_sub(l, 1); }
static void in_alone(lock_t *l)
{
	for (unsigned free = 0; !atomic_compare_exchange_weak(l, &free, ALONE); free = 0)
		sched_yield();
}
static void out_alone(lock_t *l) { atomic_fetch_sub(l, ALONE); }
#endif
static struct settings {
	lock_t lock;
	char valid;
#ifdef BROKEN
	volatile int looks APART;
#endif
	volatile int limit APART;
} __attribute__((aligned(64))) settings;
static void *work(void *arg)
{
	long me = (long)arg, sum = 0;
	for (int i = 0; i < 20000; i++) {
		if (me == 0 && i % 16 == 0) {
			in_alone(&settings.lock);
			settings.limit = i;
			settings.valid = 1;
			out_alone(&settings.lock);
			continue;
		}
		in(&settings.lock);
		sum += settings.valid ? settings.limit : 0;
		out(&settings.lock);
#ifdef BROKEN
		if (me == 0)
			for (int k = 0; k < 20; k++)
				settings.looks++;
#endif
	}
	return (void *)sum;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
#ifdef LIBC
	pthread_rwlock_init(&settings.lock, NULL);
#endif
	run_threads(work);
#ifdef BROKEN
	truth("stores", 375000);
#else
	truth("handoffs", 0);
#endif
	return 0;
}
