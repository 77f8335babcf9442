/* One writer publishes a record of one line under a sequence number, readers copy all of it: sharing it is its purpose. */
#include "common.h"
static struct record {
	unsigned sequence;
	long values[7];
} __attribute__((aligned(64))) record;
static void *work(void *arg)
{
	long sum = 0;
	for (int i = 0; i < 12000; i++) {
		if (arg == 0) {
			__atomic_fetch_add(&record.sequence, 1, __ATOMIC_ACQ_REL);
			for (int k = 0; k < 7; k++)
				STORE(&record.values[k], (long)i);
			__atomic_fetch_add(&record.sequence, 1, __ATOMIC_RELEASE);
			continue;
		}
		sum += LOAD(&record.sequence);
		for (int k = 0; k < 7; k++)
			sum += LOAD(&record.values[k]);
		sum += LOAD(&record.sequence);
	}
	return (void *)sum;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 12000L * 9);
	return 0;
}
