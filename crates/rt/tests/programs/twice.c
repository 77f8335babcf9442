/* One process has the same memory at two addresses; a thread stores by each. */
#define _GNU_SOURCE
#include "common.h"
#include <sys/mman.h>
#include <unistd.h>

enum { STORES = 100000 };
static volatile long *at[2];

static void *work(void *arg)
{
	long me = (long)arg;
	for (int i = 0; i < STORES; i++)
		at[me][me] = i;
	return NULL;
}

int main(void)
{
	const int both = PROT_READ | PROT_WRITE;
	int file = memfd_create("ring", 0);
	if (ftruncate(file, 4096) != 0)
		return 3;
	for (int i = 0; i < 2; i++)
		at[i] = mmap(NULL, 4096, both, MAP_SHARED, file, 0);
	if (at[0] == MAP_FAILED || at[1] == MAP_FAILED)
		return 4;
	parallel(2, work);
	return 0;
}
