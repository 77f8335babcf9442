/* Two fields of each of 2,000 heap nodes, one for even threads and one for odd ones: no node alone is hot, all are.
 * Each thread of a kind has nodes of its own, so that every field has one writer. */
#include "common.h"
#define NODES 2000
struct node {
	volatile long in;
	char name[16];
	volatile long out APART;
};
static struct node *nodes[NODES];
static void *work(void *arg)
{
	long id = (long)arg, pairs = threads / 2;
	if (id / 2 >= pairs)
		return NULL;
	for (int round = 0; round < 150; round++)
		for (long n = id / 2; n < NODES; n += pairs) {
			if (id % 2)
				nodes[n]->out++;
			else
				nodes[n]->in++;
		}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	for (int i = 0; i < NODES; i++) {
		nodes[i] = aligned_alloc(64, (sizeof(struct node) + 63) / 64 * 64);
		nodes[i]->in = nodes[i]->out = 0;
	}
	run_threads(work);
	truth("stores", 2L * NODES * 150);
	return 0;
}
