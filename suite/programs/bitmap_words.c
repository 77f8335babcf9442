/* A bitmap allocator: thread t takes and returns bits of word t, which lie beside one another. Fixed: the words are
 * spread over lines. -DONE: all threads use one word: the same bytes. */
#include "common.h"
struct word { unsigned long bits; } APART;
static struct word map[THREADS_MAX] __attribute__((aligned(64)));
static void *work(void *arg)
{
	long me = (long)arg;
#ifdef ONE
	unsigned long *w = &map[0].bits;
#else
	unsigned long *w = &map[me].bits;
#endif
	for (int i = 0; i < 60000; i++) {
		unsigned long bit = 1ul << ((i * 7 + me * 13) % 64);
		__atomic_fetch_or(w, bit, __ATOMIC_ACQUIRE);
		__atomic_fetch_and(w, ~bit, __ATOMIC_RELEASE);
	}
	return NULL;
}
int main(int argc, char **argv) { arguments(argc, argv); run_threads(work); truth("stores", 120000L * threads); return 0; }
