#include "tussle.h"
#include <pthread.h>
#include <stdio.h>
static volatile long words[3][8] __attribute__((aligned(64)));
static pthread_barrier_t barrier;
static void phase(int k, int who, long n) { for (long i = 0; i < n; i++) words[k][who] = i; }
static void *run(void *p) {
	int who = (int)(long)p;
	phase(0, who, 300000);
	pthread_barrier_wait(&barrier);
	tussle_region_begin("middle");
	tussle_region_begin("inner");
	phase(1, who, 50000);
	tussle_region_end("inner");
	phase(1, who, 50000);
	tussle_region_end("middle");
	pthread_barrier_wait(&barrier);
	phase(2, who, 300000);
	tussle_region_end("never began");
	return 0;
}
int main(void) {
	pthread_t t;
	pthread_barrier_init(&barrier, 0, 2);
	pthread_create(&t, 0, run, (void *)1L);
	run(0);
	pthread_join(t, 0);
	printf("done\n");
	return 3;
}
