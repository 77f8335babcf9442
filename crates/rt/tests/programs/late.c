/* A library that is loaded after the program has got thousands of mappings below it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGES = 8000, PAGE = 4096 };
static volatile long pair[2] __attribute__((aligned(64)));
static void (*call)(void (*)(long), long);

static void work(long i) {
    for (int k = 0; k < 5000; k++) pair[i]++;
}
static void *run(void *arg) {
    call(work, (long)arg);
    return NULL;
}
int main(int argc, char **argv) {
    char *area = mmap((void *)0x200000000000, (size_t)PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || argc < 2) return 1;
    /* Neighbours differ in their rights, so that the kernel does not join them. */
    for (int i = 0; i < PAGES; i += 2)
        if (mprotect(area + (size_t)i * PAGE, PAGE, PROT_READ)) return 2;
    void *h = dlopen(argv[1], RTLD_NOW);
    if (!h) return puts(dlerror()), 3;
    call = (void (*)(void (*)(long), long))dlsym(h, "late_call");
    if (!call) return 4;
    pthread_t t[2];
    for (long i = 0; i < 2; i++) pthread_create(&t[i], NULL, run, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    return 0;
}
