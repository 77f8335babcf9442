/* One thread takes a lock made of one word for each of its steps, another one looks at the word beside it all the time,
   which nobody changes. It waits for nothing: what the lock lets go on is not ordered with it. */
#include "common.h"

enum { STEPS = 40000 };
static struct {
	int lock, limit;
	long count, changes;
} table __attribute__((aligned(64)));

static void *changes(void *arg)
{
	for (int i = 0; i < STEPS; i++) {
		int was = 0;
		while (!__atomic_compare_exchange_n(&table.lock, &was, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			was = 0;
		table.count++;
		table.changes += i & 1;
		__atomic_exchange_n(&table.lock, 0, __ATOMIC_RELEASE);
	}
	return arg;
}

static void *looks(void *arg)
{
	long sum = 0;
	for (int i = 0; i < 4 * STEPS; i++)
		sum += __atomic_load_n(&table.limit, __ATOMIC_RELAXED);
	return sum == 0 ? arg : NULL;
}

int main(void)
{
	pthread_t t[2];
	pthread_create(&t[0], NULL, changes, NULL);
	pthread_create(&t[1], NULL, looks, NULL);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	printf("%ld\n", table.count);
	return 0;
}
