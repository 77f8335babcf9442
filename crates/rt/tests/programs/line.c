/* Two threads, two words, one line. FIXED: two lines. */
#include "common.h"
static struct {
    volatile long a;
#ifdef FIXED
    char pad[120];
#endif
    volatile long b;
} both __attribute__((aligned(64)));
static long n;
static void *run(void *arg) {
    volatile long *p = arg ? &both.a : &both.b;
    for (long i = 0; i < n; i++) (*p)++;
    return NULL;
}
int main(int argc, char **argv) {
    n = number(argc, argv, 1, 1000000);
    parallel(2, run);
    return 0;
}
