/* C11's threads, each with a counter beside the others'. */
#include "common.h"
#include <threads.h>
static struct { volatile long hits APART; } own[THREADS_MAX];
static int work(void *arg)
{
	for (int i = 0; i < 400000; i++)
		own[(long)arg].hits++;
	return 0;
}
int main(int argc, char **argv)
{
	thrd_t all[THREADS_MAX];
	arguments(argc, argv);
	for (long i = 0; i < threads; i++)
		thrd_create(&all[i], work, (void *)i);
	for (int i = 0; i < threads; i++)
		thrd_join(all[i], NULL);
	truth("stores", 400000L * threads);
	return 0;
}
