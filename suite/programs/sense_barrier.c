/* A sense-reversing barrier. In each phase one thread alone writes the line, each time another one and another element:
 * as many hand-offs as phases. */
#include "common.h"
#define PHASES 60
static int arrived __attribute__((aligned(64)));
static int sense __attribute__((aligned(64)));
static struct {
	volatile long value[8];
} __attribute__((aligned(64))) board;
static void wait_for_all(int *mine)
{
	*mine = !*mine;
	if (__atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL) == threads - 1) {
		STORE(&arrived, 0);
		STORE(&sense, *mine);
		return;
	}
	while (LOAD(&sense) != *mine)
		sched_yield();
}
static void *work(void *arg)
{
	int mine = 0;
	for (int phase = 0; phase < PHASES; phase++) {
		if (phase % threads == (long)arg)
			for (int i = 0; i < 15000; i++)
				board.value[phase % 8] += i;
		wait_for_all(&mine);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("handoffs", PHASES);
	return 0;
}
