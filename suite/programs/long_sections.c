/* 300 numbers and four statistics, all under one mutex, in sections of some 1,500 accesses: they move with the mutex,
 * at most a line at a time and section. */
#include "common.h"
static pthread_mutex_t mutex __attribute__((aligned(64))) = PTHREAD_MUTEX_INITIALIZER;
static struct {
	long v[300];
	volatile long sum, largest, smallest, runs;
} t __attribute__((aligned(64)));
static void *work(void *arg)
{
	long me = (long)arg;
	for (int turn = 0; turn < 300; turn++) {
		pthread_mutex_lock(&mutex);
		for (int i = 0; i < 300; i++) {
			((volatile long *)t.v)[i] += me + i;
			t.sum += t.v[i];
		}
		if (t.sum > t.largest)
			t.largest = t.sum;
		if (t.sum < t.smallest)
			t.smallest = t.sum;
		t.runs++;
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("handoffs", 0);
	return 0;
}
