/* Producers that count in neighbouring words, and wake a consumer just after the unlock: nobody holds anything there. */
#include <pthread.h>
#include <stdio.h>

enum { PRODUCERS = 3, ROUNDS = 300, WORK = 400 };

static pthread_mutex_t mutex __attribute__((aligned(128))) = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some __attribute__((aligned(128))) = PTHREAD_COND_INITIALIZER;
static long queued __attribute__((aligned(128))), taken;
static struct { volatile long own[8]; } board __attribute__((aligned(128)));
static pthread_barrier_t start __attribute__((aligned(128)));

static void *produce(void *arg)
{
	long me = (long)arg;
	pthread_barrier_wait(&start);
	for (int k = 0; k < ROUNDS; k++) {
		pthread_mutex_lock(&mutex);
		long before = queued++;
		pthread_mutex_unlock(&mutex);
		if (!before)
			pthread_cond_signal(&some);
		for (int i = 0; i < WORK; i++)
			board.own[me]++;
	}
	return NULL;
}

static void *consume(void *arg)
{
	pthread_barrier_wait(&start);
	while (taken < PRODUCERS * ROUNDS) {
		pthread_mutex_lock(&mutex);
		while (!queued)
			pthread_cond_wait(&some, &mutex);
		taken += queued;
		queued = 0;
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

int main(void)
{
	pthread_t all[PRODUCERS + 1];
	pthread_barrier_init(&start, NULL, PRODUCERS + 1);
	for (long i = 0; i <= PRODUCERS; i++)
		pthread_create(&all[i], NULL, i < PRODUCERS ? produce : consume, (void *)i);
	for (int i = 0; i <= PRODUCERS; i++)
		pthread_join(all[i], NULL);
	printf("%ld\n", taken);
	return 0;
}
