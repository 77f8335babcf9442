/* LU factorisation in blocks of 16 by 16, each block contiguous; threads own blocks in a checkerboard. */
#include "../../tests/programs/common.h"
#define B 16
#define THREADS 2

static double **blocks;
static long side;
static pthread_barrier_t step;

static double *at(long i, long j) { return blocks[i * side + j]; }
static int mine(long i, long j, long me) { return (i + j) % THREADS == me; }

static void diagonal(double *a) {
    for (int k = 0; k < B; k++)
        for (int i = k + 1; i < B; i++) {
            a[i * B + k] /= a[k * B + k];
            for (int j = k + 1; j < B; j++) a[i * B + j] -= a[i * B + k] * a[k * B + j];
        }
}

static void left(double *a, const double *d) {
    for (int k = 0; k < B; k++)
        for (int i = 0; i < B; i++) {
            a[i * B + k] /= d[k * B + k];
            for (int j = k + 1; j < B; j++) a[i * B + j] -= a[i * B + k] * d[k * B + j];
        }
}

static void top(double *a, const double *d) {
    for (int k = 0; k < B; k++)
        for (int i = k + 1; i < B; i++)
            for (int j = 0; j < B; j++) a[i * B + j] -= d[i * B + k] * a[k * B + j];
}

static void inner(double *a, const double *l, const double *u) {
    for (int k = 0; k < B; k++)
        for (int i = 0; i < B; i++) {
            double f = l[i * B + k];
            for (int j = 0; j < B; j++) a[i * B + j] -= f * u[k * B + j];
        }
}

static void *work(void *number) {
    long me = (long)number;
    for (long k = 0; k < side; k++) {
        if (mine(k, k, me)) diagonal(at(k, k));
        pthread_barrier_wait(&step);
        for (long i = k + 1; i < side; i++) {
            if (mine(i, k, me)) left(at(i, k), at(k, k));
            if (mine(k, i, me)) top(at(k, i), at(k, k));
        }
        pthread_barrier_wait(&step);
        for (long i = k + 1; i < side; i++)
            for (long j = k + 1; j < side; j++)
                if (mine(i, j, me)) inner(at(i, j), at(i, k), at(k, j));
        pthread_barrier_wait(&step);
    }
    return NULL;
}

int main(int argc, char **argv) {
    side = number(argc, argv, 1, 320) / B;
    blocks = malloc(side * side * sizeof *blocks);
    for (long i = 0; i < side * side; i++) {
        blocks[i] = malloc(B * B * sizeof(double));
        for (int k = 0; k < B * B; k++) blocks[i][k] = (i / side == i % side && k / B == k % B) * 1000 + k % 7;
    }
    pthread_barrier_init(&step, NULL, THREADS);
    parallel(THREADS, work);
    printf("%.3f\n", at(side - 1, side - 1)[0]);
}
