/* An arena with a bump pointer under a mutex: the threads take objects of 24 bytes in turn, so that neighbours belong to
 * different threads; each then stores 2,000 times to each of its 40 objects. Fixed: the arena rounds to 64 bytes. */
#include "common.h"
struct session { long requests, bytes, errors; };
#ifdef FIXED
#define ROUND 64
#else
#define ROUND 24
#endif
static char *arena __attribute__((aligned(64)));
static pthread_mutex_t lock __attribute__((aligned(64))) = PTHREAD_MUTEX_INITIALIZER;
static size_t used __attribute__((aligned(64)));
static pthread_barrier_t turn __attribute__((aligned(64)));
static struct session *session_new(void)
{
	pthread_mutex_lock(&lock);
	struct session *s = (struct session *)(arena + used);
	used += ROUND;
	pthread_mutex_unlock(&lock);
	return s;
}
static void *work(void *arg)
{
	struct session *mine[40];
	for (int k = 0; k < 40; k++) {
		pthread_barrier_wait(&turn);
		mine[k] = session_new();
	}
	for (int i = 0; i < 2000; i++)
		for (int k = 0; k < 40; k++) {
			volatile struct session *s = mine[k];
			s->requests++;
			s->bytes += 100;
		}
	return arg;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	arena = aligned_alloc(64, 64 * 40 * THREADS_MAX);
	pthread_barrier_init(&turn, NULL, threads);
	run_threads(work);
	truth("stores", 160000L * threads);
	return 0;
}
