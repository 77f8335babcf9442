/* Global counters of different threads side by side. FIXED: apart. */
#include "common.h"
#ifdef FIXED
#define APART __attribute__((aligned(64)))
#else
#define APART
#endif
static struct {
    volatile unsigned hits APART;
    volatile unsigned misses APART;
    volatile unsigned evictions APART;
} stats __attribute__((aligned(64)));
static long n;
static void *run(void *arg) {
    volatile unsigned *c = (long)arg == 0 ? &stats.hits : (long)arg == 1 ? &stats.misses : &stats.evictions;
    for (long i = 0; i < n; i++) __atomic_fetch_add(c, 1, __ATOMIC_RELAXED);
    return NULL;
}
int main(int argc, char **argv) {
    n = number(argc, argv, 1, 300000);
    parallel(3, run);
    return 0;
}
