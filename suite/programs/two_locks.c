/* A queue with two locks. Producers use `tail` and its count, consumers `head` and its count; they never meet but in the
 * line. */
#include "common.h"
static struct queue {
	pthread_spinlock_t head_lock;
	volatile long head;
	pthread_spinlock_t tail_lock APART;
	volatile long tail;
} __attribute__((aligned(64))) queue;
static void *work(void *arg)
{
	for (int i = 0; i < 100000; i++) {
		if (arg == 0)
			queue.head = queue.head + 1;
		else if (arg == (void *)1)
			queue.tail = queue.tail + 1;
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
