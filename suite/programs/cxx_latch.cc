// C++20. Main fills a table, then opens a latch; from then on the threads only read it.
#include "common.h"
#include <latch>
static long table_[512];
static std::latch ready(1);
static struct {
	long sum __attribute__((aligned(64)));
} sums[THREADS_MAX];
static void *work(void *arg)
{
	long id = reinterpret_cast<long>(arg);
	ready.wait();
	for (int round = 0; round < 100; round++)
		for (long x : table_)
			sums[id].sum += x;
	return nullptr;
}
static void *fill(void *)
{
	for (int round = 0; round < 100; round++)
		for (long &x : table_)
			x += round;
	ready.count_down();
	return nullptr;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	pthread_t filler;
	pthread_create(&filler, nullptr, fill, nullptr);
	run_threads(work);
	pthread_join(filler, nullptr);
	truth("handoffs", 64L * threads);
	return 0;
}
