/* Shared by all programs of the suite: threads, and the counts that each program makes of itself. */
#ifndef SUITE_COMMON_H
#define SUITE_COMMON_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS_MAX 64

/* In the fixed twin a member or variable begins on a line of its own; in the buggy one it follows its neighbour. */
#ifdef FIXED
#define APART __attribute__((aligned(64)))
#else
#define APART
#endif

/* Tells the processor that the thread polls. */
__attribute__((unused)) static inline void while_polling(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

static int threads = 4;
static long times = 1;
static pthread_barrier_t start_line;

static void *(*suite_work)(void *);

/* All begin together, so that none has finished before the last one is created. */
static void *suite_begin(void *id)
{
	pthread_barrier_wait(&start_line);
	void *last = NULL;
	for (long i = 0; i < times; i++)
		last = suite_work(id);
	return last;
}

/* Runs `work` in `threads` threads, which get 0, 1, 2, .. */
__attribute__((unused)) static void run_threads(void *(*work)(void *))
{
	pthread_t all[THREADS_MAX];
	suite_work = work;
	pthread_barrier_init(&start_line, NULL, (unsigned)threads);
	for (long i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, suite_begin, (void *)i);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
}

static void arguments(int argc, char **argv)
{
	threads = argc > 1 ? atoi(argv[1]) : 4;
	times = argc > 2 ? atol(argv[2]) : 1;
	threads = threads < 2 ? 2 : threads > THREADS_MAX ? THREADS_MAX : threads;
}

/* What the program knows of itself: `stores N` to bytes that others use or that lie beside them, `handoffs N` of data
 * from thread to thread, as counted or as an upper bound that its order of steps gives. */
static void truth(const char *what, long n)
{
	printf("%s %ld\n", what, n);
}

#define LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define ADD(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#endif
