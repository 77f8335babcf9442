/* A ticket lock, its two words and the data on a line each. All threads use all of the data: the same bytes. */
#include "common.h"
static unsigned next __attribute__((aligned(64)));
static unsigned owner __attribute__((aligned(64)));
static struct {
	volatile long x, y, z;
} __attribute__((aligned(64))) held;
static void *work(void *arg)
{
	(void)arg;
	for (int turn = 0; turn < 2000; turn++) {
		unsigned mine = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
		for (int polls = 1; LOAD(&owner) != mine; polls++)
			if (polls % 32 == 0)
				sched_yield();
		for (int i = 0; i < 20; i++) {
			held.x++;
			held.y += held.x;
			held.z += held.y;
		}
		STORE(&owner, mine + 1);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("handoffs", 2000L * threads);
	return 0;
}
