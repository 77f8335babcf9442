/* An array of buckets, each with its lock and its count; each thread has buckets of its own. */
#include "common.h"
struct bucket {
	volatile long used;
	pthread_mutex_t lock;
} APART;
/* Begins with a line, so that neighbours share one however few there are. */
static struct bucket buckets[THREADS_MAX] __attribute__((aligned(64)));
static void *work(void *arg)
{
	struct bucket *mine = &buckets[(long)arg];
	for (int i = 0; i < 20000; i++) {
		pthread_mutex_lock(&mine->lock);
		mine->used++;
		pthread_mutex_unlock(&mine->lock);
		mine->used++;
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	for (int i = 0; i < THREADS_MAX; i++)
		pthread_mutex_init(&buckets[i].lock, NULL);
	run_threads(work);
	truth("stores", 40000L * threads);
	return 0;
}
