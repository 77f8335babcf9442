/* All read `limit` all the time, and its neighbour is stored to 100 times by one thread: 100 times a line is taken from
 * its readers. */
#include "common.h"
static struct { volatile long limit, generation; } config __attribute__((aligned(64)));
static void *work(void *arg)
{
	long sum = 0;
	for (int i = 0; i < 200000; i++) {
		sum += config.limit;
		if ((long)arg == 0 && i % 2000 == 0)
			config.generation++;
	}
	return (void *)(sum & 0);
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("handoffs", 100L * threads);
	return 0;
}
