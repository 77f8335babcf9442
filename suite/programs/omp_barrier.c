/* The same with OpenMP's barrier: thread k writes the line in step k, 60 steps, 60 hand-offs. */
#include "common.h"
#include <omp.h>
#define STEPS 60
static struct {
	volatile long value[8];
} __attribute__((aligned(64))) board;
int main(int argc, char **argv)
{
	arguments(argc, argv);
	threads = threads > 8 ? 8 : threads;
#pragma omp parallel num_threads(threads)
	for (int step = 0; step < STEPS; step++) {
		if (step % threads == omp_get_thread_num())
			for (int i = 0; i < 12000; i++)
				board.value[step % threads] += i;
#pragma omp barrier
	}
	truth("handoffs", STEPS);
	return 0;
}
