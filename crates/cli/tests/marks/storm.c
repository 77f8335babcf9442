#include "tussle.h"
#include <pthread.h>
#include <stdio.h>
static long sums[4][8] __attribute__((aligned(64)));
static _Atomic long all;
static long twice(long n) { return 2 * n; }
static void *run(void *p) {
	long who = (long)p;
	long (*volatile f)(long) = twice;
	for (int i = 0; i < 400; i++) {
		tussle_region_begin("storm");
		for (int k = 0; k < 200; k++) sums[who][k & 7] += f(k), all++;
		tussle_region_end("storm");
		for (int k = 0; k < 200; k++) sums[who][k & 7] += f(k), all++;
	}
	return 0;
}
int main(void) {
	pthread_t t[4];
	long sum = 0;
	for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, run, (void *)i);
	for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 8; k++) sum += sums[i][k];
	printf("%ld %ld\n", sum, (long)all);
	return 0;
}
