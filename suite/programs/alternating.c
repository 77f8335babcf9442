/* Marks of slots that belong to the threads in turn: two threads store to bytes of the same words, never to the same
 * byte. FIXED: each thread's marks lie together on lines of their own. MARK: the type of a mark. */
#include "common.h"
#define MARKS 16
#ifndef MARK
#define MARK unsigned char
#endif
static volatile MARK marks[MARKS] __attribute__((aligned(64)));
static struct {
	volatile MARK marks[MARKS];
} __attribute__((aligned(64))) own[2];
static void *work(void *arg)
{
	long me = (long)arg;
	for (int i = 0; i < 100000; i++) {
#ifdef FIXED
		own[me].marks[2 * i % MARKS] = (MARK)i;
#else
		marks[(2 * i + me) % MARKS] = (MARK)i;
#endif
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	threads = 2;
	run_threads(work);
	truth("stores", 200000);
	return 0;
}
