// dlopen and dlclose, over and over, also by threads.
#include "kinds.h"
#include <dlfcn.h>
#include <exception>
#include <libgen.h>
#include <string>
static std::string where() {
    char path[4096] = "";
    (void)!readlink("/proc/self/exe", path, sizeof path - 1);
    return std::string(dirname(path)) + "/libloaded.so";
}
static void *uses(void *arg) {
    void *h = dlopen(where().c_str(), RTLD_NOW | RTLD_LOCAL);
    auto made = reinterpret_cast<char *(*)(int)>(dlsym(h, "made"));
    auto counter = reinterpret_cast<long *(*)()>(dlsym(h, "counter"));
    for (int i = 0; i < 1000; i++) counter()[reinterpret_cast<long>(arg)]++;
    char *p = made(20);
    dlclose(h);
    return p;
}
static int loads() {
    for (int round = 0; round < 3; round++) {
        char *p = static_cast<char *>(uses(nullptr));
        printf("%s\n", p);
        delete[] p;
    }
    void *h = dlopen(where().c_str(), RTLD_NOW);
    pthread_t t[3];
    void *r;
    for (long i = 0; i < 3; i++) pthread_create(&t[i], nullptr, uses, reinterpret_cast<void *>(i));
    for (auto &one : t) pthread_join(one, &r), printf("%s\n", static_cast<char *>(r));
    try {
        reinterpret_cast<char *(*)(int)>(dlsym(h, "made"))(-1);
    } catch (const std::exception &e) {
        printf("%s\n", e.what());
    }
    printf("%d %d\n", dlsym(h, "missing") == nullptr, dlerror() != nullptr);
    dlclose(h);
    printf("%d\n", dlopen("/nonexistent.so", RTLD_NOW) == nullptr);
    fights();
    return 0;
}
KINDS({"loads", loads})
