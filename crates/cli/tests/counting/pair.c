#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static struct { volatile long a, b; } pair __attribute__((aligned(64)));
static volatile long own[2][64] __attribute__((aligned(64)));
static long thousands;
static char kind;
static void *run(void *p) {
	long who = (long)p;
	volatile long *to = who ? &pair.b : &pair.a;
	for (long k = 0; k < thousands; k++) {
		/* Stretches of 400,000 stores: no multiple of a window, nor of what a sample is made of. */
		int here = kind == 'a' || (kind == 'b' && k / 400 % 2);
		if (here)
			for (long i = 0; i < 1000; i++) *to = i;
		else
			for (long i = 0; i < 1000; i++) own[who][8 * (i & 7)] = i;
	}
	return 0;
}
int main(int argc, char **argv) {
	pthread_t t;
	thousands = atol(argv[1]), kind = argv[argc - 1][0];
	pthread_create(&t, 0, run, (void *)1L);
	run(0);
	pthread_join(t, 0);
	printf("done\n");
	return 0;
}
