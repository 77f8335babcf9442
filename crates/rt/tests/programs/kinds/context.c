/* Other stacks and jumps: ucontext, setjmp, generators, clocks. */
#include "kinds.h"
#include <setjmp.h>
#include <sys/time.h>
#include <ucontext.h>

static ucontext_t main_context, contexts[2];
static volatile long steps[2] __attribute__((aligned(64)));
static void work(int n) {
    steps[n]++;
    if (steps[n] % 3 == 0) free(malloc(64));
}
static void generator(int n) {
    for (int i = 0; i < 1000; i++) {
        work(n);
        swapcontext(&contexts[n], i % 2 ? &main_context : &contexts[1 - n]);
    }
}
/* Stacks above and below of the main one's, so that no order of addresses helps. */
static int generators(void) {
    void *low = mmap((void *)0x10000000, 65536, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static char high[65536];
    void *stacks[2] = {low, high};
    for (int n = 0; n < 2; n++) {
        getcontext(&contexts[n]);
        contexts[n].uc_stack.ss_sp = stacks[n];
        contexts[n].uc_stack.ss_size = 65536;
        contexts[n].uc_link = &main_context;
        makecontext(&contexts[n], (void (*)(void))generator, 1, n);
    }
    for (int i = 0; i < 900; i++) {
        swapcontext(&main_context, &contexts[i & 1]);
        work(i & 1);
    }
    printf("%s\n", steps[0] + steps[1] > 1800 ? "generated" : "too few");
    fights();
    return 0;
}
static jmp_buf back;
static void deep(int n) {
    pair[0]++;
    if (n == 0) longjmp(back, 5);
    deep(n - 1);
}
static int jumps(void) {
    volatile int sum = 0;
    for (int i = 0; i < 500; i++) {
        int r = setjmp(back);
        if (r == 0) deep(i % 50);
        sum += r;
    }
    printf("%d\n", sum);
    fights();
    return 0;
}
static int clocks(void) {
    struct timespec a, b;
    struct timeval v;
    const clockid_t ids[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
                             CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, CLOCK_REALTIME_COARSE};
    for (unsigned i = 0; i < sizeof ids / sizeof *ids; i++) {
        clock_gettime(ids[i], &a);
        fights();
        clock_gettime(ids[i], &b);
        printf("%u %d\n", i, b.tv_sec > a.tv_sec || (b.tv_sec == a.tv_sec && b.tv_nsec >= a.tv_nsec));
    }
    printf("%d %d\n", gettimeofday(&v, NULL), time(NULL) > 1600000000);
    printf("%d %s\n", clock_gettime(12345, &a), strerror(errno));
    struct rusage u;
    struct timespec short_time = {0, 2000000};
    printf("%d %d\n", getrusage(RUSAGE_SELF, &u), clock_nanosleep(CLOCK_MONOTONIC, 0, &short_time, NULL));
    time_t fixed = 86400 * 365;
    setenv("TZ", "UTC0", 1);
    char text[50];
    strftime(text, sizeof text, "%Y-%m-%d", localtime(&fixed));
    puts(text);
    return 0;
}
KINDS({"ucontext", generators}, {"longjmp", jumps}, {"clocks", clocks})
