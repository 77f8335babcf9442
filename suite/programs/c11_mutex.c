/* C11's threads and mutex: held for 20,000 accesses at a time, so the line changes hands 8 times per thread at most. */
#include "common.h"
#include <threads.h>
static mtx_t lock;
static volatile long own[THREADS_MAX] __attribute__((aligned(64)));
static int work(void *arg)
{
	for (int turn = 0; turn < 8; turn++) {
		mtx_lock(&lock);
		for (int i = 0; i < 10000; i++)
			own[(long)arg]++;
		mtx_unlock(&lock);
	}
	return 0;
}
int main(int argc, char **argv)
{
	thrd_t all[THREADS_MAX];
	arguments(argc, argv);
	mtx_init(&lock, mtx_plain);
	for (long i = 0; i < threads; i++)
		thrd_create(&all[i], work, (void *)i);
	for (int i = 0; i < threads; i++)
		thrd_join(all[i], NULL);
	truth("handoffs", 8L * threads);
	return 0;
}
