/* Waiters call pthread_mutex_trylock until it succeeds; the data under the lock changes hands a few times only, because
 * each holder works for 20,000 accesses. The data lies on lines of its own. */
#include "common.h"
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	volatile long sum;
	volatile long rounds;
	long last_owner;
	long handoffs;
} __attribute__((aligned(64))) ledger;
static void *work(void *arg)
{
	long id = (long)arg + 1;
	for (int turn = 0; turn < 10; turn++) {
		while (pthread_mutex_trylock(&lock) != 0)
			sched_yield();
		ledger.handoffs += ledger.last_owner != id;
		ledger.last_owner = id;
		for (int i = 0; i < 10000; i++) {
			ledger.sum += i;
			if (i % 16 == 0)
				ledger.rounds++;
		}
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("handoffs", ledger.handoffs);
	return 0;
}
