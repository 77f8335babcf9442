/* The same in OpenMP's critical section. */
#include "common.h"
#include <omp.h>
static struct {
	volatile long value[8];
} __attribute__((aligned(64))) held;
int main(int argc, char **argv)
{
	arguments(argc, argv);
#pragma omp parallel num_threads(threads)
	for (int turn = 0; turn < 12; turn++) {
#pragma omp critical
		for (int i = 0; i < 6000; i++)
			held.value[omp_get_thread_num() % 8] += i;
	}
	truth("handoffs", 12L * threads);
	return 0;
}
