// Counters of threads in a std::vector of atomics.
#include "common.h"
#include <atomic>
#include <vector>
struct APART Cell {
	std::atomic<long> count{0};
};
static std::vector<Cell> *cells;
static void *work(void *id)
{
	Cell &mine = (*cells)[(long)id];
	for (int i = 0; i < 80000; i++)
		mine.count.store(i, std::memory_order_relaxed);
	return nullptr;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	cells = new std::vector<Cell>(THREADS_MAX);
	run_threads(work);
	truth("stores", 80000L * threads);
	return 0;
}
