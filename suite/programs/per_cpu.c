/* A counter for each CPU, chosen by where the thread runs, as allocators and statistics do. */
#include "common.h"
static struct { long events APART; } cpus[1024];
static void *work(void *arg)
{
	(void)arg;
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET((int)(long)arg % 2, &one);
	sched_setaffinity(0, sizeof one, &one);
	for (int i = 0; i < 50000; i++)
		__atomic_fetch_add(&cpus[sched_getcpu()].events, 1, __ATOMIC_RELAXED);
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 50000L * threads);
	return 0;
}
