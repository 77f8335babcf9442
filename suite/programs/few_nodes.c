/* The same with 400 nodes, each hot enough to be seen alone. */
#include "common.h"
#define NODES 400
struct entry {
	volatile long hits;
	volatile long last_used APART;
};
static struct entry *entries[NODES];
static void *work(void *arg)
{
	long id = (long)arg;
	for (int round = 0; round < 900 && id < 2; round++)
		for (int n = 0; n < NODES; n++) {
			if (id)
				entries[n]->last_used = round;
			else
				entries[n]->hits++;
		}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	for (int i = 0; i < NODES; i++) {
		entries[i] = aligned_alloc(64, (sizeof(struct entry) + 63) / 64 * 64);
		entries[i]->hits = entries[i]->last_used = 0;
	}
	run_threads(work);
	truth("stores", 2L * NODES * 900);
	return 0;
}
