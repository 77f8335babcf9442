/* A mutex made of a word and futexes, held for 1,000 iterations: the fields under it are different threads' in turn,
 * never at once. */
#include "common.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#define TURNS 100
static int word __attribute__((aligned(64)));
static struct {
	volatile long value[8];
} __attribute__((aligned(64))) held;
static void take(void)
{
	int seen = 0;
	if (__atomic_compare_exchange_n(&word, &seen, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	if (seen != 2)
		seen = __atomic_exchange_n(&word, 2, __ATOMIC_ACQUIRE);
	while (seen) {
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
		seen = __atomic_exchange_n(&word, 2, __ATOMIC_ACQUIRE);
	}
}
static void give(void)
{
	if (__atomic_fetch_sub(&word, 1, __ATOMIC_RELEASE) != 1) {
		STORE(&word, 0);
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
}
static void *work(void *arg)
{
	for (int turn = 0; turn < TURNS; turn++) {
		take();
		for (int i = 0; i < 1000; i++) {
			held.value[(long)arg % 8] += i;
			if (i == 500)
				sched_yield();
		}
		give();
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("handoffs", (long)TURNS * threads);
	return 0;
}
