// Two threads fight over elements that `new` made: through the library's operator, one linked in, one's own.
#include "kinds.h"
#include <new>
#include <string>
struct Counter {
    long hits;
};
#ifdef OWN
void *operator new[](size_t n) {
    void *p = malloc(n + 16);
    if (!p) throw std::bad_alloc();
    return static_cast<char *>(p) + 16;
}
void operator delete[](void *p) noexcept { free(static_cast<char *>(p) - 16); }
#endif
static Counter *counters;
static std::string *text;
static void *hit(void *arg) {
    for (long i = 0; i < 50000; i++) {
        reinterpret_cast<volatile long &>(counters[reinterpret_cast<long>(arg)].hits)++;
        reinterpret_cast<volatile char &>((*text)[64 + 8 * reinterpret_cast<unsigned long>(arg)])++;
    }
    return nullptr;
}
[[gnu::noinline]] Counter *make_counters() { return new Counter[2](); }
[[gnu::noinline]] void make_text() { text = new std::string(200, 'x'); }
static int fought() {
    counters = make_counters();
    make_text();
    pthread_t t[2];
    for (long i = 0; i < 2; i++) pthread_create(&t[i], nullptr, hit, reinterpret_cast<void *>(i));
    for (auto &one : t) pthread_join(one, nullptr);
    return 0;
}
KINDS({"fought", fought})
