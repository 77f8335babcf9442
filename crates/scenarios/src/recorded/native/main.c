/* Bursts of both layouts in pairs, in an order drawn anew for each. Prints, per pair: kind of work, factor on its
   length; for every thread nanoseconds and CPU nanoseconds of an operation, of the first and of the second layout; and
   for every thread those of the first layout where it runs by itself, and no line is on its way. */
struct worker { _Alignas(256) uint64_t ops, ns, cpu_ns; };
struct result { double ns[THREADS], cpu_ns[THREADS]; };
static struct worker workers[THREADS];
static _Alignas(256) volatile int stop;
/* The thread that runs by itself, or -1. */
static _Alignas(256) int layout, kind, by_itself = -1, done;
static pthread_barrier_t gate;
static cpu_set_t allowed;

static uint64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void bind(int number) {
    int cpus = CPU_COUNT(&allowed), want = cpus ? number % cpus : 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && want-- == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

static void *work(void *arg) {
    struct worker *me = arg;
    int number = (int)(me - workers);
    bind(number);
    for (;;) {
        pthread_barrier_wait(&gate);
        if (done)
            return 0;
        if (by_itself >= 0 && by_itself != number) {
            pthread_barrier_wait(&gate);
            continue;
        }
        const struct round *r = &rounds[layout][kind][number];
        uint64_t x = 1, ops = 0, from = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
        while (!stop) {
            x = r->run(x);
            ops += r->ops;
        }
        __asm__ volatile("" : : "r"(x));
        me->cpu_ns = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
        me->ns = now(CLOCK_MONOTONIC) - from;
        me->ops = ops;
        pthread_barrier_wait(&gate);
    }
}

static void run(int l, long us) {
    layout = l;
    stop = 0;
    pthread_barrier_wait(&gate);
    usleep((useconds_t)us);
    stop = 1;
    pthread_barrier_wait(&gate);
}

static struct result burst(int l, long us) {
    struct result r;
    run(l, us);
    for (int i = 0; i < THREADS; i++) {
        double ops = (double)(workers[i].ops ? workers[i].ops : 1);
        r.ns[i] = (double)(workers[i].ns + 1) / ops;
        r.cpu_ns[i] = (double)(workers[i].cpu_ns + 1) / ops;
    }
    return r;
}

/* CPU nanoseconds of an operation of the first layout, every thread by itself. */
static void alone(double *ns, long us) {
    for (by_itself = 0; by_itself < THREADS; by_itself++) {
        struct worker *w = &workers[by_itself];
        run(0, us / THREADS > 1000 ? us / THREADS : 1000);
        ns[by_itself] = (double)(w->cpu_ns + 1) / (double)(w->ops ? w->ops : 1);
    }
    by_itself = -1;
}

static double mean(const double *ns) {
    double sum = 0;
    for (int i = 0; i < THREADS; i++)
        sum += share[i] * ns[i];
    return sum;
}

/* Nanoseconds of one round of work of a kind. */
static double unit(int k) {
    double best = 1e9;
    for (int i = 0; i < 9; i++) {
        uint64_t from = now(CLOCK_MONOTONIC), x = 1;
        if (k != INDEPENDENT)
            x = chain(x, 200000);
        else
            apart(200000);
        __asm__ volatile("" : : "r"(x));
        double ns = (double)(now(CLOCK_MONOTONIC) - from) / 200000;
        best = ns < best ? ns : best;
    }
    return best > 0.01 ? best : 0.01;
}

/* Factors on the length of every thread's work, and work between operations that nobody recorded, ns. */
static double scale[THREADS], hidden_ns;

static void lengths(double factor, double unit_ns) {
    for (int i = 0; i < WORKS; i++)
        work_rounds[i] = (uint32_t)((works[i].ns * factor * scale[works[i].thread] +
                                     (works[i].between ? hidden_ns : 0)) / unit_ns + 0.5);
}

/* CPU nanoseconds of an operation of the first layout, mean over threads: each by itself, or all at once. */
static double operation(int by_themselves, long us) {
    double ns[THREADS];
    if (!by_themselves)
        return mean(burst(0, us).cpu_ns);
    alone(ns, us);
    return mean(ns);
}

#define LOWEST 0.002
#define HIGHEST 300
#define STEPS 14

/* The factor at which an operation of the first layout takes this CPU time; the nearest end if none does. */
static double solve(double target_ns, int by_themselves, double unit_ns, long us) {
    double low = LOWEST, high = HIGHEST;
    for (int i = 0; i < STEPS; i++) {
        double middle = __builtin_sqrt(low * high);
        lengths(middle, unit_ns);
        if (operation(by_themselves, us) < target_ns)
            low = middle;
        else
            high = middle;
    }
    return __builtin_sqrt(low * high);
}

/* The same for every thread by itself, where each has a time of its own. */
static void solve_each(const double *target_ns, double unit_ns, long us) {
    double low[THREADS], high[THREADS], ns[THREADS];
    for (int t = 0; t < THREADS; t++)
        low[t] = LOWEST, high[t] = HIGHEST;
    for (int i = 0; i < STEPS; i++) {
        for (int t = 0; t < THREADS; t++)
            scale[t] = __builtin_sqrt(low[t] * high[t]);
        lengths(1, unit_ns);
        alone(ns, us);
        for (int t = 0; t < THREADS; t++)
            *(ns[t] < target_ns[t] ? &low[t] : &high[t]) = scale[t];
    }
    for (int t = 0; t < THREADS; t++)
        scale[t] = __builtin_sqrt(low[t] * high[t]);
}

static void show(const struct result *r) {
    for (int i = 0; i < THREADS; i++)
        printf(" %.2f %.2f", r->ns[i], r->cpu_ns[i]);
}

/* On a machine where others run, bursts wait for a CPU: then there are fewer pairs, so that each kind and length of work
   has some in the time that there is. */
#define ALL_NS 24e9
#define PAIRS_MIN 2

/* Pairs with work of one kind and length, no more than PAIRS_MIN after this time. */
static void measure(double factor, double unit_ns, long pairs, long us, uint64_t until) {
    double least[THREADS], again[THREADS];
    lengths(factor, unit_ns);
    alone(least, us);
    for (int i = 0; i < 2; i++) {
        alone(again, us);
        for (int t = 0; t < THREADS; t++)
            least[t] = again[t] < least[t] ? again[t] : least[t];
    }
    burst(0, us);
    for (long p = 0; p < pairs && (p < PAIRS_MIN || now(CLOCK_MONOTONIC) < until); p++) {
        struct result r[2];
        int first = rand() & 1;
        r[first] = burst(first, us);
        r[!first] = burst(!first, us);
        printf("%d %g", kind, factor * mean(scale));
        show(&r[0]);
        show(&r[1]);
        for (int t = 0; t < THREADS; t++)
            printf(" %.2f", least[t]);
        printf("\n");
    }
    fflush(stdout);
}

/* Arguments: length of a burst, pairs, seed, what is known of the CPU time of an operation (nothing; its mean where all
   threads run; its mean where each runs by itself; that of every thread by itself), one target per thread, factors, each
   with `+` and hidden work. */
enum { NOTHING, ALL, BY_ITSELF, EACH_BY_ITSELF };

int main(int argc, char **argv) {
    if (argc < 6 + THREADS)
        return 2;
    long us = atol(argv[1]), pairs = atol(argv[2]);
    int known = atoi(argv[4]);
    double target_ns[THREADS];
    for (int t = 0; t < THREADS; t++)
        target_ns[t] = atof(argv[5 + t]);
    srand((unsigned)atol(argv[3]));
    alarm(30);
    uint64_t started = now(CLOCK_MONOTONIC);
    sched_getaffinity(0, sizeof allowed, &allowed);
    make_locks();
    pthread_barrier_init(&gate, 0, THREADS + 1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], 0, work, &workers[i]))
            return 3;
    for (kind = 0; kind < KINDS; kind++) {
        double ns = unit(kind), base = 1;
        hidden_ns = 0;
        for (int t = 0; t < THREADS; t++)
            scale[t] = 1;
        if (known == EACH_BY_ITSELF)
            solve_each(target_ns, ns, us);
        else if (known != NOTHING)
            base = solve(mean(target_ns), known == BY_ITSELF, ns, us);
        int lengths_all = argc - 5 - THREADS;
        for (int f = 0; f < lengths_all; f++) {
            double share = (double)(kind * lengths_all + f + 1) / (KINDS * lengths_all);
            char *rest;
            double factor = strtod(argv[5 + THREADS + f], &rest);
            hidden_ns = *rest == '+' ? atof(rest) : 0;
            measure(base * factor, ns, pairs, us, started + (uint64_t)(share * ALL_NS));
        }
    }
    done = 1;
    pthread_barrier_wait(&gate);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return 0;
}
