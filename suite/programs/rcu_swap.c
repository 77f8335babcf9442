/* Readers follow a pointer to a setting that a writer replaces 50 times. Each reader counts its nesting in a word of its
 * own: `nesting`, 2 x 100,000 stores each, elements 8 bytes apart. Fixed: one line each. The pointer and the settings
 * cost 50 x readers at most. Two readers at least. The words are no static variable: nobody reads them here, and a
 * compiler may leave out stores that nobody can see. */
#include "common.h"
struct setting { long a, b, c; };
static struct setting *current __attribute__((aligned(64)));
struct { long nesting APART; } reader[THREADS_MAX] __attribute__((aligned(64)));
static int left __attribute__((aligned(64)));
static void *work(void *arg)
{
	long me = (long)arg, sum = 0;
	if (me == 0) {
		for (int k = 0; k < 50; k++) {
			struct setting *s = malloc(256);
			s->a = k, s->b = 2 * k, s->c = 3 * k;
			__atomic_exchange_n(&current, s, __ATOMIC_ACQ_REL);
			for (int i = 0; i < 2000 && LOAD(&left) < threads - 1; i++) sched_yield();
		}
		return NULL;
	}
	for (int i = 0; i < 100000; i++) {
		__atomic_store_n(&reader[me].nesting, 1, __ATOMIC_RELEASE);
		struct setting *s = LOAD(&current);
		sum += s ? s->a + s->b + s->c : 0;
		__atomic_store_n(&reader[me].nesting, 0, __ATOMIC_RELEASE);
	}
	ADD(&left, 1);
	return (void *)sum;
}
int main(int argc, char **argv) { arguments(argc, argv); threads += threads < 3; run_threads(work); truth("stores", 200000L * (threads - 1)); return 0; }
