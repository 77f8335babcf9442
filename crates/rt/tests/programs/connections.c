/* A thread for each connection, joined by nobody: ROUNDS times WIDTH threads, each of which adds n times to a word of its
   place; their creator sleeps until all of a round have ended.
     -DWIDTH=1      one at a time: nobody is met
     -DBY_ATTRIBUTE created detached
     -DAWAKE        all rounds at once, without a pause */
#include "common.h"
#include <unistd.h>
#ifndef WIDTH
#define WIDTH 2
#endif
enum { ROUNDS = 20 };
static volatile long own[2] __attribute__((aligned(64)));
static long n, ended;

static void *serve(void *place)
{
	/* Until all of the round are there. */
	usleep(WIDTH > 1 ? 1000 : 0);
	for (long i = 0; i < n; i++)
		own[(long)place]++;
	__atomic_fetch_add(&ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void wait_for(long threads)
{
	while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < threads)
		usleep(1000);
	usleep(20000);
}

int main(int argc, char **argv)
{
	pthread_attr_t how;
	n = number(argc, argv, 1, 200000);
	pthread_attr_init(&how);
#ifdef BY_ATTRIBUTE
	pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
#endif
	for (long round = 0; round < ROUNDS; round++) {
		for (long i = 0; i < WIDTH; i++) {
			pthread_t t;
			pthread_create(&t, &how, serve, (void *)i);
#ifndef BY_ATTRIBUTE
			pthread_detach(t);
#endif
		}
#ifndef AWAKE
		wait_for((round + 1) * WIDTH);
#endif
	}
	wait_for(ROUNDS * WIDTH);
	return 0;
}
