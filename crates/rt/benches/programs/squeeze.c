/* A compressor in a pipeline, the kind of pigz: main cuts the input into blocks, workers find repeats through a hash of
   four bytes, main takes the blocks in order. */
#include "../../tests/programs/common.h"
#include <stdint.h>

#define BLOCK (128 << 10)
#define BLOCKS_MAX 256

struct block {
    uint8_t *in, *out;
    size_t n;
    int done;
};
static struct block blocks[BLOCKS_MAX];
static int count, next;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;

static uint32_t hash(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v * 2654435761u >> 17;
}

static size_t squeeze(const uint8_t *in, size_t n, uint8_t *out) {
    int32_t *head = malloc(sizeof *head << 15);
    memset(head, 0xff, sizeof *head << 15);
    uint8_t *to = out;
    size_t i = 0;
    while (i + 8 < n) {
        int32_t at = head[hash(in + i)];
        head[hash(in + i)] = i;
        size_t len = 0;
        if (at >= 0)
            while (len < 255 && i + len < n && in[at + len] == in[i + len]) len++;
        if (len >= 4) {
            *to++ = 0xff, *to++ = len, *to++ = (i - at) & 255, *to++ = (i - at) >> 8;
            i += len;
        } else
            *to++ = in[i++];
    }
    while (i < n) *to++ = in[i++];
    free(head);
    return to - out;
}

static void *worker(void *unused) {
    for (;;) {
        pthread_mutex_lock(&lock);
        int k = next < count ? next++ : -1;
        pthread_mutex_unlock(&lock);
        if (k < 0) return NULL;
        size_t n = squeeze(blocks[k].in, BLOCK, blocks[k].out);
        pthread_mutex_lock(&lock);
        blocks[k].n = n, blocks[k].done = 1;
        pthread_cond_signal(&ready);
        pthread_mutex_unlock(&lock);
    }
}

int main(int argc, char **argv) {
    count = number(argc, argv, 1, 64);
    uint32_t seed = 1;
    for (int k = 0; k < count; k++) {
        blocks[k].in = malloc(BLOCK), blocks[k].out = malloc(2 * BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            seed = seed * 1664525 + 1013904223;
            blocks[k].in[i] = i > 64 && seed >> 29 ? blocks[k].in[i - 64] : "etaoin shrdlu\n"[(seed >> 16) % 14];
        }
    }
    pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, worker, NULL);
    size_t total = 0;
    for (int k = 0; k < count; k++) {
        pthread_mutex_lock(&lock);
        while (!blocks[k].done) pthread_cond_wait(&ready, &lock);
        pthread_mutex_unlock(&lock);
        total += blocks[k].n;
    }
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    printf("%zu\n", total);
}
