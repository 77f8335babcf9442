// Odd corners of C++ and of linking: destructors after main, exceptions through C, resolvers, interposed loaders.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <fenv.h>
#include <malloc.h>
#include <execinfo.h>

static volatile long words[64];
static void fights() {
    std::thread a([] { for (int i = 0; i < 5000; i++) words[0] = words[0] + 1; });
    std::thread b([] { for (int i = 0; i < 5000; i++) words[1] = words[1] + 1; });
    a.join(), b.join();
}
// Resolvers run while the loader still relocates.
static long table[4] = {3, 5, 7, 9};
static volatile int resolved;
extern "C" {
long one(long n) { words[2] = words[2] + 1; return n + table[1]; }
typedef long (*function)(long);
function resolve(void) {
    long sum = 0;
    for (int i = 0; i < 4; i++) sum += table[i];
    resolved = sum;
    return sum == 24 ? one : nullptr;
}
long chosen(long) __attribute__((ifunc("resolve")));
}
static int resolvers() {
    printf("%ld %d\n", chosen(4), resolved);
    fights();
    return 0;
}
// Constructors before all others; they make threads.
static std::string *early;
__attribute__((constructor(101))) static void first() {
    early = new std::string("made by a thread before main");
    std::thread t([] { early->append(", and more"); });
    t.join();
}
__attribute__((destructor(101))) static void last() {
    std::thread t([] { words[3] = words[3] + 1; });
    t.join();
    printf("last: %s\n", early->c_str());
    delete early;
    fflush(stdout);
}
static void before_all(int c, char **v, char **) {
    void *p = malloc(100);
    memset(p, c, 100);
    words[4] = ((char *)p)[5] + (v != nullptr);
    free(p);
}
__attribute__((section(".preinit_array"), used)) static void (*at_first)(int, char **, char **) = before_all;
static int orders() {
    printf("%ld %s\n", words[4], early->c_str());
    fights();
    return 0;
}
// thread_local objects that make others, and end after main.
struct Loud {
    std::string name;
    Loud(const char *n) : name(n) {}
    ~Loud() {
        static std::atomic<int> ended;
        words[5] = words[5] + 1;
        std::vector<std::string> v(10, name);
        printf("%s ends as %d\n", v[9].c_str(), ++ended);
    }
};
static thread_local Loud of_thread("of a thread");
static Loud of_program("of the program");
struct Late {
    ~Late() {
        static thread_local Loud later("made by a destructor");
        words[6] = words[6] + later.name.size();
    }
};
static thread_local Late late;
static int thread_locals() {
    for (int i = 0; i < 3; i++) {
        std::thread([] {
            words[7] = words[7] + of_thread.name.size() + (long)(&late != nullptr);
        }).join();
        fflush(stdout);
    }
    words[8] = of_thread.name.size() + (&late != nullptr);
    fights();
    return 0;
}
// Exceptions through C's frames, clean-up attributes, longjmp over arrays of variable length.
static int compare(const void *a, const void *b) {
    words[9] = words[9] + 1;
    if (*(const int *)a == 77) throw std::runtime_error("through qsort");
    return *(const int *)a - *(const int *)b;
}
static void cleaned(int *p) { words[10] = words[10] + *p; }
static void deep(int n) {
    __attribute__((cleanup(cleaned))) int mine = n;
    char room[n * 7 + 1];
    memset(room, n, sizeof room);
    if (n == 0) throw n;
    words[11] = words[11] + room[n];
    deep(n - 1);
}
static jmp_buf out;
static void far(int n) {
    volatile char room[n * 11 + 1];
    for (int i = 0; i < n; i++) room[i] = i;
    words[12] = words[12] + room[n / 2];
    if (n == 40) longjmp(out, n);
    far(n + 1);
}
static void *forced(void *) {
    try {
        for (;;) {
            words[13] = words[13] + 1;
            pthread_testcancel();
            free(malloc(30));
        }
    } catch (...) {
        puts("forced");
        throw;
    }
}
static int unwinding() {
    int v[100];
    for (int i = 0; i < 100; i++) v[i] = i;
    try {
        qsort(v, 100, sizeof v[0], compare);
    } catch (std::exception &e) {
        puts(e.what());
    }
    for (int i = 0; i < 20; i++) {
        try {
            deep(i);
        } catch (int n) {
            words[14] = words[14] + n + 1;
        }
    }
    printf("%ld %ld\n", words[10], words[14]);
    for (volatile int i = 0; i < 50; i++)
        if (int n = setjmp(out)) words[15] = words[15] + n;
        else far(0);
    printf("%ld\n", words[15]);
    pthread_t t;
    void *r;
    pthread_create(&t, nullptr, forced, nullptr);
    pthread_cancel(t);
    pthread_join(t, &r);
    printf("%d\n", r == PTHREAD_CANCELED);
    void *b[4];
    printf("%d\n", backtrace(b, 4) > 1);
    try {
        try {
            throw std::string("inner");
        } catch (...) {
            std::throw_with_nested(std::runtime_error("outer"));
        }
    } catch (std::exception &e) {
        try {
            std::rethrow_if_nested(e);
        } catch (std::string &s) {
            printf("%s in %s, %d\n", s.c_str(), e.what(), std::uncaught_exceptions());
        }
    }
    fights();
    return 0;
}
// Exceptions without memory.
static int no_memory() {
    fights();
    rlimit r = {1ul << 30, 1ul << 30};
    setrlimit(RLIMIT_AS, &r);
    std::vector<char *> all;
    size_t n = 0;
    try {
        for (;;) all.push_back(new char[1 << 20]), n++;
    } catch (std::bad_alloc &e) {
        words[16] = n;
    }
    for (char *p : all) delete[] p;
    printf("%d\n", words[16] > 100);
    std::set_new_handler([] { std::set_new_handler(nullptr), words[17] = words[17] + 1; });
    printf("%d %ld\n", new (std::nothrow) char[1ul << 40] == nullptr, words[17]);
    printf("%d\n", malloc_usable_size(malloc(100)) >= 100);
    return 0;
}
// Rounding, flags and vector state.
static int floating() {
    fesetround(FE_UPWARD);
    volatile double one = 1, three = 3;
    double up = one / three;
    feclearexcept(FE_ALL_EXCEPT);
    for (int i = 0; i < 1000; i++) words[i & 63] = words[i & 63] + i, free(malloc(i));
    printf("%d %d\n", fegetround() == FE_UPWARD, fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT));
    fights();
    printf("%d %a %a\n", fegetround() == FE_UPWARD, up, one / three);
    typedef double four __attribute__((vector_size(32)));
    four v = {1, 2, 3, 4}, sum = {};
    static four shared[64];
    for (int i = 0; i < 1000; i++) shared[i & 63] = v * i, sum += shared[i & 63], words[i & 63] = i;
    printf("%.0f %.0f\n", sum[0], sum[3]);
    long double wide = 0;
    static long double many[64];
    for (int i = 0; i < 1000; i++) many[i & 63] += i / 3.0L, wide += many[i & 63];
    printf("%.10Lf\n", wide);
    __int128 big = (__int128)words[3] << 100;
    printf("%lx\n", (long)(big >> 98));
    return 0;
}
// Threads that outlive their owners; promises broken; exceptions across threads.
static int futures() {
    std::vector<std::future<int>> all;
    for (int i = 0; i < 20; i++)
        all.push_back(std::async(i & 1 ? std::launch::async : std::launch::deferred, [i] {
            words[i] = words[i] + 1;
            if (i % 5 == 0) throw std::out_of_range(std::to_string(i));
            return i;
        }));
    int sum = 0;
    std::string failed;
    for (auto &f : all) {
        try {
            sum += f.get();
        } catch (std::out_of_range &e) {
            failed += e.what(), failed += ' ';
        }
    }
    printf("%d %s\n", sum, failed.c_str());
    std::promise<int> never;
    auto f = never.get_future();
    { auto p = std::move(never); }
    try {
        f.get();
    } catch (std::future_error &e) {
        puts(e.code().message().c_str());
    }
    std::once_flag once;
    int tries = 0;
    for (int i = 0; i < 3; i++) {
        try {
            std::call_once(once, [&] { if (++tries < 3) throw tries; });
        } catch (int n) {
            printf("try %d\n", n);
        }
    }
    std::thread([] { std::thread([] { usleep(1000), words[30] = 1; }).detach(); }).join();
    fights();
    return 0;
}
// Objects with virtual bases, made and unmade by threads; tables of functions change meanwhile.
static void ends(int k, int n) { words[k] = words[k] + n; }
struct Base { virtual ~Base() { ends(31, kind()); } virtual int kind() const { return 1; } };
struct Left : virtual Base { int kind() const override { return 2; } ~Left() override { ends(32, kind()); } };
struct Right : virtual Base { int kind() const override { return 3; } ~Right() override { ends(33, kind()); } };
struct Both : Left, Right { int kind() const override { return 4; } ~Both() override { ends(34, kind()); } };
static int tables() {
    std::mutex m;
    std::vector<std::thread> all;
    int sum = 0;
    for (int t = 0; t < 4; t++)
        all.emplace_back([&] {
            for (int i = 0; i < 500; i++) {
                std::lock_guard<std::mutex> held(m);
                std::unique_ptr<Base> p(i & 1 ? (Base *)new Both : i & 2 ? (Base *)new Left : new Right);
                sum += p->kind() + (dynamic_cast<Right *>(p.get()) != nullptr);
            }
        });
    for (auto &t : all) t.join();
    printf("%d %ld %ld %ld %ld\n", sum, words[31], words[32], words[33], words[34]);
    return 0;
}
int main(int argc, char **argv) {
    const struct { const char *name; int (*run)(); } all[] = {
        {"resolvers", resolvers}, {"orders", orders}, {"thread_locals", thread_locals}, {"unwinding", unwinding},
        {"no_memory", no_memory}, {"floating", floating}, {"futures", futures}, {"tables", tables}};
    for (auto &k : all)
        if (argc > 1 && !strcmp(k.name, argv[1])) return k.run();
    return 99;
}
