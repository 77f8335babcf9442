/* A reference count beside a limit, two ints of one word: all threads count, and read the limit. Fixed: apart. */
#include "common.h"
#include <stdatomic.h>
static struct {
	atomic_int refs;
	volatile int limit APART;
} conf __attribute__((aligned(64)));
static void *work(void *arg)
{
	long sum = 0;
	for (int i = 0; i < 50000; i++) {
		atomic_fetch_add_explicit(&conf.refs, 1, memory_order_relaxed);
		for (int k = 0; k < 16; k++)
			sum += conf.limit;
	}
	return arg ? NULL : (void *)sum;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 50000L * threads);
	return 0;
}
