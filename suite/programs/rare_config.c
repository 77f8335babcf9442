/* All read `limit` all the time, and one thread stores to its neighbour so rarely that all readers together lose the line
 * 400 times. */
#include "common.h"
static struct { volatile long limit, generation; } config __attribute__((aligned(64)));
static void *work(void *arg)
{
	long sum = 0;
	for (int i = 0; i < 200000; i++) {
		sum += config.limit;
		if ((long)arg == 0 && i % (500L * threads) == 0)
			config.generation++;
	}
	return (void *)(sum & 0);
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("handoffs", 400);
	return 0;
}
