// A hash map in shards, each with its hits; each thread uses its own shard. The shards lie in one array.
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
	for (long i = 0; i < 20000; i++) {
		mine.hits = mine.hits + 1;
		mine.entries[i % 64] += i;
	}
	return nullptr;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	shards = new Shard[THREADS_MAX];
	run_threads(work);
	truth("stores", 20000L * threads);
	return 0;
}
