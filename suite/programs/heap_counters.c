/* A malloc'd array of counters, one per thread. Fixed: elements of 64 bytes from aligned_alloc. */
#include "common.h"
struct tally {
	volatile long made;
	volatile long failed;
} APART;
static struct tally *tallies;
static void *work(void *id)
{
	struct tally *mine = &tallies[(long)id];
	for (int i = 0; i < 60000; i++) {
		mine->made++;
		if (i % 4 == 0)
			mine->failed++;
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
#ifdef FIXED
	tallies = aligned_alloc(64, sizeof(struct tally) * THREADS_MAX);
#else
	tallies = malloc(sizeof(struct tally) * THREADS_MAX);
#endif
	for (int i = 0; i < THREADS_MAX; i++)
		tallies[i].made = tallies[i].failed = 0;
	run_threads(work);
	truth("stores", 75000L * threads);
	free(tallies);
	return 0;
}
