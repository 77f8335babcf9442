/* Two ints of one aligned word of eight bytes, each a thread's own. */
#include "common.h"
struct pair {
	volatile int left;
	volatile int right APART;
} __attribute__((aligned(64)));
static struct pair pair;
static void *work(void *id)
{
	volatile int *mine = id ? &pair.right : &pair.left;
	for (int i = 0; i < 150000; i++)
		(*mine)++;
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	threads = 2;
	run_threads(work);
	truth("stores", 300000);
	return 0;
}
