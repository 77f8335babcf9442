/* The mutex of Rust's standard library, in C: 0 free, 1 taken, 2 taken and somebody sleeps; spins, then a futex. Each
 * thread has a counter of its own, all on one line: SECTIONS hand-offs at most. -DBROKEN: without the lock. */
#include "common.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { SECTIONS = 160, PER_SECTION = 2000 };
static volatile long own_count[THREADS_MAX] __attribute__((aligned(64)));
static unsigned word __attribute__((aligned(128)));
static void futex(int op, unsigned v) { syscall(SYS_futex, &word, op | FUTEX_PRIVATE_FLAG, v, NULL, NULL, 0); }
static unsigned spin(void)
{
	for (int k = 100;; k--) {
		unsigned s = __atomic_load_n(&word, __ATOMIC_RELAXED);
		if (s != 1 || !k) return s;
		while_polling();
	}
}
static void take(void)
{
	unsigned s = 0;
	if (__atomic_compare_exchange_n(&word, &s, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
	s = spin();
	if (s == 0) { unsigned z = 0; if (__atomic_compare_exchange_n(&word, &z, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return; s = z; }
	for (;;) {
		if (s != 2 && __atomic_exchange_n(&word, 2, __ATOMIC_ACQUIRE) == 0) return;
		futex(FUTEX_WAIT, 2);
		s = spin();
	}
}
static void give(void) { if (__atomic_exchange_n(&word, 0, __ATOMIC_RELEASE) == 2) futex(FUTEX_WAKE, 1); }
static void *work(void *arg)
{
	long me = (long)arg;
	for (int k = 0; k < SECTIONS / threads; k++) {
#ifndef BROKEN
		take();
#endif
		for (int i = 0; i < PER_SECTION; i++) own_count[me]++;
#ifndef BROKEN
		give();
#endif
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv); run_threads(work); truth("handoffs", SECTIONS); truth("stores", (long)SECTIONS * PER_SECTION);
	return 0;
}
