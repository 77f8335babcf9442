/* A semaphore of one permit is the lock of all: who has it counts for long in a place of its own, then posts. The places
 * lie in one line, which moves with the permit. TWO: two permits, so that two threads count at once. */
#include "common.h"
#include <semaphore.h>
#define TURNS 40
#define COUNTS 2000
static sem_t permits;
static struct {
#ifdef FIXED
	volatile long n __attribute__((aligned(64)));
#else
	volatile long n;
#endif
} place[THREADS_MAX] __attribute__((aligned(64)));
static void *work(void *arg)
{
	for (int turn = 0; turn < TURNS; turn++) {
		sem_wait(&permits);
		for (int i = 0; i < COUNTS; i++)
			place[(long)arg].n++;
		sem_post(&permits);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
#ifdef TWO
	sem_init(&permits, 0, 2);
#else
	sem_init(&permits, 0, 1);
#endif
	run_threads(work);
#ifdef TWO
	truth("stores", (long)TURNS * COUNTS * threads);
#else
	truth("handoffs", (long)TURNS * threads);
#endif
	return 0;
}
