/* One counter that all threads add to: the same bytes, wherever they lie. */
#include "common.h"
static struct {
	long total;
} __attribute__((aligned(64))) stats;
static void *work(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100000; i++)
		ADD(&stats.total, 1);
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 100000L * threads);
	return 0;
}
