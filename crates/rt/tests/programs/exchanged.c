/* A lock that is taken by a comparison and given back by an exchange, as that of Rust's library. */
#include "common.h"
#include <sched.h>
#include <stdatomic.h>
static struct {
    atomic_int word;
    long first, second;
} shared __attribute__((aligned(64)));
static long n;
static void *run(void *arg) {
    unsigned long random = (long)arg * 77 + 1;
    for (long i = 0; i < n; i++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        int free = 0;
        while (!atomic_compare_exchange_strong(&shared.word, &free, 1)) {
            free = 0;
            sched_yield();
        }
        if ((random >> 33) % 3)
            shared.first++;
        else
            shared.second++;
        atomic_exchange(&shared.word, 0);
    }
    return NULL;
}
int main(int argc, char **argv) {
    n = number(argc, argv, 1, 40000);
    parallel(4, run);
    return 0;
}
