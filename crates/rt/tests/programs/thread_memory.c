/* Two threads store side by side: thread_memory stack  in the frame of a thread's first function
                                   thread_memory tls    in a variable of a thread, behind many others of it */
#include "common.h"

struct pair { volatile long mine, theirs; };
static __thread volatile char other[20000];
static __thread struct pair of_thread;
static struct pair *volatile shown;
static volatile int done;

static void *shows(void *arg) {
    struct pair own = {0, 0};
    other[0] = 1;
    struct pair *p = strcmp(arg, "tls") == 0 ? &of_thread : &own;
    __atomic_store_n(&shown, p, __ATOMIC_RELEASE);
    for (int i = 0; i < 300000; i++) p->mine = i;
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) usleep(100);
    return NULL;
}

static void *joins_in(void *arg) {
    struct pair *p;
    while (!(p = __atomic_load_n(&shown, __ATOMIC_ACQUIRE))) usleep(100);
    for (int i = 0; i < 300000; i++) p->theirs = i;
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    return arg;
}

int main(int argc, char **argv) {
    pthread_t a, b;
    pthread_create(&a, NULL, shows, argc > 1 ? argv[1] : "stack");
    pthread_create(&b, NULL, joins_in, NULL);
    pthread_join(b, NULL);
    pthread_join(a, NULL);
    return 0;
}
