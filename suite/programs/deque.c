/* The owner moves `bottom`, a thief looks at `top` and takes from there, rarely with success: fields of two threads on
 * one line. */
#include "common.h"
static struct { long bottom; long top APART; } deque __attribute__((aligned(64)));
static void *work(void *arg)
{
	long me = (long)arg;
	for (long i = 0; i < 100000; i++) {
		if (me == 0) {
			__atomic_store_n(&deque.bottom, i, __ATOMIC_RELAXED);
		} else if (me == 1) {
			long t = __atomic_load_n(&deque.top, __ATOMIC_RELAXED);
			__atomic_compare_exchange_n(&deque.top, &t, t + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 200000);
	return 0;
}
