// A program that replaces only `operator new(size_t)` and `operator delete(void *)`: every other form goes to these.
#include "kinds.h"
#include <memory>
#include <new>
#include <string>
#include <vector>
static long made, gone;
static const size_t room = 32;
void *operator new(size_t n) {
    made++;
    char *p = static_cast<char *>(malloc(n + room));
    if (!p) throw std::bad_alloc();
    return p + room;
}
void operator delete(void *p) noexcept {
    gone++;
    if (p) free(static_cast<char *>(p) - room);
}
// What the compiler must not leave out.
template <typename T> static T *kept(T *p) {
    asm volatile("" : "+r"(p) : : "memory");
    return p;
}
static int replaced() {
    std::vector<std::string> v;
    for (int i = 0; i < 100; i++) v.push_back(std::string(50, 'x'));
    v.clear(), v.shrink_to_fit();
    delete[] kept(new int[10]);
    delete kept(new (std::nothrow) int);
    int *p = kept(new int(3));
    ::operator delete(p, sizeof *p);
    auto shared = std::make_shared<std::string>("shared and long enough for the heap");
    kept(shared.get());
    printf("%ld made, %ld gone\n", made, gone);
    fights();
    return 0;
}
KINDS({"replaced", replaced})
