/* Arguments of threads in one malloc'd array, with sums that each thread writes: an element is exactly 64 bytes, so it
 * depends on where malloc puts the first one whether neighbours meet. malloc aligns to 16: three of four places fight.
 * SHIFT moves the first element to one of the four. Fixed: aligned_alloc. */
#include "common.h"
#ifndef SHIFT
#define SHIFT 0
#endif
struct args {
	long points;
	volatile long sx, sy, sxx, syy, sxy;
	long pad[2];
};
static struct args *args;
static void *work(void *id)
{
	struct args *mine = &args[(long)id];
	for (int i = 0; i < 15000; i++) {
		mine->sx += i;
		mine->sy += 2;
		mine->sxx += 3;
		mine->syy += 4;
		mine->sxy += 5;
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
#ifdef FIXED
	args = aligned_alloc(64, sizeof(struct args) * THREADS_MAX);
#else
	/* Chunks of glibc are multiples of 16 bytes: each filler moves the next request by 48, until it lies where we want it. */
	void *volatile filler[4];
	args = NULL;
	for (int i = 0; i < 4; i++) {
		args = malloc(sizeof(struct args) * THREADS_MAX);
		if ((unsigned long)args % 64 == SHIFT)
			break;
		free(args);
		filler[i] = malloc(40);
		(void)filler;
	}
#endif
	for (int i = 0; i < THREADS_MAX; i++)
		args[i] = (struct args){ 0 };
	run_threads(work);
	truth("stores", 75000L * threads);
	return 0;
}
