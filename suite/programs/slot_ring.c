/* Vyukov's bounded queue: half of the threads put, half take; each slot has a sequence word and a value. The two
 * cursors are each changed by one side only. As it is both lie on one line; fixed: each on its own. What is left then
 * are the cursors, that several threads of a side change: the same bytes. */
#include "common.h"
#define SIZE 1024
struct cell { unsigned long sequence, value; } __attribute__((aligned(64)));
static struct { unsigned long put APART; unsigned long take APART; } cursor __attribute__((aligned(64)));
static struct cell cells[SIZE];
static void put(unsigned long v)
{
	unsigned long at = __atomic_load_n(&cursor.put, __ATOMIC_RELAXED);
	for (;;) {
		struct cell *c = &cells[at % SIZE];
		long d = (long)(LOAD(&c->sequence) - at);
		if (d == 0 && __atomic_compare_exchange_n(&cursor.put, &at, at + 1, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			c->value = v;
			STORE(&c->sequence, at + 1);
			return;
		}
		if (d < 0) sched_yield();
		if (d) at = __atomic_load_n(&cursor.put, __ATOMIC_RELAXED);
	}
}
static unsigned long take(void)
{
	unsigned long at = __atomic_load_n(&cursor.take, __ATOMIC_RELAXED);
	for (;;) {
		struct cell *c = &cells[at % SIZE];
		long d = (long)(LOAD(&c->sequence) - (at + 1));
		if (d == 0 && __atomic_compare_exchange_n(&cursor.take, &at, at + 1, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			unsigned long v = c->value;
			STORE(&c->sequence, at + SIZE);
			return v;
		}
		if (d < 0) sched_yield();
		if (d) at = __atomic_load_n(&cursor.take, __ATOMIC_RELAXED);
	}
}
static void *work(void *arg)
{
	long me = (long)arg, sum = 0;
	for (int i = 0; i < 40000; i++) {
		if (me % 2) put(i);
		else sum += (long)take();
	}
	return (void *)sum;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	threads &= ~1;
	for (int i = 0; i < SIZE; i++) cells[i].sequence = i;
	run_threads(work);
	truth("stores", 40000L * threads);
	return 0;
}
