/* One byte of progress per thread, stored often. Fixed: a line each. */
#include "common.h"
struct progress {
	volatile unsigned char step;
} APART;
static struct progress progress[THREADS_MAX];
static void *work(void *id)
{
	for (int i = 0; i < 100000; i++)
		progress[(long)id].step = (unsigned char)i;
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 100000L * threads);
	return 0;
}
