/* Each thread ends before the next one begins. */
#include "common.h"
static volatile long own[THREADS_MAX] __attribute__((aligned(64)));
static void *work(void *arg)
{
	for (int i = 0; i < 30000; i++)
		own[(long)arg]++;
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	for (int round = 0; round < 4; round++)
		for (long i = 0; i < threads; i++) {
			pthread_t t;
			pthread_create(&t, NULL, work, (void *)i);
			pthread_join(t, NULL);
		}
	truth("handoffs", 4L * threads);
	return 0;
}
