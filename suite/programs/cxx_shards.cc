// A hash map in shards, each with its hits; each thread looks keys up in its own shard. The shards lie in one array; the
// maps are filled before the threads begin, so that nobody stores to their nodes.
#include "common.h"
#include <string>
#include <unordered_map>
struct APART Shard {
	volatile long hits = 0;
	std::unordered_map<long, long> entries;
};
static Shard *shards;
static void *work(void *arg)
{
	Shard &mine = shards[(long)arg];
	long sum = 0;
	for (long i = 0; i < 400000; i++) {
		mine.hits = mine.hits + 1;
		sum += mine.entries.find(i % 64)->second;
	}
	return (void *)sum;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	shards = new Shard[THREADS_MAX];
	for (int s = 0; s < THREADS_MAX; s++)
		for (long k = 0; k < 64; k++)
			shards[s].entries[k] = k;
	run_threads(work);
	truth("stores", 400000L * threads);
	return 0;
}
