/* Four threads in steps of 2,000 stores. At the end of each step all count down a word that is used once, and wait
   until it is 0.   latches turns|together|reused   turns: one thread stores in each step. together: all of them, each to
   its own element. reused: together, and what they wait for goes up and down (a semaphore's word). */
#include "common.h"
#include <sched.h>

enum { STEPS = 160, COUNT = 2000 };

static int left[STEPS];
static int credits;
static int turns, reused;
static struct {
	volatile long value[8];
} __attribute__((aligned(64))) board;

static void count_down_and_wait(int step)
{
	__atomic_fetch_sub(&left[step], 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&left[step], __ATOMIC_ACQUIRE) > 0)
		sched_yield();
}

/* At most two at once: the word goes to 0 all the time, and says nothing about who came before. */
static void take_and_give(int id)
{
	for (int i = 0; i < COUNT; i += 100) {
		int n = __atomic_load_n(&credits, __ATOMIC_ACQUIRE);
		while (n == 0 || !__atomic_compare_exchange_n(&credits, &n, n - 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			n = __atomic_load_n(&credits, __ATOMIC_ACQUIRE);
		for (int k = 0; k < 100; k++)
			board.value[id]++;
		__atomic_fetch_add(&credits, 1, __ATOMIC_RELEASE);
	}
}

static void *work(void *arg)
{
	int id = (int)(long)arg;
	for (int step = 0; step < STEPS; step++) {
		if (reused) {
			take_and_give(id);
			continue;
		}
		if (!turns || step % 4 == id)
			for (int k = 0; k < COUNT; k++)
				board.value[id]++;
		count_down_and_wait(step);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	turns = argc > 1 && strcmp(argv[1], "turns") == 0;
	reused = argc > 1 && strcmp(argv[1], "reused") == 0;
	credits = 2;
	for (int step = 0; step < STEPS; step++)
		left[step] = 4;
	parallel(4, work);
	return 0;
}
