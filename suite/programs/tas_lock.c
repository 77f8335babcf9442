/* A test-and-set lock that waiters poll. Buggy: the data that the holder writes, 400 stores per turn, lies in the lock's
 * line: every poll takes it from the holder. Fixed: the data is apart; the polls fight for the lock word alone. */
#include "common.h"
static struct {
	int locked;
	volatile long total APART;
	volatile long turns;
} __attribute__((aligned(64))) shared;
/* As many for two threads as for eight: one of two must not be done before the other begins. */
static int turns(void)
{
	return threads < 8 ? 960 / threads : 120;
}
static void *work(void *id)
{
	(void)id;
	for (int turn = 0; turn < turns(); turn++) {
		int polls = 0;
		while (__atomic_exchange_n(&shared.locked, 1, __ATOMIC_ACQUIRE))
			if (++polls % 64 == 0)
				sched_yield();
		for (int i = 0; i < 400; i++) {
			shared.total += i;
			if (i == 200 && turn % 4 == 0)
				sched_yield();
		}
		shared.turns++;
		__atomic_store_n(&shared.locked, 0, __ATOMIC_RELEASE);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 401L * turns() * threads);
	return 0;
}
