/* A program over an allocator that is a library. */
#include "kinds.h"
#include <malloc.h>
extern long allocator_calls;
static void *churns(void *arg) {
    for (int i = 0; i < 300; i++) {
        char *p = malloc(64);
        p[0]++;
        p = realloc(p, 200);
        free(p);
    }
    return arg;
}
static int replaced(void) {
    pthread_t t[3];
    for (long i = 0; i < 3; i++) pthread_create(&t[i], NULL, churns, (void *)i);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    void *p = NULL;
    printf("%d %d\n", posix_memalign(&p, 256, 100), (int)((uintptr_t)p % 256));
    free(p);
    char *s = strdup("x");
    printf("%zu %s\n", malloc_usable_size(malloc(77)), s);
    printf("%d\n", allocator_calls > 1800);
    return 0;
}
KINDS({"replaced", replaced})
