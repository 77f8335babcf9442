/* The founding twin: a lock word beside the data that it guards, waiters poll the word. Holders store PER times under
 * it; every poll may take the line from the holder. -DDATA=int: both in one word of the machine. -DFIXED: the lock word
 * on a line of its own: quiet. */
#include "common.h"
#ifndef DATA
#define DATA long
#endif
enum { SECTIONS = 160, PER = 20000 };
static struct { int word; volatile DATA data APART; } both __attribute__((aligned(128)));
static void *work(void *arg)
{
	for (int k = 0; k < SECTIONS / threads; k++) {
		for (;;) {
			int z = 0;
			if (!LOAD(&both.word) && __atomic_compare_exchange_n(&both.word, &z, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) break;
			while_polling();
		}
		for (int i = 0; i < PER; i++) both.data++;
		STORE(&both.word, 0);
	}
	return arg;
}
int main(int argc, char **argv) { arguments(argc, argv); run_threads(work); truth("stores", (long)SECTIONS * PER); truth("handoffs", SECTIONS); return 0; }
