/* A timer wheel: one thread stores `now` 200,000 times; the others read `resolution` and `slots`, which never change, in
 * every step and `now` in one of 500. As it is all three are neighbours. Fixed: `now` has a line of its own. */
#include "common.h"
static struct { long resolution APART; long slots; long now APART; } wheel __attribute__((aligned(64))) = {10, 64, 0};
static void *work(void *arg)
{
	long me = (long)arg, sum = 0;
	volatile long *resolution = &wheel.resolution, *slots = &wheel.slots;
	for (int i = 0; i < 200000; i++) {
		if (me == 0) __atomic_store_n(&wheel.now, i, __ATOMIC_RELEASE);
		else {
			sum += i / *resolution % *slots;
			if (i % 500 == 0) sum += LOAD(&wheel.now);
		}
	}
	return (void *)sum;
}
int main(int argc, char **argv) { arguments(argc, argv); run_threads(work); truth("stores", 200000L); return 0; }
