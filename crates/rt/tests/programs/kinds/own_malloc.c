/* A program with an allocator of its own: bump allocation, counted. */
#include "kinds.h"
static char heap[64 << 20] __attribute__((aligned(64)));
static size_t used;
static long calls;
void *malloc(size_t n) {
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    size_t at = __atomic_fetch_add(&used, (n + 31) & ~(size_t)15, __ATOMIC_RELAXED) + 16;
    if (at + n > sizeof heap) { errno = ENOMEM; return NULL; }
    *(size_t *)(heap + at - 16) = n;
    return heap + at;
}
void free(void *p) { (void)p; }
void *calloc(size_t a, size_t b) {
    void *p = malloc(a * b);
    return p ? memset(p, 0, a * b) : p;
}
void *realloc(void *old, size_t n) {
    void *p = malloc(n);
    if (p && old) memcpy(p, old, *(size_t *)((char *)old - 16) < n ? *(size_t *)((char *)old - 16) : n);
    return p;
}
static int own(void) {
    char *p = malloc(100);
    printf("%d\n", p > heap && p < heap + sizeof heap);
    strcpy(p, "text");
    p = realloc(p, 1000);
    printf("%s\n", p);
    char *s = strdup("duplicate");
    printf("%d %s\n", s > heap && s < heap + sizeof heap, s);
    fights();
    free(s), free(p);
    printf("%d\n", calls > 3);
    return 0;
}
KINDS({"own", own})
