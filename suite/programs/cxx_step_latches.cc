// C++20. A latch for each step, used once by all threads. Buggy: in each step all threads count at the same time, each
// its own element. Fixed: one thread counts in each step, each time another one: as many hand-offs as steps.
#include "common.h"
#include <deque>
#include <latch>
#define STEPS 160
static std::deque<std::latch> steps;
static struct {
	volatile long value[8];
} __attribute__((aligned(64))) board;
static void *work(void *arg)
{
	long id = reinterpret_cast<long>(arg);
	for (int step = 0; step < STEPS; step++) {
#ifdef FIXED
		if (step % threads == id)
#endif
			for (int i = 0; i < 2000; i++)
				board.value[id % 8] += i;
		steps[step].arrive_and_wait();
	}
	return nullptr;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	threads = threads > 8 ? 8 : threads;
	for (int step = 0; step < STEPS; step++)
		steps.emplace_back(threads);
	run_threads(work);
#ifdef FIXED
	truth("handoffs", STEPS);
#else
	truth("stores", 2000L * STEPS * threads);
#endif
	return 0;
}
