/* OpenMP: threads, locks and reductions of another runtime. */
#include "kinds.h"
#include <omp.h>
static int loops(void) {
    long sum = 0, cells[8] = {0};
    omp_set_num_threads(4);
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 10)
    for (int i = 0; i < 5000; i++) {
        sum += i;
#pragma omp atomic
        cells[i & 7]++;
    }
    int tasks = 0;
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < 50; i++) {
#pragma omp task
        {
#pragma omp critical
            tasks++;
        }
    }
#pragma omp parallel sections
    {
#pragma omp section
        cells[0] += 1;
#pragma omp section
        cells[1] += 1;
    }
    printf("%ld %ld %d\n", sum, cells[0] + cells[1], tasks);
    return 0;
}
KINDS({"loops", loops})
