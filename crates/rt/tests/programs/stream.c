/* Reads and writes 1 MiB over and over. */
#include "common.h"
#define WORDS (1 << 17)
static volatile long data[WORDS] __attribute__((aligned(64)));
int main(int argc, char **argv) {
    long rounds = number(argc, argv, 1, 10);
    for (long r = 0; r < rounds; r++)
        for (long i = 0; i < WORDS; i++) data[i] = r;
    return 0;
}
