/* A cache whose entries are found by walking a chain of keys; every find adds to the entry's `hits`. Keys never change
 * after the start. As it is each entry's key and hits share a line, so that every addition takes the keys from all who
 * walk. Fixed: hits lie apart; the additions to a few hot entries remain, the same bytes. */
#include "common.h"
#define ENTRIES 8
struct entry { struct entry *next APART; long key; long hits APART; };
static struct entry *first;
static void *work(void *arg)
{
	unsigned x = 12345 + (unsigned)(long)arg;
	for (int i = 0; i < 40000; i++) {
		x = x * 1103515245 + 12345;
		long key = (x >> 16) % ENTRIES;
		for (struct entry *e = first; e; e = e->next)
			if (e->key == key) {
				ADD(&e->hits, 1);
				break;
			}
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	for (int k = 0; k < ENTRIES; k++) {
		struct entry *e = aligned_alloc(64, 128);
		e->next = first, e->key = k, e->hits = 0, first = e;
	}
	run_threads(work);
	truth("stores", 40000L * threads);
	return 0;
}
