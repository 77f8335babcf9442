/* A lock of one word beside what it protects. Only the quick ways in and out are in code that is recorded; who finds
 * the lock taken goes on in a function of a library that is not. Under the lock references are counted in another word. */
#include "common.h"
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
#define HIDDEN __attribute__((noinline, no_sanitize("thread")))
enum { FREE, TAKEN, AWAITED };
static struct {
	atomic_int lock;
	volatile int entries;
	volatile long sum;
} __attribute__((aligned(64))) table;
static struct {
	atomic_long references;
} __attribute__((aligned(64))) snapshot;

static HIDDEN void take_slowly(void)
{
	while (atomic_exchange(&table.lock, AWAITED) != FREE)
		syscall(SYS_futex, &table.lock, FUTEX_WAIT_PRIVATE, AWAITED, NULL, NULL, 0);
}
static HIDDEN void wake(void) { syscall(SYS_futex, &table.lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

static void take(void)
{
	int n = FREE;
	if (!atomic_compare_exchange_strong(&table.lock, &n, TAKEN))
		take_slowly();
}
static void give(void)
{
	if (atomic_exchange(&table.lock, FREE) == AWAITED)
		wake();
}
static void *work(void *arg)
{
	for (int i = 0; i < 20000; i++) {
		take();
		atomic_fetch_add(&snapshot.references, 1);
		table.sum += i;
		table.entries++;
		if (i % 1000 == (long)arg)
			sched_yield();
		atomic_fetch_sub(&snapshot.references, 1);
		give();
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 20000L * threads);
	return 0;
}
