/* One thread counts `pending` 40,000 times and then sets `stop`; all others spin on `stop`, which lies beside it.
 * Each store takes the line from the spinners, who fetch it again: with the flag apart there is one such store. */
#include "common.h"
/* Not static: what nobody else can see and nobody reads here, a compiler may leave out. */
struct io {
	int stop;
	long pending APART;
} __attribute__((aligned(64))) io;
static void *work(void *id)
{
	long polls = 0;
	if (id == 0) {
		for (int i = 0; i < 40000; i++) {
			STORE(&io.pending, i);
			if (i % 500 == 0)
				sched_yield();
		}
		STORE(&io.stop, 1);
		return NULL;
	}
	while (!LOAD(&io.stop))
		if (++polls % 4096 == 0)
			sched_yield();
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 40000);
	return 0;
}
