/* Private histograms of 100 ints in one block: only the first and last bins, which are hit most, share lines. */
#include "common.h"
#ifdef FIXED
enum { STRIDE = 128 };
#else
enum { STRIDE = 100 };
#endif
static volatile int *bins;
static void *work(void *arg)
{
	volatile int *mine = bins + (long)arg * STRIDE;
	for (int i = 0; i < 60000; i++) {
		mine[0]++;
		mine[99]++;
		mine[i % 100]++;
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	bins = aligned_alloc(64, sizeof(int) * 128 * THREADS_MAX);
	for (int i = 0; i < 128 * THREADS_MAX; i++)
		bins[i] = 0;
	run_threads(work);
	truth("stores", 180000L * threads);
	return 0;
}
