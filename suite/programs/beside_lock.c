/* A lock of atomics, in its line the data that it protects and a counter of one thread that never takes the lock.
 * 6,000 turns in all, so that the counter's part is the same with few threads and with many. Fixed: all three
 * apart, as waiters poll the lock. */
#include "common.h"
static struct {
	int locked;
	volatile long a APART, b;
	volatile long packets APART;
} __attribute__((aligned(64))) shared;
static void *work(void *arg)
{
	if ((long)arg == 0) {
		for (int i = 0; i < 300000; i++)
			shared.packets++;
		return NULL;
	}
	for (int turn = 0; turn < 6000 / (threads - 1); turn++) {
		for (int free = 0;; free = 0) {
			for (int polls = 1; LOAD(&shared.locked); polls++)
				if (polls % 16 == 0)
					sched_yield();
			if (__atomic_compare_exchange_n(&shared.locked, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				break;
		}
		for (int i = 0; i < 20; i++) {
			shared.a++;
			shared.b += shared.a;
		}
		STORE(&shared.locked, 0);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 300000);
	return 0;
}
