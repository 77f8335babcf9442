/* Rows of ints, a column for each thread; with -DFIXED a row for each thread, and rows are whole lines. */
#include "common.h"
enum { LENGTH = 1024 };
static volatile int table[LENGTH][THREADS_MAX < 16 ? 16 : 64] __attribute__((aligned(64)));
static void *work(void *arg)
{
	long me = (long)arg;
	for (int pass = 0; pass < 100; pass++)
		for (int i = 0; i < LENGTH; i++)
#ifdef FIXED
			table[me * 16 + i / 64][i % 64] += i;
#else
			table[i][me] += i;
#endif
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 100L * LENGTH * threads);
	return 0;
}
