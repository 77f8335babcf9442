/* The six-step transform on a square of complex numbers: transpose, rows, twiddle, transpose; barriers between. */
#include "../../tests/programs/common.h"
#include <math.h>
#define THREADS 2

typedef struct {
    double re, im;
} complex_t;
static complex_t *x, *y, *roots;
static long side, passes;
static pthread_barrier_t step;

static void transpose(complex_t *from, complex_t *to, long lo, long hi) {
    for (long i0 = lo; i0 < hi; i0 += 8)
        for (long j0 = 0; j0 < side; j0 += 8)
            for (long i = i0; i < i0 + 8; i++)
                for (long j = j0; j < j0 + 8; j++) to[i * side + j] = from[j * side + i];
}

static void row(complex_t *r) {
    for (long i = 1, j = 0; i < side; i++) {
        long bit = side >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i < j) {
            complex_t t = r[i];
            r[i] = r[j], r[j] = t;
        }
    }
    for (long len = 2; len <= side; len <<= 1)
        for (long i = 0; i < side; i += len)
            for (long k = 0; k < len / 2; k++) {
                complex_t *a = &r[i + k], *b = &r[i + k + len / 2], *w = &roots[k * (side / len)];
                double re = b->re * w->re - b->im * w->im, im = b->re * w->im + b->im * w->re;
                b->re = a->re - re, b->im = a->im - im;
                a->re += re, a->im += im;
            }
}

static void *work(void *number) {
    long me = (long)number, lo = me * side / THREADS, hi = (me + 1) * side / THREADS;
    for (long p = 0; p < passes; p++) {
        transpose(x, y, lo, hi);
        pthread_barrier_wait(&step);
        for (long i = lo; i < hi; i++) row(y + i * side);
        pthread_barrier_wait(&step);
        transpose(y, x, lo, hi);
        pthread_barrier_wait(&step);
        for (long i = lo; i < hi; i++) row(x + i * side);
        pthread_barrier_wait(&step);
    }
    return NULL;
}

int main(int argc, char **argv) {
    side = number(argc, argv, 1, 512), passes = number(argc, argv, 2, 2);
    x = malloc(side * side * sizeof *x), y = malloc(side * side * sizeof *y), roots = malloc(side * sizeof *roots);
    for (long i = 0; i < side * side; i++) x[i].re = i % 17, x[i].im = i % 13;
    for (long i = 0; i < side; i++) roots[i].re = cos(6.283185307 * i / side), roots[i].im = sin(6.283185307 * i / side);
    pthread_barrier_init(&step, NULL, THREADS);
    parallel(THREADS, work);
    printf("%.3f\n", x[1].re);
}
