/* A reader-writer lock held for writing for 8,000 iterations: each thread writes an element of its own under it. */
#include "common.h"
static pthread_rwlock_t lock __attribute__((aligned(64))) = PTHREAD_RWLOCK_INITIALIZER;
static struct {
	volatile long value[8];
} __attribute__((aligned(64))) held;
static void *work(void *arg)
{
	for (int turn = 0; turn < 10; turn++) {
		pthread_rwlock_wrlock(&lock);
		for (int i = 0; i < 8000; i++)
			held.value[(long)arg % 8] += i;
		pthread_rwlock_unlock(&lock);
		sched_yield();
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("handoffs", 10L * threads);
	return 0;
}
