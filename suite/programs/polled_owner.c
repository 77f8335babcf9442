/* A sleeping lock as kernels have it: a count that every taker and leaver adds to, and the owner, whom each waiter polls
 * POLLS times per store of it. Buggy: both in one line, so that every addition makes the pollers fetch the owner again and
 * each of their fetches takes the line from the next addition. Fixed: a line each. */
#include "common.h"
#ifndef POLLS
#define POLLS 17
#endif
static struct mm {
	long count;
	long owner APART;
} __attribute__((aligned(64))) mm;
static void *work(void *arg)
{
	long id = (long)arg, seen = 0;
	int polls = POLLS * (threads - 1);
	int turns = 400000 / (polls * threads) + 100;
	for (int turn = 0; turn < turns; turn++) {
		ADD(&mm.count, 1);
		STORE(&mm.owner, id);
		for (int k = 0; k < polls; k++)
			seen += LOAD(&mm.owner);
		STORE(&mm.owner, 0);
		ADD(&mm.count, -1);
		for (int k = 0; k < polls; k++)
			seen += LOAD(&mm.owner);
	}
	return (void *)seen;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", (400000L / (POLLS * (threads - 1) * threads) + 100) * 4 * threads);
	return 0;
}
