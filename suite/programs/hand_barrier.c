/* A barrier made of atomics. Between two of them one thread alone writes the line, in turn and each its own
 * element: as many hand-offs as steps. */
#include "common.h"
#define STEPS 60
static int arrived __attribute__((aligned(64)));
static int generation __attribute__((aligned(64)));
static struct {
	volatile long value[8];
} __attribute__((aligned(64))) board;
static void wait_for_all(void)
{
	int mine = LOAD(&generation);
	if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == threads) {
		STORE(&arrived, 0);
		STORE(&generation, mine + 1);
		return;
	}
	while (LOAD(&generation) == mine)
		sched_yield();
}
static void *work(void *arg)
{
	for (int step = 0; step < STEPS; step++) {
		if (step % threads == (long)arg)
			for (int i = 0; i < 12000; i++)
				board.value[step % threads] += i;
		wait_for_all();
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	threads = threads > 8 ? 8 : threads;
	run_threads(work);
	truth("handoffs", STEPS);
	return 0;
}
