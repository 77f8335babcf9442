/* Each thread sets and clears its own bit of one word: the same bytes, wherever the word lies. */
#include "common.h"
static struct {
	unsigned long word __attribute__((aligned(64)));
} bits;
static void *work(void *arg)
{
	unsigned long mine = 1UL << (long)arg;
	for (int i = 0; i < 50000; i++) {
		__atomic_fetch_or(&bits.word, mine, __ATOMIC_RELAXED);
		__atomic_fetch_and(&bits.word, ~mine, __ATOMIC_RELAXED);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 100000L * threads);
	return 0;
}
