/* `mine` and `flag` are one word of eight bytes. Buggy: thread 0 counts in `mine`, the others read `flag`, which nobody
 * writes. Fixed: everybody reads a `flag` elsewhere, and only thread 0 reads the one beside `mine`. */
#include "common.h"
static struct {
	volatile int mine;
	volatile int flag;
	volatile int other_flag __attribute__((aligned(64)));
} __attribute__((aligned(64))) p;
static volatile int *seen;
static void *work(void *id)
{
	long sum = 0;
	for (int i = 0; i < 120000; i++) {
		if (id == 0) {
			p.mine++;
			sum += p.flag;
		} else {
#ifdef FIXED
			sum += p.other_flag;
#else
			sum += p.flag;
#endif
		}
	}
	return (void *)sum;
}
int main(int argc, char **argv)
{
	(void)seen;
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 120000);
	return 0;
}
