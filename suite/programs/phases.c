/* Jacobi: rows of a grid in phases between barriers, two grids in turn; each thread keeps its largest change in an
 * element of an array, stored 64 times per row. Fixed: in a local, stored once per phase. */
#include "common.h"
#define N 64
static double grid[2][N + 2][N + 2];
static double change[THREADS_MAX] __attribute__((aligned(64)));
static pthread_barrier_t phase;
static void *work(void *arg)
{
	long me = (long)arg;
	for (int k = 0; k < 60; k++) {
		double (*from)[N + 2] = grid[k % 2], (*to)[N + 2] = grid[1 - k % 2], most = 0;
		for (int y = 1 + (int)me * N / threads; y <= ((int)me + 1) * N / threads; y++)
			for (int x = 1; x <= N; x++) {
				to[y][x] = (from[y - 1][x] + from[y + 1][x] + from[y][x - 1] + from[y][x + 1]) / 4;
				double d = to[y][x] - from[y][x];
#ifdef FIXED
				most = d > most ? d : most;
#else
				*(volatile double *)&change[me] = d > change[me] ? d : change[me];
#endif
			}
#ifdef FIXED
		change[me] = most;
#endif
		pthread_barrier_wait(&phase);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	pthread_barrier_init(&phase, NULL, threads);
	for (int i = 0; i < N + 2; i++) grid[0][0][i] = grid[1][0][i] = 100;
	run_threads(work);
	truth("stores", 60L * N * N);
	return 0;
}
