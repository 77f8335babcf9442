/* Hundreds of short threads over many generations. */
#include "common.h"
static volatile long counts[8] __attribute__((aligned(64)));
static long n;
static void *run(void *arg) {
    for (long i = 0; i < n; i++) counts[(long)arg]++;
    return NULL;
}
int main(int argc, char **argv) {
    long generations = number(argc, argv, 1, 60);
    n = number(argc, argv, 2, 2000);
    for (long g = 0; g < generations; g++) parallel(8, run);
    return 0;
}
