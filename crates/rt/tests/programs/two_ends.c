/* A ring of one producer and one consumer, both of whose ends lie on one line. Who cannot go on lets the other one run:
   on one CPU each of them fills or empties all of it before the other one comes. */
#include "common.h"
#include <sched.h>

enum { ROOM = 1024 };

static struct {
	unsigned long head, tail, put, got;
} ring __attribute__((aligned(64)));
static long slots[ROOM] __attribute__((aligned(64)));
static long n;

static int push(long value)
{
	unsigned long head = __atomic_load_n(&ring.head, __ATOMIC_RELAXED);
	if (head - __atomic_load_n(&ring.tail, __ATOMIC_ACQUIRE) == ROOM)
		return 0;
	slots[head % ROOM] = value;
	ring.put++;
	__atomic_store_n(&ring.head, head + 1, __ATOMIC_RELEASE);
	return 1;
}

static int pop(long *value)
{
	unsigned long tail = __atomic_load_n(&ring.tail, __ATOMIC_RELAXED);
	if (tail == __atomic_load_n(&ring.head, __ATOMIC_ACQUIRE))
		return 0;
	*value = slots[tail % ROOM];
	ring.got++;
	__atomic_store_n(&ring.tail, tail + 1, __ATOMIC_RELEASE);
	return 1;
}

static void *run(void *arg)
{
	long value = 0;
	for (long i = 0; i < n; i++)
		while (!(arg ? push(i) : pop(&value)))
			sched_yield();
	return NULL;
}

int main(int argc, char **argv)
{
	n = number(argc, argv, 1, 200000);
	parallel(2, run);
	return ring.put != ring.got;
}
