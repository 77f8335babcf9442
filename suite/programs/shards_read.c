/* Counters sharded by thread; one thread reads all of them every 2,000 of its own additions. Shards are 8 bytes apart:
 * every addition may find the line elsewhere. Fixed: a line each, and the sums cost 100 x threads x threads at most. */
#include "common.h"
struct shard { long n; } APART;
static struct shard shards[THREADS_MAX] __attribute__((aligned(64)));
static void *work(void *arg)
{
	long me = (long)arg, sum = 0;
	for (int i = 0; i < 200000; i++) {
		__atomic_store_n(&shards[me].n, shards[me].n + 1, __ATOMIC_RELAXED);
		if (me == 0 && i % 2000 == 0)
			for (int k = 0; k < threads; k++) sum += __atomic_load_n(&shards[k].n, __ATOMIC_RELAXED);
	}
	return (void *)sum;
}
int main(int argc, char **argv) { arguments(argc, argv); run_threads(work); truth("stores", 200000L * threads); return 0; }
