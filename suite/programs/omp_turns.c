// -DHOW=1 critical, 2 barrier phases, 3 ordered, 4 omp_set_lock, 5 single
#include <omp.h>
#include <stdio.h>
enum { SECTIONS = 160, PER = 2000, T = 4 };
static volatile long own[T] __attribute__((aligned(64)));
static void section(int me) { for (int i = 0; i < PER; i++) own[me]++; }
int main(void)
{
	omp_lock_t l; omp_init_lock(&l);
#pragma omp parallel num_threads(T)
	{
		int me = omp_get_thread_num();
#ifdef BROKEN
		for (int k = 0; k < SECTIONS / T; k++) section(me);
#elif HOW == 1
		for (int k = 0; k < SECTIONS / T; k++) {
#pragma omp critical
			section(me);
		}
#elif HOW == 2
		for (int k = 0; k < SECTIONS; k++) {
			if (k % T == me) section(me);
#pragma omp barrier
		}
#elif HOW == 3
#pragma omp for ordered schedule(static,1)
		for (int k = 0; k < SECTIONS; k++) {
#pragma omp ordered
			section(me);
		}
#elif HOW == 4
		for (int k = 0; k < SECTIONS / T; k++) { omp_set_lock(&l); section(me); omp_unset_lock(&l); }
#elif HOW == 5
		for (int k = 0; k < SECTIONS; k++) {
#pragma omp single
			section(me);
		}
#endif
	}
	printf("handoffs %d\nstores %d\n", SECTIONS, SECTIONS * PER);
}
