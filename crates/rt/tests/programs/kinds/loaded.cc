// A library for dlopen: constructors, destructors, thread-local storage, exceptions, allocations that outlive it.
#include <cstdio>
#include <stdexcept>
#include <string>
namespace {
struct Here {
    Here() { std::puts("library comes"); }
    ~Here() { std::puts("library goes"); }
} here;
thread_local std::string own(100, 'l');
} // namespace
extern "C" long *counter() {
    static long values[16];
    return values;
}
extern "C" char *made(int n) {
    own += "x";
    if (n < 0) throw std::invalid_argument("negative");
    char *p = new char[static_cast<unsigned>(n)];
    std::snprintf(p, static_cast<unsigned>(n), "%zu", own.size());
    return p;
}
