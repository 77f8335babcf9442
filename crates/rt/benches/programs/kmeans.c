/* k-means: each thread has a range of points, one level of pointers as in Phoenix; sums by main. */
#include "../../tests/programs/common.h"
#define DIMENSIONS 3
#define MEANS 100
#define THREADS 2

static int **points, **means, *cluster;
static int count, modified;

static int distance(int *a, int *b) {
    int sum = 0;
    for (int i = 0; i < DIMENSIONS; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

static void *assign(void *number) {
    long me = (long)number;
    for (int i = me * count / THREADS; i < (me + 1) * count / THREADS; i++) {
        int best = 0, least = distance(points[i], means[0]);
        for (int k = 1; k < MEANS; k++) {
            int d = distance(points[i], means[k]);
            if (d < least) least = d, best = k;
        }
        if (cluster[i] != best) cluster[i] = best, modified = 1;
    }
    return NULL;
}

static void move(void) {
    for (int k = 0; k < MEANS; k++) {
        int sum[DIMENSIONS] = {0}, members = 0;
        for (int i = 0; i < count; i++)
            if (cluster[i] == k) {
                members++;
                for (int d = 0; d < DIMENSIONS; d++) sum[d] += points[i][d];
            }
        for (int d = 0; members && d < DIMENSIONS; d++) means[k][d] = sum[d] / members;
    }
}

int main(int argc, char **argv) {
    count = number(argc, argv, 1, 8000);
    points = malloc(count * sizeof *points), means = malloc(MEANS * sizeof *means);
    cluster = malloc(count * sizeof *cluster);
    for (int i = 0; i < count; i++) {
        points[i] = malloc(DIMENSIONS * sizeof **points), cluster[i] = -1;
        for (int d = 0; d < DIMENSIONS; d++) points[i][d] = rand() % 1000;
    }
    for (int k = 0; k < MEANS; k++) {
        means[k] = malloc(DIMENSIONS * sizeof **means);
        for (int d = 0; d < DIMENSIONS; d++) means[k][d] = rand() % 1000;
    }
    int rounds = 0;
    do {
        modified = 0;
        parallel(THREADS, assign);
        move();
    } while (modified && ++rounds < 20);
    printf("%d\n", rounds);
}
