/* A message of two lines goes from thread to thread as a whole, under a mutex and a condition; each reads and writes all
 * of it. No order of its fields makes it move less. */
#include "common.h"
#define TURNS 3000
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn __attribute__((aligned(64)));
static struct message {
	volatile long words[16];
} __attribute__((aligned(64))) message;
static void *work(void *arg)
{
	long id = (long)arg;
	for (;;) {
		pthread_mutex_lock(&lock);
		while (turn < TURNS && turn % threads != id)
			pthread_cond_wait(&changed, &lock);
		if (turn >= TURNS) {
			pthread_mutex_unlock(&lock);
			return NULL;
		}
		for (int i = 0; i < 16; i++)
			message.words[i] = message.words[(i + 1) % 16] + 1;
		turn++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	threads = threads > 4 ? 4 : threads;
	run_threads(work);
	truth("handoffs", TURNS);
	return 0;
}
