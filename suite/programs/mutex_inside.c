/* Accounts with a mutex, a balance and a count in a line each. Nobody polls: who takes the mutex brings the line, and
 * with it the rest. A section is one hand-off at most, and would be two if lock and data were apart.
 * BROKEN: a statistic of one thread in the same line, which it changes without the mutex. */
#include "common.h"
static struct account {
	pthread_mutex_t mutex;
	volatile long balance;
#ifdef BROKEN
	volatile long looks APART;
#endif
	volatile long moves APART;
} __attribute__((aligned(64))) accounts[4];
static void *work(void *arg)
{
	long me = (long)arg;
	for (int i = 0; i < 20000; i++) {
		struct account *a = &accounts[(i * 7 + me) % 4];
		pthread_mutex_lock(&a->mutex);
		a->balance += i;
		a->moves++;
		pthread_mutex_unlock(&a->mutex);
#ifdef BROKEN
		if (me == 0)
			for (int k = 0; k < 20; k++)
				a->looks++;
#endif
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	for (int i = 0; i < 4; i++)
		pthread_mutex_init(&accounts[i].mutex, NULL);
	run_threads(work);
#ifdef BROKEN
	truth("stores", 400000);
#else
	truth("handoffs", 0);
#endif
	return 0;
}
