/* Quiet: a large array in contiguous parts, one per thread, and a private list on the heap per thread. Only lines on the
 * borders of the parts are shared, and each is stored 8 times. */
#include "common.h"
#define N 400000
static double array[N];
struct node { struct node *next; long value; };
static void *work(void *arg)
{
	long me = (long)arg;
	struct node *list = NULL;
	for (long i = N * me / threads; i < N * (me + 1) / threads; i++) {
		array[i] = i * 0.5;
		if (i % 64 == 0) {
			struct node *n = malloc(sizeof(*n));
			n->next = list, n->value = i, list = n;
		}
	}
	long sum = 0;
	for (struct node *n = list; n; n = n->next) sum += n->value;
	return (void *)sum;
}
int main(int argc, char **argv) { arguments(argc, argv); run_threads(work); truth("handoffs", 8 * threads); return 0; }
