/* Objects of different threads carved from one block, one after another. */
#include "common.h"
struct worker { volatile long jobs, bytes; };
#ifdef FIXED
enum { STRIDE = 128 };
#else
enum { STRIDE = sizeof(struct worker) };
#endif
static char *block;
static void *work(void *arg)
{
	struct worker *mine = (struct worker *)(block + (long)arg * STRIDE);
	for (int i = 0; i < 50000; i++) {
		mine->jobs++;
		mine->bytes += i;
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	block = aligned_alloc(128, 128 * THREADS_MAX);
	for (int i = 0; i < 128 * THREADS_MAX; i++)
		block[i] = 0;
	run_threads(work);
	truth("stores", 100000L * threads);
	return 0;
}
