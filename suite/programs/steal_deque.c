/* A work-stealing deque per thread. Its owner counts every item that it makes (`made`, 200,000 stores, nobody else reads
 * it), thieves look at `top` of their neighbour's deque after every step. `top` is never taken: all of the fight is
 * `made` beside `top`. Fixed: `top` begins a line, and `made` is behind it by another. */
#include "common.h"
struct deque {
	long top APART;
	long made APART;
	long items[62];
};
static struct deque *deques;
static void *work(void *arg)
{
	long me = (long)arg, seen = 0;
	volatile struct deque *mine = &deques[me];
	for (long i = 0; i < 200000; i++) {
		mine->made++;
		mine->items[i % 62] = i;
		seen += LOAD(&deques[(me + 1) % threads].top);
	}
	return (void *)seen;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	deques = aligned_alloc(64, sizeof(*deques) * threads);
	for (int i = 0; i < threads; i++) deques[i] = (struct deque){0};
	run_threads(work);
	truth("stores", 200000L * threads);
	return 0;
}
