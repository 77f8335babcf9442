/* Memory: mappings, limits, an allocator's errors, atomics of all widths, kinds of thread-local storage. */
#include "kinds.h"
#include <alloca.h>
#include <malloc.h>

static int mappings(void) {
    char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 1 << 20; i += 64) p[i] = (char)i;
    p = mremap(p, 1 << 20, 4 << 20, MREMAP_MAYMOVE);
    printf("%d %d\n", p[64], p[2 << 20]);
    madvise(p, 1 << 20, MADV_DONTNEED);
    printf("%d\n", p[64]);
    int fd = memfd_create("m", 0);
    printf("%d\n", ftruncate(fd, 8192));
    volatile char *a = mmap(NULL, 8192, 3, MAP_SHARED, fd, 0), *b = mmap(NULL, 8192, 3, MAP_SHARED, fd, 0);
    a[5000] = 9;
    printf("%d\n", b[5000]);
    char *fixed = mmap((void *)p, 4096, 3, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("%d %d\n", fixed == p, munmap(p, 4 << 20));
    void *bad = mmap(NULL, 0, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("%d %s\n", bad == MAP_FAILED, strerror(errno));
    bad = mmap(NULL, 1ul << 62, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("%d %s\n", bad == MAP_FAILED, strerror(errno));
    fights();
    return 0;
}
static int allocator(void) {
    void *p = NULL;
    errno = 0;
    volatile size_t huge = (size_t)-1;
    printf("%d", malloc(huge) == NULL);
    printf(" %s\n", strerror(errno));
    printf("%d %d\n", calloc(huge / 2, 4) == NULL, reallocarray(NULL, huge / 2, 4) == NULL);
    printf("%d %d\n", posix_memalign(&p, 3, 100), posix_memalign(&p, 64, huge - 100));
    printf("%d\n", aligned_alloc(64, huge - 64) == NULL);
    printf("%d\n", posix_memalign(&p, 4096, 100));
    printf("%d\n", (int)((uintptr_t)p % 4096));
    free(p);
    p = malloc(24);
    strcpy(p, "kept");
    printf("%d", realloc(p, huge - 5) == NULL);
    printf(" %s\n", (char *)p);
    p = realloc(p, 100000);
    printf("%s %d\n", (char *)p, malloc_usable_size(p) >= 100000);
    free(p);
    p = malloc(0);
    printf("%d\n", p != NULL);
    free(p), free(NULL);
    p = memalign(256, 10), free(p), p = valloc(10), free(p), p = pvalloc(10), free(p);
    char *s = strdup("duplicate");
    puts(s), free(s);
    struct mallinfo2 m = mallinfo2();
    printf("%d %d\n", mallopt(M_ARENA_MAX, 2), m.arena > 0);
    errno = 77;
    for (int i = 0; i < 1000; i++) free(malloc((size_t)i * 7));
    printf("errno %d\n", errno);
    fights();
    return 0;
}
static int deep(int n) {
    volatile char frame[10000];
    frame[0] = (char)n;
    return n == 0 ? 0 : deep(n - 1) + frame[0] - frame[0] + 1;
}
static void *on_huge(void *arg) { return (void *)(long)deep((int)(long)arg); }
static int stacks(void) {
    pthread_t t;
    pthread_attr_t a;
    void *r;
    printf("%d\n", deep(600));
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 256 << 20);
    pthread_create(&t, &a, on_huge, (void *)20000);
    pthread_join(t, &r);
    printf("%ld\n", (long)r);
    char *p = alloca(1 << 20);
    memset(p, 3, 1 << 20);
    printf("%d\n", p[77777]);
    fights();
    return 0;
}
static void limit(int what, rlim_t n) {
    struct rlimit r = {n, n};
    if (setrlimit(what, &r)) printf("setrlimit %s\n", strerror(errno));
}
/* Run again under a limit on address space: what native runs can allocate, recorded runs can. */
static int address_space(void) {
    limit(RLIMIT_AS, 600 << 20);
    fflush(stdout);
    execl("/proc/self/exe", "program", "limited", NULL);
    return 1;
}
static int limited(void) {
    char *p = malloc(400 << 20);
    printf("400M %d\n", p != NULL);
    for (long i = 0; p && i < 400 << 20; i += 1 << 20) p[i]++;
    fights();
    printf("more %d\n", malloc(400 << 20) != NULL);
    free(p);
    return 0;
}
static int late_address_space(void) {
    fights();
    limit(RLIMIT_AS, 2000l << 20);
    char *p = malloc(700 << 20);
    printf("%d\n", p != NULL);
    return 0;
}
static int file_size(void) {
    signal(SIGXFSZ, SIG_IGN);
    limit(RLIMIT_FSIZE, 8192);
    for (int i = 0; i < 200; i++) free(calloc(1, 1 << 16));
    fights();
    int fd = open("limited", O_CREAT | O_WRONLY, 0600);
    char b[10000] = "";
    ssize_t n = write(fd, b, sizeof b);
    printf("%zd", n);
    n = write(fd, b, sizeof b);
    printf(" %zd %s\n", n, strerror(errno));
    fflush(stdout);
    signal(SIGXFSZ, SIG_DFL);
    pid_t p = fork();
    if (p == 0) {
        char *q = malloc(1 << 20);
        for (int i = 0; i < 1 << 20; i += 64) q[i]++;
        _exit(write(fd, b, 1) == 1);
    }
    ended("too large", p);
    return 0;
}
static int stack_limit(void) {
    limit(RLIMIT_STACK, 1 << 20);
    fights();
    printf("%d\n", deep(40));
    fflush(stdout);
    execl("/proc/self/exe", "program", "alloc", NULL);
    return 1;
}
static int locked(void) {
    struct rlimit r;
    limit(RLIMIT_MEMLOCK, 32 << 20);
    getrlimit(RLIMIT_MEMLOCK, &r);
    printf("%d\n", (int)(r.rlim_cur >> 20));
    printf("%d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
    char *p = malloc(2 << 20);
    for (int i = 0; p && i < 2 << 20; i += 64) p[i]++;
    printf("%d\n", p != NULL);
    fights();
    return 0;
}
/* All memory is locked, by an ordinary user under the usual limit: what others lock is missing for the last piece. */
static int locked_user(void) {
    static char area[512 << 10];
    limit(RLIMIT_MEMLOCK, 8 << 20);
    if (geteuid() == 0 && setuid(65534)) return 77;
    if (mlockall(MCL_CURRENT | MCL_FUTURE)) return printf("mlockall %s\n", strerror(errno)), 77;
    for (int i = 0; i < (int)sizeof area; i += 64) area[i]++;
    void *p = mmap(NULL, 3 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("%d\n", p != MAP_FAILED);
    printf("%d\n", munlockall());
    fights();
    return 0;
}
static int prlimits(void) {
    struct rlimit r;
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        prlimit(0, i, NULL, &r);
        printf("%d %lx %lx\n", i, (long)r.rlim_cur, (long)r.rlim_max);
    }
    fights();
    return 0;
}
#define WIDTH(T)                                                                                             \
    {                                                                                                        \
        static T v = 5;                                                                                      \
        T want = 9;                                                                                          \
        printf("%d:", (int)sizeof(T));                                                                       \
        printf(" %d", (int)__atomic_load_n(&v, __ATOMIC_ACQUIRE));                                           \
        __atomic_store_n(&v, 100, __ATOMIC_RELEASE);                                                         \
        printf(" %d", (int)__atomic_fetch_add(&v, 27, __ATOMIC_RELAXED));                                    \
        printf(" %d", (int)__atomic_sub_fetch(&v, 1, __ATOMIC_SEQ_CST));                                     \
        printf(" %d", (int)__atomic_fetch_and(&v, 0x3c, __ATOMIC_SEQ_CST));                                  \
        printf(" %d", (int)__atomic_fetch_or(&v, 3, __ATOMIC_SEQ_CST));                                      \
        printf(" %d", (int)__atomic_fetch_xor(&v, 0x55, __ATOMIC_SEQ_CST));                                  \
        printf(" %d", (int)__atomic_fetch_nand(&v, 0x0f, __ATOMIC_SEQ_CST));                                 \
        printf(" %d", (int)__atomic_exchange_n(&v, 33, __ATOMIC_SEQ_CST));                                   \
        printf(" %d", __atomic_compare_exchange_n(&v, &want, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));     \
        printf(" %d", __atomic_compare_exchange_n(&v, &want, 1, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));     \
        printf(" %d", (int)__sync_val_compare_and_swap(&v, 1, 2));                                           \
        printf(" %d\n", (int)v);                                                                             \
    }
static int atomics(void) {
    WIDTH(signed char) WIDTH(short) WIDTH(int) WIDTH(long)
    static volatile _Bool flag;
    printf("%d", __atomic_test_and_set(&flag, __ATOMIC_ACQUIRE));
    printf(" %d", __atomic_test_and_set(&flag, __ATOMIC_SEQ_CST));
    __atomic_clear(&flag, __ATOMIC_RELEASE);
    printf(" %d\n", flag);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    fights();
    return 0;
}
static __thread int t_default = 1;
static __thread int t_local __attribute__((tls_model("local-dynamic"))) = 2;
__thread int t_global __attribute__((tls_model("global-dynamic"))) = 3;
__thread int t_initial __attribute__((tls_model("initial-exec"))) = 4;
static __thread char t_large[100000];
static void *tls_run(void *arg) {
    t_default += 1, t_local += 2, t_global += 3, t_initial += 4, t_large[99999]++;
    fight(arg);
    return (void *)(long)(t_default * 1000 + t_local * 100 + t_global * 10 + t_initial + t_large[99999]);
}
static int tls(void) {
    pthread_t t[3];
    void *r;
    for (long i = 0; i < 3; i++) pthread_create(&t[i], NULL, tls_run, (void *)i);
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], &r);
        printf("%ld\n", (long)r);
    }
    printf("%d%d%d%d\n", t_default, t_local, t_global, t_initial);
    return 0;
}
static int strings(void) {
    char a[200], b[200] = {0};
    for (int n = 0; n < 200; n++) {
        memset(a, n, sizeof a);
        memcpy(b, a, (size_t)n);
        memmove(b + n / 2, b, (size_t)(200 - n) / 2);
    }
    memmove(a + 1, a, 198);
    unsigned sum = 0;
    for (int i = 0; i < 200; i++) sum = sum * 31 + (unsigned char)a[i] + (unsigned char)b[i];
    printf("%u %d\n", sum, memcmp(a, b, 200) > 0);
    char *p = malloc(5 << 20), *q = malloc(5 << 20);
    memset(p, 7, 5 << 20), memcpy(q, p, 5 << 20);
    printf("%d\n", memcmp(p, q, 5 << 20));
    fights();
    return 0;
}
KINDS({"mmap", mappings}, {"alloc", allocator}, {"huge_stack", stacks}, {"rlimit_as", address_space},
      {"limited", limited}, {"late_rlimit_as", late_address_space}, {"rlimit_fsize", file_size},
      {"rlimit_stack", stack_limit}, {"memlock", locked}, {"memlock_user", locked_user}, {"prlimit", prlimits}, {"atomics", atomics}, {"tls", tls},
      {"strings", strings})
