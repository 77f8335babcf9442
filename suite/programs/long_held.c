/* A mutex held for 40,000 accesses at a time: the fields under it are different threads' in turn, never at once. */
#include "common.h"
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	volatile long a;
	volatile long b;
	long last_owner;
	long handoffs;
} __attribute__((aligned(64))) held;
static void *work(void *arg)
{
	long id = (long)arg + 1;
	for (int turn = 0; turn < 8; turn++) {
		pthread_mutex_lock(&lock);
		held.handoffs += held.last_owner != id;
		held.last_owner = id;
		for (int i = 0; i < 20000; i++) {
			if (id % 2)
				held.a++;
			else
				held.b++;
		}
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("handoffs", held.handoffs);
	return 0;
}
