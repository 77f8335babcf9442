/* Only the data under a test-and-set lock, each turn 20,000 stores long, on a line of its own: it changes hands once per
 * turn at most. The lock word is tried once per millisecond, and so is no fight either. */
#include "common.h"
#include <unistd.h>
static int locked __attribute__((aligned(64)));
static struct {
	volatile long total;
	volatile long kept;
	long last_owner;
	long handoffs;
} __attribute__((aligned(64))) book;
static void *work(void *arg)
{
	long id = (long)arg + 1;
	for (int turn = 0; turn < 8; turn++) {
		while (__atomic_exchange_n(&locked, 1, __ATOMIC_ACQUIRE))
			usleep(1000);
		book.handoffs += book.last_owner != id;
		book.last_owner = id;
		for (int i = 0; i < 20000; i++) {
			if (id % 2)
				book.total += i;
			else
				book.kept += i;
		}
		__atomic_store_n(&locked, 0, __ATOMIC_RELEASE);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("handoffs", book.handoffs);
	return 0;
}
