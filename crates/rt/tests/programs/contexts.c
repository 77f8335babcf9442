/* Two threads fight over words behind a chain of calls, each with a generator on a stack above its own in between. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
static volatile long words[512] __attribute__((aligned(4096)));
static char low[2][1 << 18] __attribute__((aligned(4096)));
static __thread ucontext_t here, there;
static volatile long steps[64];
__attribute__((noinline)) static void generator_step(void) { steps[0]++; }
static void generator(void) {
    for (;;) {
        generator_step();
        swapcontext(&there, &here);
    }
}
__attribute__((noinline)) static void inner(long at) { words[at]++; }
__attribute__((noinline)) static void middle(long at) {
    swapcontext(&here, &there);
    inner(at);
    words[at + 8]++;
}
__attribute__((noinline)) static void outer(long at) {
    middle(at);
    words[at + 16]++;
}
static void *run(void *arg) {
    char *high = mmap(NULL, 65536, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&there);
    there.uc_stack.ss_sp = high;
    there.uc_stack.ss_size = 65536;
    makecontext(&there, generator, 0);
    for (int i = 0; i < 2000; i++) outer((long)arg);
    return NULL;
}
int main(void) {
    pthread_t t[2];
    for (long i = 0; i < 2; i++) {
        pthread_attr_t a;
        pthread_attr_init(&a);
        /* Below everything that is mapped later. */
        pthread_attr_setstack(&a, low[i], sizeof low[i]);
        pthread_create(&t[i], &a, run, (void *)i);
    }
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    return 0;
}
