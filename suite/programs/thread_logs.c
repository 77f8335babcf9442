/* A log per thread in one block; the lengths of all logs are kept together, 4 bytes apart, and each is stored once per
 * byte logged: 150,000 times. Fixed: the length stands at the head of its log, on a line of its own. */
#include "common.h"
#define LOG 4032
struct log { char text[LOG]; } __attribute__((aligned(64)));
static struct log logs[THREADS_MAX];
#ifdef FIXED
static struct { int used; } __attribute__((aligned(64))) length[THREADS_MAX];
#else
static struct { int used; } length[THREADS_MAX] __attribute__((aligned(64)));
#endif
static void *work(void *arg)
{
	long me = (long)arg;
	volatile int *used = &length[me].used;
	for (int i = 0; i < 150000; i++) {
		logs[me].text[*used] = (char)i;
		*used = (*used + 1) % LOG;
	}
	return NULL;
}
int main(int argc, char **argv) { arguments(argc, argv); run_threads(work); truth("stores", 150000L * threads); return 0; }
