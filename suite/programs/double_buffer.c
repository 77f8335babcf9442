/* Two buffers: while all fill one, each its own part, the other is read; they change places at a barrier. Parts are
 * whole lines, so a line is handed on once per round. */
#include "common.h"
enum { ROUNDS = 12, PART = 8 };
static volatile long buffers[2][THREADS_MAX][PART] __attribute__((aligned(64)));
static pthread_barrier_t swap;
static void *work(void *arg)
{
	long me = (long)arg, sum = 0;
	for (int round = 0; round < ROUNDS; round++) {
		for (int pass = 0; pass < 2500; pass++)
			for (int i = 0; i < PART; i++) {
				buffers[round % 2][me][i]++;
				sum += buffers[1 - round % 2][(me + 1) % threads][i];
			}
		pthread_barrier_wait(&swap);
	}
	return (void *)(sum & 0);
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	pthread_barrier_init(&swap, NULL, (unsigned)threads);
	run_threads(work);
	truth("handoffs", ROUNDS * 2L * threads);
	return 0;
}
