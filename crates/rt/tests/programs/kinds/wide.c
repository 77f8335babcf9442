/* 16-byte atomics: every operation, constants in read-only memory, threads that meet on one word. */
#include "kinds.h"
typedef unsigned __int128 wide;
static const wide fixed __attribute__((section(".rodata"))) = ((wide)7 << 64) | 9;
static wide word, total;

static void show(const char *what, wide v) {
    printf("%s %016llx %016llx\n", what, (unsigned long long)(v >> 64), (unsigned long long)v);
}

static void *add(void *arg) {
    for (int i = 0; i < 20000; i++) {
        if ((long)arg & 1) {
            __atomic_fetch_add(&total, ((wide)1 << 64) + 3, __ATOMIC_SEQ_CST);
        } else {
            wide seen = __atomic_load_n(&total, __ATOMIC_ACQUIRE);
            while (!__atomic_compare_exchange_n(&total, &seen, seen + ((wide)1 << 64) + 3, 0, __ATOMIC_SEQ_CST,
                                                __ATOMIC_RELAXED)) {}
        }
    }
    return NULL;
}

/* A load must see both halves of one store. */
static int stop;
static void *stores(void *arg) {
    (void)arg;
    for (unsigned long i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++)
        __atomic_store_n(&word, ((wide)i << 64) | i, __ATOMIC_RELEASE);
    return NULL;
}

static int torn(void) {
    pthread_t t;
    int bad = 0;
    pthread_create(&t, NULL, stores, NULL);
    for (int i = 0; i < 200000; i++) {
        wide v = __atomic_load_n(&word, __ATOMIC_ACQUIRE);
        bad += (unsigned long)(v >> 64) != (unsigned long)v;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(t, NULL);
    return bad;
}

static int operations(void) {
    wide a = 5, b = 0, want = 5;
    show("load", __atomic_load_n(&a, __ATOMIC_SEQ_CST));
    __atomic_store_n(&a, ((wide)1 << 100) | 1, __ATOMIC_SEQ_CST);
    show("store", a);
    show("exchange", __atomic_exchange_n(&a, 12, __ATOMIC_ACQ_REL));
    show("add", __atomic_fetch_add(&a, ~(wide)0, __ATOMIC_RELAXED));
    show("sub", __atomic_fetch_sub(&a, 4, __ATOMIC_RELAXED));
    show("and", __atomic_fetch_and(&a, 6, __ATOMIC_RELAXED));
    show("or", __atomic_fetch_or(&a, (wide)3 << 70, __ATOMIC_RELAXED));
    show("xor", __atomic_fetch_xor(&a, ~(wide)0, __ATOMIC_RELAXED));
    show("nand", __atomic_fetch_nand(&a, (wide)0xff << 60, __ATOMIC_RELAXED));
    show("left", a);
    printf("cas %d", __atomic_compare_exchange_n(&a, &want, b, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    show(" seen", want);
    printf("cas %d", __atomic_compare_exchange_n(&a, &want, 77, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    show(" now", a);
    show("val", __sync_val_compare_and_swap(&a, 77, 78));
    show("left", a);
    return 0;
}

/* gcc 12's library loads by cmpxchg16b where the processor is not Intel's, which stores: natively a crash. */
static int constant(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_is("intel")) return puts("loads of 16 bytes store on this processor"), 0;
    volatile const wide *p = &fixed;
    show("constant", __atomic_load_n(p, __ATOMIC_SEQ_CST));
    wide *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[1] = 11;
    mprotect(page, 4096, PROT_READ);
    show("protected", __atomic_load_n(&page[1], __ATOMIC_SEQ_CST));
    return 0;
}

static int threads(void) {
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, add, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    show("total", total);
    printf("torn %d\n", torn());
    return 0;
}

KINDS({"operations", operations}, {"constant", constant}, {"threads", threads})
