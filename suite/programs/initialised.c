/* Main fills the table, the workers read it: no store while anybody else looks. */
#include "common.h"
static volatile long table[512];
static void *work(void *arg)
{
	long sum = (long)arg;
	for (int round = 0; round < 300; round++)
		for (int i = 0; i < 512; i++)
			sum += table[i];
	return (void *)sum;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	for (int round = 0; round < 20; round++)
		for (int i = 0; i < 512; i++)
			table[i] += i;
	run_threads(work);
	truth("handoffs", 64);
	return 0;
}
