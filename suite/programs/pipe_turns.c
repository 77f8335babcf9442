/* A token goes round through pipes: who has it stores 20,000 times, nobody else stores meanwhile. */
#include "common.h"
#include <unistd.h>
static int pipes[THREADS_MAX][2];
static volatile long own[THREADS_MAX] __attribute__((aligned(64)));
static void *work(void *arg)
{
	long me = (long)arg;
	char token;
	for (int turn = 0; turn < 8; turn++) {
		if (read(pipes[me][0], &token, 1) != 1)
			exit(1);
		for (int i = 0; i < 20000; i++)
			own[me]++;
		if (write(pipes[(me + 1) % threads][1], &token, 1) != 1)
			exit(1);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	for (int i = 0; i < threads; i++)
		if (pipe(pipes[i]))
			return 1;
	if (write(pipes[0][1], "t", 1) != 1)
		return 1;
	run_threads(work);
	truth("handoffs", 8L * threads);
	return 0;
}
