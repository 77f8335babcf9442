/* Two variables that have nothing to do with each other, placed side by side by the linker. */
#include "common.h"
static struct {
	volatile long received;
	volatile long sent APART;
} __attribute__((aligned(64))) net;
static void *work(void *id)
{
	for (int i = 0; i < 150000; i++) {
		if ((long)id % 2)
			net.sent = net.sent + ((long)id < 2);
		else
			net.received = net.received + ((long)id < 2);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	threads = 2;
	run_threads(work);
	truth("stores", 300000);
	return 0;
}
