/* Workers go through a list of tasks, each taking every so many-th, and keep storing to the task that they have, which
 * lies beside others' tasks. */
#include "common.h"
struct task { volatile long done, left APART; } APART;
static struct task tasks[64];
static void *work(void *arg)
{
	for (long mine = (long)arg; mine < 64; mine += threads)
		for (int i = 0; i < 5000; i++) {
			tasks[mine].done++;
			tasks[mine].left--;
		}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 64L * 10000);
	return 0;
}
