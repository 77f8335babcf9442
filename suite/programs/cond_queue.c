/* A queue under a mutex, with conditions: every field is used by all, under the lock, in 400 hand-overs. */
#include "common.h"
static struct { pthread_mutex_t lock; pthread_cond_t filled, emptied; volatile long items[8], head, tail, producers; } q __attribute__((aligned(64))) = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER, .emptied = PTHREAD_COND_INITIALIZER };
static void *work(void *arg)
{
	long me = (long)arg, scratch = 0;
	for (int i = 0; i < 400 / threads; i++) {
		pthread_mutex_lock(&q.lock);
		if (me % 2) {
			while (q.head == q.tail && q.producers)
				pthread_cond_wait(&q.filled, &q.lock);
			if (q.head != q.tail)
				scratch += q.items[q.head++ % 8];
		} else {
			if (q.tail - q.head < 8)
				q.items[q.tail++ % 8] = i;
			pthread_cond_broadcast(&q.filled);
		}
		pthread_mutex_unlock(&q.lock);
		for (volatile int k = 0; k < 500; k++)
			scratch += k;
	}
	pthread_mutex_lock(&q.lock);
	q.producers -= me % 2 == 0;
	pthread_cond_broadcast(&q.filled);
	pthread_mutex_unlock(&q.lock);
	return (void *)(scratch & 0);
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	q.producers = (threads + 1) / 2;
	run_threads(work);
	truth("handoffs", 900);
	return 0;
}
