/* A ring between one producer and one consumer. Each writes its own index at every step and looks at the other's only
 * when its copy of it is used up. Buggy: both indices in one line. Fixed: apart. */
#include "common.h"
#define SIZE 1024UL
#define STEPS 200000UL
/* Not static: of a variable that nobody else can see, clang makes two. */
struct ring {
	unsigned long head;
	unsigned long tail APART;
} __attribute__((aligned(64))) ring;
static struct {
	long item[SIZE];
} __attribute__((aligned(64))) space;
static void *work(void *arg)
{
	unsigned long other = 0;
	long sum = 0;
	if ((long)arg == 0)
		for (unsigned long h = 0; h < STEPS; h++) {
			while (h - other >= SIZE)
				if (h - (other = LOAD(&ring.tail)) >= SIZE)
					sched_yield();
			space.item[h % SIZE] = (long)h;
			STORE(&ring.head, h + 1);
		}
	else if ((long)arg == 1)
		for (unsigned long t = 0; t < STEPS; t++) {
			while (t >= other)
				if (t >= (other = LOAD(&ring.head)))
					sched_yield();
			sum += space.item[t % SIZE];
			STORE(&ring.tail, t + 1);
		}
	return (void *)sum;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 2L * STEPS);
	return 0;
}
