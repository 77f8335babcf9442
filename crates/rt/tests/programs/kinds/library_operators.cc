// A shared library that brings all of the operators.
#include <cstddef>
#include <cstdlib>
#include <new>
long library_made, library_gone;
static const size_t room = 64;
void *operator new(size_t n) {
    __atomic_fetch_add(&library_made, 1, __ATOMIC_RELAXED);
    char *p = static_cast<char *>(std::malloc(n + room));
    if (!p) throw std::bad_alloc();
    return p + room;
}
void operator delete(void *p) noexcept {
    __atomic_fetch_add(&library_gone, 1, __ATOMIC_RELAXED);
    if (p) std::free(static_cast<char *>(p) - room);
}
void *operator new[](size_t n) { return operator new(n); }
void operator delete[](void *p) noexcept { operator delete(p); }
void operator delete(void *p, size_t) noexcept { operator delete(p); }
void operator delete[](void *p, size_t) noexcept { operator delete(p); }
