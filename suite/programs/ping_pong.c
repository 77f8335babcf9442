/* Two threads take turns with semaphores, 200 times, with 5,000 stores per turn into two fields of one line. */
#include "common.h"
#include <semaphore.h>
#define TURNS 200
static sem_t ready[2];
static struct {
	volatile long ping;
	volatile long pong;
} __attribute__((aligned(64))) ball;
static void *work(void *arg)
{
	long id = (long)arg;
	for (int turn = 0; turn < TURNS / 2; turn++) {
		sem_wait(&ready[id]);
		for (int i = 0; i < 5000; i++) {
			if (id)
				ball.pong++;
			else
				ball.ping++;
		}
		sem_post(&ready[1 - id]);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	threads = 2;
	sem_init(&ready[0], 0, 1);
	sem_init(&ready[1], 0, 0);
	run_threads(work);
	truth("handoffs", TURNS);
	return 0;
}
