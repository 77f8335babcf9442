// Every form of new: aligned, nothrow, handlers that free, give up or throw, sizes that are too large.
#include "kinds.h"
#include <iostream>
#include <new>
#include <stdexcept>

namespace {
struct alignas(128) Wide {
    long v[16] = {};
};
int handled;
void handler() {
    handled++;
    if (handled == 2) std::set_new_handler(nullptr);
    if (handled == 5) throw std::runtime_error("handler throws");
}
int news() {
    auto *w = new Wide[3];
    std::cout << reinterpret_cast<uintptr_t>(w) % 128 << "\n";
    delete[] w;
    delete new (std::nothrow) Wide;
    volatile size_t huge = static_cast<size_t>(-1) / 4;
    std::set_new_handler(handler);
    std::cout << (::operator new(huge, std::nothrow) == nullptr) << " handled " << handled << "\n";
    std::cout << (::operator new[](huge, std::align_val_t(64), std::nothrow) == nullptr) << " handled " << handled << "\n";
    try {
        ::operator new(huge);
    } catch (const std::bad_alloc &e) {
        std::cout << e.what() << " handled " << handled << "\n";
    }
    handled = 4;
    std::set_new_handler(handler);
    try {
        ::operator new(huge, std::align_val_t(4096));
    } catch (const std::exception &e) {
        std::cout << e.what() << " handled " << handled << "\n";
    }
    std::set_new_handler(nullptr);
    try {
        std::cout << (new char[huge * 4 + 2] != nullptr);
    } catch (const std::bad_alloc &) {
        std::cout << "too long an array\n";
    }
    for (size_t a : {huge * 4 + 3, huge * 4 - 70})
        try {
            std::cout << (::operator new(a, std::align_val_t(64)) != nullptr) << " at the top\n";
        } catch (const std::bad_alloc &) {
            std::cout << "near the top\n";
        }
    alignas(16) char room[64];
    std::cout << *new (room) int(5) << "\n";
    ::operator delete(::operator new(0));
    fights();
    return 0;
}
int rethrown() {
    long sum = 0;
    for (int i = 0; i < 1000; i++) {
        try {
            if (i % 3) throw i;
        } catch (int v) {
            sum += v;
        }
    }
    std::cout << sum << "\n";
    return 0;
}
} // namespace
KINDS({"new", news}, {"exceptions", rethrown})
