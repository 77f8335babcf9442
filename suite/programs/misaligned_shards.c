/* Elements of 64 bytes from malloc, which begin 16 bytes into a line: the end of one and the start of the next one
 * share a line. */
#include "common.h"
struct shard { volatile long first; char between[48]; volatile long last; };
static struct shard *shards;
static void *work(void *arg)
{
	struct shard *mine = &shards[(long)arg];
	for (int i = 0; i < 50000; i++) {
		mine->first++;
		mine->last++;
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
#ifdef FIXED
	shards = aligned_alloc(64, sizeof(struct shard) * THREADS_MAX);
#else
	shards = (struct shard *)((char *)aligned_alloc(64, 64 + sizeof(struct shard) * THREADS_MAX) + 16);
#endif
	run_threads(work);
	truth("stores", 100000L * threads);
	return 0;
}
