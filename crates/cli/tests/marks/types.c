#include "tussle.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
struct conn { long hits; long misses; char rest[48]; };
struct whole { long a; long b; };
static char *pool;
static void *one;
static __attribute__((noinline)) char *opaque(size_t n) { return (char *)aligned_alloc(64, n); }
static void *run(void *p) {
	long who = (long)p;
	for (int i = 0; i < 20000; i++) {
		tussle_operation_begin("request");
		volatile long *f = (volatile long *)(pool + 64);
		f[who]++;
		volatile long *g = (volatile long *)one;
		g[who]++;
		tussle_operation_end("request");
	}
	return 0;
}
int main(void) {
	pool = opaque(4096), one = opaque(64);
	for (int i = 0; i < 8; i++) TUSSLE_PART(pool + 64 * i, struct conn);
	TUSSLE_TYPE(one, struct whole);
	pthread_t t;
	pthread_create(&t, 0, run, (void *)1L);
	run(0);
	pthread_join(t, 0);
	for (int i = 0; i < 8; i++) TUSSLE_PART_END(pool + 64 * i);
	struct conn c = {0};
	struct whole w = {0};
	printf("%ld\n", c.hits + w.a);
	return 0;
}
