/* Bursts of both layouts in pairs, in an order drawn anew for each. Prints, per pair: kind of work, factor on its
   length, operations per second and CPU nanoseconds per operation of the first and of the second layout. */
struct worker { _Alignas(256) uint64_t ops, ns, cpu_ns; };
static struct worker workers[THREADS];
static _Alignas(256) volatile int stop;
static _Alignas(256) int layout, kind, done;
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
    bind((int)(me - workers));
    for (;;) {
        pthread_barrier_wait(&gate);
        if (done)
            return 0;
        const struct round *r = &rounds[layout][kind][me - workers];
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

struct result { double rate, cpu_ns; };

static struct result burst(int l, long us) {
    layout = l;
    stop = 0;
    pthread_barrier_wait(&gate);
    usleep((useconds_t)us);
    stop = 1;
    pthread_barrier_wait(&gate);
    double rate = 0, ops = 0, cpu = 0;
    for (int i = 0; i < THREADS; i++) {
        rate += 1e9 * (double)workers[i].ops / (double)(workers[i].ns ? workers[i].ns : 1);
        ops += (double)workers[i].ops;
        cpu += (double)workers[i].cpu_ns;
    }
    return (struct result){rate, ops > 0 ? cpu / ops : 0};
}

/* Nanoseconds of one round of work of a kind. */
static double unit(int k) {
    double best = 1e9;
    for (int i = 0; i < 9; i++) {
        uint64_t from = now(CLOCK_MONOTONIC), x = 1;
        if (k == DEPENDENT)
            x = chain(x, 200000);
        else
            apart(200000);
        __asm__ volatile("" : : "r"(x));
        double ns = (double)(now(CLOCK_MONOTONIC) - from) / 200000;
        best = ns < best ? ns : best;
    }
    return best > 0.01 ? best : 0.01;
}

static void lengths(double factor, double unit_ns) {
    for (int i = 0; i < WORKS; i++)
        work_rounds[i] = (uint32_t)(work_ns[i] * factor / unit_ns + 0.5);
}

/* The factor at which an operation of the first layout takes this CPU time; the nearest end if none does. */
static double solve(double target_ns, double unit_ns, long us) {
    double low = 0.002, high = 300;
    for (int i = 0; i < 14; i++) {
        double middle = __builtin_sqrt(low * high);
        lengths(middle, unit_ns);
        if (burst(0, us).cpu_ns < target_ns)
            low = middle;
        else
            high = middle;
    }
    return __builtin_sqrt(low * high);
}

int main(int argc, char **argv) {
    if (argc < 6)
        return 2;
    long us = atol(argv[1]), pairs = atol(argv[2]);
    double target_ns = atof(argv[3]);
    srand((unsigned)atol(argv[4]));
    alarm(60);
    sched_getaffinity(0, sizeof allowed, &allowed);
    make_locks();
    pthread_barrier_init(&gate, 0, THREADS + 1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], 0, work, &workers[i]))
            return 3;
    for (kind = 0; kind < 2; kind++) {
        double ns = unit(kind), base = target_ns > 0 ? solve(target_ns, ns, us) : 1;
        for (int f = 5; f < argc; f++) {
            lengths(base * atof(argv[f]), ns);
            burst(0, us);
            for (long p = 0; p < pairs; p++) {
                struct result r[2];
                int first = rand() & 1;
                r[first] = burst(first, us);
                r[!first] = burst(!first, us);
                printf("%d %g %.0f %.0f ", kind, base * atof(argv[f]), r[0].rate, r[1].rate);
                printf("%.2f %.2f\n", r[0].cpu_ns, r[1].cpu_ns);
            }
            fflush(stdout);
        }
    }
    done = 1;
    pthread_barrier_wait(&gate);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return 0;
}
