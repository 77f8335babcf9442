/* Bodies and a tree, the kind of Barnes and Hut: main builds the tree, threads walk it for their bodies. */
#include "../../tests/programs/common.h"
#include <math.h>
#define THREADS 2

struct node {
    double at[3], mass, size;
    struct node *child[8];
    struct body *body;
};
struct body {
    double at[3], speed[3], force[3], mass;
};
static struct body *bodies;
static struct node *pool, *root;
static long count, steps, used;
static pthread_barrier_t step;

static struct node *node(double x, double y, double z, double size) {
    struct node *n = &pool[used++];
    memset(n, 0, sizeof *n);
    n->at[0] = x, n->at[1] = y, n->at[2] = z, n->size = size;
    return n;
}

static void insert(struct node *n, struct body *b, int depth) {
    for (; depth < 40; depth++) {
        int k = (b->at[0] > n->at[0]) + 2 * (b->at[1] > n->at[1]) + 4 * (b->at[2] > n->at[2]);
        if (!n->child[k]) {
            double q = n->size / 4;
            n->child[k] = node(n->at[0] + (k & 1 ? q : -q), n->at[1] + (k & 2 ? q : -q), n->at[2] + (k & 4 ? q : -q), n->size / 2);
            n->child[k]->body = b;
            return;
        }
        n = n->child[k];
        struct body *old = n->body;
        n->body = NULL;
        if (old) insert(n, old, depth + 1);
    }
}

static double sum(struct node *n) {
    if (n->body) return n->mass = n->body->mass;
    for (int k = 0; k < 8; k++)
        if (n->child[k]) n->mass += sum(n->child[k]);
    return n->mass;
}

static void pull(struct body *b, struct node *n) {
    double d[3], r2 = 0.01;
    for (int i = 0; i < 3; i++) d[i] = (n->body ? n->body->at[i] : n->at[i]) - b->at[i], r2 += d[i] * d[i];
    if (n->body || n->size * n->size < r2 * 0.5) {
        double f = n->mass / (r2 * sqrt(r2));
        for (int i = 0; i < 3; i++) b->force[i] += f * d[i];
        return;
    }
    for (int k = 0; k < 8; k++)
        if (n->child[k]) pull(b, n->child[k]);
}

static void *work(void *number) {
    long me = (long)number, lo = me * count / THREADS, hi = (me + 1) * count / THREADS;
    for (long s = 0; s < steps; s++) {
        if (me == 0) {
            used = 0, root = node(0, 0, 0, 4);
            for (long i = 0; i < count; i++) insert(root, &bodies[i], 0);
            sum(root);
        }
        pthread_barrier_wait(&step);
        for (long i = lo; i < hi; i++) memset(bodies[i].force, 0, sizeof bodies[i].force), pull(&bodies[i], root);
        pthread_barrier_wait(&step);
        for (long i = lo; i < hi; i++)
            for (int d = 0; d < 3; d++)
                bodies[i].speed[d] += bodies[i].force[d] * 1e-9, bodies[i].at[d] += bodies[i].speed[d];
        pthread_barrier_wait(&step);
    }
    return NULL;
}

int main(int argc, char **argv) {
    count = number(argc, argv, 1, 16000), steps = number(argc, argv, 2, 1);
    bodies = calloc(count, sizeof *bodies), pool = malloc(count * 8 * sizeof *pool);
    for (long i = 0; i < count; i++) {
        for (int d = 0; d < 3; d++) bodies[i].at[d] = rand() / (double)RAND_MAX * 2 - 1;
        bodies[i].mass = 1.0 / count;
    }
    pthread_barrier_init(&step, NULL, THREADS);
    parallel(THREADS, work);
    printf("%g\n", bodies[0].at[0]);
}
