/* A sleeping lock as kernels have it: a counter that everybody adds to, and the owner, whom waiters poll POLLS times per
 * store of it. Buggy: both in one line, so that every addition makes the pollers fetch the owner again and each of their
 * fetches takes the line from the next addition. Fixed: a line each. */
#include "common.h"
#ifndef POLLS
#define POLLS 17
#endif
static struct mm {
	long count;
	long owner APART;
	long turns __attribute__((aligned(64)));
} __attribute__((aligned(64))) mm;
static void *work(void *arg)
{
	long id = (long)arg, seen = 0;
	for (int turn = 0; turn < 4000; turn++) {
		for (int i = 0; i < 16; i++) {
			ADD(&mm.count, 1);
			/* Waiters look whether the owner still runs. */
			if (id > 0)
				for (int k = 0; k < POLLS / 4 + 1; k++)
					seen += LOAD(&mm.owner);
		}
		if (id == 0)
			for (int i = 0; i < 4; i++)
				STORE(&mm.owner, (long)turn);
	}
	return (void *)seen;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 4000L * 16 * threads + 16000);
	return 0;
}
