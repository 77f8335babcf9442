/* A table pointer that all threads read and nobody writes, beside a counter that thread 0 writes. */
#include "common.h"
static int table[256];
static struct cache {
	int *volatile table;
	volatile long misses APART;
} __attribute__((aligned(64))) cache = { .table = table };
static void *work(void *arg)
{
	long sum = 0;
	for (int i = 0; i < 100000; i++) {
		if (arg == 0)
			cache.misses++;
		else
			sum += cache.table[i & 255];
	}
	return (void *)sum;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 100000);
	return 0;
}
