/* A matrix cut into vertical strips, one per thread, as in a blocked factorisation; a barrier after each sweep. Buggy: a
 * strip is 20 columns of 8 bytes wide, so that each row has a line of two threads at every border. Fixed: 24 columns of
 * a matrix that begins on a line, so that each border is a line's border. */
#include "common.h"
#define ROWS 1500
#ifdef FIXED
#define STRIP 24
#else
#define STRIP 20
#endif
static double *matrix;
static long width;
static pthread_barrier_t swept;
static void *work(void *arg)
{
	long id = (long)arg;
	for (int sweep = 0; sweep < 12; sweep++) {
		for (long row = 0; row < ROWS; row++) {
			volatile double *mine = matrix + row * width + id * STRIP;
			for (int k = 0; k < STRIP; k++)
				mine[k] = mine[k] * 0.5 + 1.0;
		}
		pthread_barrier_wait(&swept);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	threads = threads > 8 ? 8 : threads;
	width = (STRIP * (long)threads + 7) / 8 * 8;
	matrix = aligned_alloc(64, sizeof(double) * (size_t)(width * ROWS));
	for (long i = 0; i < width * ROWS; i++)
		matrix[i] = 0;
	pthread_barrier_init(&swept, NULL, (unsigned)threads);
	run_threads(work);
	/* At each border two threads store 4 doubles each into the line of each row and sweep. */
	truth("stores", 8L * 12 * ROWS * (threads / 2));
	return 0;
}
