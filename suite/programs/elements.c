/* Each thread counts in its own element of a static array. Buggy: eight elements to a line. */
#include "common.h"
struct slot {
	volatile long hits;
} APART;
static struct slot slots[THREADS_MAX];
static void *work(void *id)
{
	struct slot *mine = &slots[(long)id];
	for (int i = 0; i < 100000; i++)
		mine->hits++;
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 100000L * threads);
	return 0;
}
