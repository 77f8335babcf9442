/* Each thread counts its calls, and adds to its failures what the call gave: most often 0. That is no look whether
 * something has changed, and nobody waits. */
#include "common.h"
#include <stdatomic.h>
#define CALLS 100000
static struct {
	atomic_long failures APART;
	volatile long calls;
} server[THREADS_MAX] __attribute__((aligned(64)));
static void *work(void *arg)
{
	long me = (long)arg;
	for (int i = 0; i < CALLS; i++) {
		atomic_fetch_add_explicit(&server[me].failures, i % 10 == 0, memory_order_relaxed);
		server[me].calls++;
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 2L * CALLS * threads);
	return 0;
}
