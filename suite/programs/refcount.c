/* A reference count that every thread takes and drops, beside settings that all read 60 times per reference. The count's
 * own line moves in both twins; the settings' copies are lost in the buggy one only: both of them, so that either
 * may be named. */
#include "common.h"
static struct session {
	long references;
	volatile int mode APART;
	volatile int mode_level;
} __attribute__((aligned(64))) session;
static void *work(void *arg)
{
	long sum = (long)arg;
	for (int i = 0; i < 3000; i++) {
		ADD(&session.references, 1);
		for (int k = 0; k < 30; k++)
			sum += session.mode + session.mode_level;
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
