/* A flag for each thread, on which it spins; one thread sets them in turn. Buggy: all in one line, so that each store
 * disturbs every spinner. Fixed: a line each; then a store concerns one spinner, and 300 rounds make 300 hand-offs each. */
#include "common.h"
struct door {
	int open;
} APART;
static struct door doors[THREADS_MAX] __attribute__((aligned(64)));
static int done __attribute__((aligned(64)));
static void *work(void *arg)
{
	long id = (long)arg, polls = 0;
	if (id == 0) {
		for (int round = 1; round <= 20000; round++) {
			STORE(&doors[1].open, round);
			if (round % 100 == 0)
				sched_yield();
		}
		STORE(&done, 1);
		for (int i = 1; i < threads; i++)
			STORE(&doors[i].open, -1);
		return NULL;
	}
	if (id == 1)
		return NULL;
	while (LOAD(&doors[id].open) != -1)
		if (++polls % 4096 == 0)
			sched_yield();
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	threads = threads < 4 ? 4 : threads;
	run_threads(work);
	truth("stores", 20000);
	return 0;
}
