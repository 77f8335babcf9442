/* Partial sums in an array, one element per OpenMP thread, as in many tutorials. */
#include "common.h"
#include <omp.h>
static struct sum {
	volatile double value;
} APART sums[THREADS_MAX];
int main(int argc, char **argv)
{
	arguments(argc, argv);
#pragma omp parallel num_threads(threads)
	for (int i = 0; i < 80000; i++)
		sums[omp_get_thread_num()].value += i * 0.5;
	truth("stores", 80000L * threads);
	return 0;
}
