/* Epoch reclamation: every operation announces the epoch in the thread's own slot and withdraws it: 2 x 60,000 stores
 * to slots 16 bytes apart. One operation in 4,096 looks at all slots. Fixed: a line per slot. */
#include "common.h"
struct slot { unsigned long epoch; unsigned long retired; } APART;
static struct slot slots[THREADS_MAX] __attribute__((aligned(64)));
static unsigned long epoch __attribute__((aligned(64)));
static void *work(void *arg)
{
	long me = (long)arg;
	for (long i = 1; i <= 60000; i++) {
		__atomic_store_n(&slots[me].epoch, LOAD(&epoch) | 1, __ATOMIC_SEQ_CST);
		slots[me].retired += i & 1;
		if (i % 4096 == 0) {
			int all = 1;
			for (int k = 0; k < threads; k++) all &= (LOAD(&slots[k].epoch) >> 1) <= i;
			if (all && me == 0) ADD(&epoch, 2);
		}
		__atomic_store_n(&slots[me].epoch, 0, __ATOMIC_RELEASE);
	}
	return NULL;
}
int main(int argc, char **argv) { arguments(argc, argv); run_threads(work); truth("stores", 120000L * threads); return 0; }
