/* Blocked matrix product: threads own column blocks of the result, whose edges do not meet lines. FIXED: they do. */
#include "common.h"
#define N 120
#ifdef FIXED
#define FIRST 0
#define STRIDE 128
#define BLOCK 32
#else
#define FIRST 4
#define STRIDE 120
#define BLOCK 30
#endif
static double a[N][STRIDE] __attribute__((aligned(64)));
static double b[N][STRIDE] __attribute__((aligned(64)));
static double room[N * STRIDE + 64] __attribute__((aligned(64)));
static double (*c)[STRIDE];
static int rounds;
static void *run(void *arg) {
    int from = (int)(long)arg * BLOCK, to = from + BLOCK < N ? from + BLOCK : N;
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++)
                for (int j = from; j < to; j++) c[i][j] += a[i][k] * b[k][j];
    return NULL;
}
int main(int argc, char **argv) {
    rounds = (int)number(argc, argv, 1, 1);
    c = (double(*)[STRIDE])(room + FIRST);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) a[i][j] = b[i][j] = i + j;
    parallel(4, run);
    printf("%g\n", c[3][5]);
    return 0;
}
