/* A reference count that every thread takes and drops, beside settings that all read 60 times per reference. The count's
 * own line moves in both twins; the settings' copies are lost in the buggy one only. */
#include "common.h"
static struct session {
	long references;
	volatile int mode APART;
	volatile int level;
} __attribute__((aligned(64))) session;
static void *work(void *arg)
{
	long sum = (long)arg;
	for (int i = 0; i < 3000; i++) {
		ADD(&session.references, 1);
		for (int k = 0; k < 60; k++)
			sum += session.mode;
		sum += session.level;
		ADD(&session.references, -1);
	}
	return (void *)sum;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 6000L * threads);
	return 0;
}
