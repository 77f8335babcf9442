/* The caller's frame holds the threads' running sums side by side. */
#include "common.h"
struct sum { volatile long total APART; };
static struct sum *sums;
static void *work(void *arg)
{
	for (long i = 0; i < 100000; i++)
		sums[(long)arg].total += i;
	return NULL;
}
int main(int argc, char **argv)
{
	struct sum here[THREADS_MAX] = {{0}};
	arguments(argc, argv);
	sums = here;
	run_threads(work);
	truth("stores", 100000L * threads);
	return (int)(here[0].total & 0);
}
