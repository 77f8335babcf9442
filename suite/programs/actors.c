/* Actors with mailboxes. Senders add to `head` of the next actor's mailbox, 1,000 times; its owner counts each of its
 * 300,000 steps in `steps`, and looks at `head` between. Fixed: `steps` has a line of its own; what is left is the
 * mailbox, 1,000 messages x 2. */
#include "common.h"
struct actor { long head APART; long steps APART; long state[6]; };
static struct actor actors[THREADS_MAX] __attribute__((aligned(64)));
static void *work(void *arg)
{
	long me = (long)arg;
	volatile struct actor *a = &actors[me];
	long got = 0;
	for (int i = 0; i < 300000; i++) {
		a->steps++;
		a->state[i % 6] += i;
		if (i % 300 == 0) ADD(&actors[(me + 1) % threads].head, 1);
		if (i % 30 == 0) got += LOAD(&actors[(me + 1) % threads].head);
	}
	return (void *)got;
}
int main(int argc, char **argv) { arguments(argc, argv); run_threads(work); truth("stores", 300000L * threads); return 0; }
