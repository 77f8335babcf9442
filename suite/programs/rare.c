/* Neighbours in one line, but stored to once in ten thousand steps: 10 stores each are no harm. */
#include "common.h"
static volatile long beats[THREADS_MAX];
static volatile long private_work[THREADS_MAX][64] __attribute__((aligned(64)));
static void *work(void *arg)
{
	long id = (long)arg;
	for (int i = 0; i < 100000; i++) {
		private_work[id][i % 64]++;
		if (i % 10000 == 0)
			beats[id]++;
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("handoffs", 10L * threads);
	return 0;
}
