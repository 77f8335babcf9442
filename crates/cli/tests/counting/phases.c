#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile long words[3][8] __attribute__((aligned(64)));
static volatile long warm[2][512];
static pthread_barrier_t barrier;
static volatile int signals;
static void count(int s) { (void)s; signals = signals + 1; }
static void phase(int n, int who) {
	char name[16];
	pthread_barrier_wait(&barrier);
	if (who == 0) {
		snprintf(name, sizeof name, "phase-%d", n);
		fclose(fopen(name, "w"));
		snprintf(name, sizeof name, "go-%d", n);
		while (access(name, 0)) usleep(1000);
	}
	pthread_barrier_wait(&barrier);
	/* Whatever was said is heard by the first of these. */
	for (long i = 0; i < 100000; i++) warm[who][i & 511] = i;
	for (long i = 0; i < 1000000; i++) words[n][who] = i;
}
static void *run(void *p) {
	for (int n = 0; n < 3; n++) phase(n, (int)(long)p);
	return 0;
}
int main(void) {
	pthread_t t;
	signal(SIGUSR2, count);
	pthread_barrier_init(&barrier, 0, 2);
	pthread_create(&t, 0, run, (void *)1L);
	run(0);
	pthread_join(t, 0);
	printf("signals %d\n", signals);
	return 0;
}
