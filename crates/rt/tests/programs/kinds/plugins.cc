// Throwing handlers, owners of memory, a library that comes and goes, ends in many places.
#include <atomic>
#include <csignal>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <filesystem>
#include <shared_mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>
#include <dlfcn.h>
#include <unistd.h>
#include <sys/mman.h>
#include <typeinfo>

static std::atomic<long> words[8];
static long plain[64];
struct Boom { int n; };
// Handlers that throw, with -fnon-call-exceptions.
static void throws(int s, siginfo_t *i, void *) {
    sigset_t m; sigemptyset(&m); sigaddset(&m, s); pthread_sigmask(SIG_UNBLOCK, &m, nullptr);
    throw Boom{s};
}
__attribute__((noinline)) static int access_at(volatile int *p) { plain[1]++; std::string guard(100, 'x');
    return *p + (int)guard.size(); }
static int handlers_throw() {
    struct sigaction a = {};
    a.sa_sigaction = throws; a.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &a, nullptr);
    sigaction(SIGFPE, &a, nullptr);
    std::vector<std::thread> t;
    for (int k = 0; k < 3; k++) t.emplace_back([] {
        for (int i = 0; i < 300; i++) {
            try { plain[2] += access_at((volatile int *)(long)(8 * i)); } catch (Boom &b) { words[b.n & 7]++; }
            volatile int zero = 0;
            try { plain[3] += i / zero; } catch (Boom &b) { words[b.n & 7]++; }
        }
    });
    for (auto &x : t) x.join();
    for (auto &w : words) printf("%ld ", w.load());
    printf("\n");
    return 0;
}
// Allocations through resources, shared owners, locks of all kinds.
static int owners() {
    std::pmr::synchronized_pool_resource pool;
    std::shared_mutex m;
    std::map<int, std::shared_ptr<std::string>> all;
    std::atomic<std::shared_ptr<std::string>> newest;
    std::once_flag once;
    std::vector<std::jthread> t;
    for (int k = 0; k < 4; k++) t.emplace_back([&, k](std::stop_token) {
        std::call_once(once, [] { words[0]++; });
        for (int i = 0; i < 300; i++) {
            std::pmr::vector<std::pmr::string> v(&pool);
            for (int j = 0; j < 10;
                j++) v.emplace_back("a string that is longer than its own room " + std::to_string(j));
            auto s = std::make_shared<std::string>(v.back());
            newest.store(s);
            if (i % 5) { std::shared_lock l(m); words[1] += all.count(i); }
            else { std::unique_lock l(m); all[i] = newest.load(); all.erase(i - 50); }
        }
    });
    t.clear();
    printf("%ld %zu %s\n", words[0].load(), all.size(), newest.load()->c_str());
    std::weak_ptr<std::string> w = newest.load();
    newest.store(nullptr);
    std::stringstream text;
    for (auto &[k, v] : all) text << k << *v << '\n';
    printf("%zu\n", std::hash<std::string>()(text.str()));
    return 0;
}
static int files() {
    namespace fs = std::filesystem;
    fs::create_directories("a/b/c");
    std::vector<std::future<long>> f;
    for (int k = 0; k < 4; k++) f.push_back(std::async(std::launch::async, [k] {
        std::string n = "a/b/c/" + std::to_string(k);
        FILE *o = fopen(n.c_str(), "w");
        for (int i = 0; i < 1000; i++) fprintf(o, "%d\n", i * k);
        fclose(o);
        plain[k]++;
        return (long)fs::file_size(n);
    }));
    long s = 0;
    for (auto &x : f) s += x.get();
    for (auto &e : fs::recursive_directory_iterator("a")) s += e.path().string().size();
    fs::rename("a/b/c/1", "a/moved");
    try { fs::copy("none", "other"); } catch (fs::filesystem_error &e) { printf("%s\n", e.what()); }
    printf("%ld %ju\n", s, (uintmax_t)fs::remove_all("a"));
    return 0;
}
// A library with thread-local objects, loaded and closed while threads live and end.
static int closed_library() {
    for (int round = 0; round < 20; round++) {
        void *h = dlopen("libplugin.so", RTLD_NOW | RTLD_LOCAL);
        if (!h) return printf("%s\n", dlerror()), 1;
        auto touch = (long (*)(long))dlsym(h, "touch");
        auto fail = (void (*)(int))dlsym(h, "fail");
        std::vector<std::thread> t;
        for (int k = 0; k < 4; k++) t.emplace_back([&, k] {
            for (int i = 0; i < 100; i++) words[1] += touch(k);
            try { fail(k); } catch (std::exception &e) { words[2] += strlen(e.what()); }
        });
        for (auto &x : t) x.join();
        if (dlclose(h)) return 2;
    }
    printf("%ld %ld\n", words[1].load(), words[2].load());
    void *again = dlopen("libplugin.so", RTLD_NOW | RTLD_GLOBAL);
    auto touch = (long (*)(long))dlsym(again, "touch");
    std::thread([&] { touch(3); }).join();
    touch(1);
    dlclose(again);
    return 0;
}
static int exits_in_static() {
    struct Late { ~Late() { std::thread([] { plain[0]++; printf("late\n"); }).join(); fflush(stdout); } };
    static Late late;
    struct Own { ~Own() { plain[5]++; delete[] new int[100]; printf("own\n"); } };
    std::thread([] { thread_local Own o; plain[6] = (long)&o; }).join();
    thread_local Own mine; plain[7] = (long)&mine;
    at_quick_exit([] { printf("quick\n"); fflush(stdout); });
    std::thread([] { std::exit(7); }).join();
    return 0;
}
int main(int argc, char **argv) {
    const std::map<std::string, int (*)()> all = {{"handlers_throw", handlers_throw}, {"owners", owners},
        {"files", files}, {"closed_library", closed_library}, {"exits_in_static", exits_in_static}};
    std::thread a([] { for (int i = 0; i < 5000; i++) plain[8]++; }), b([] { for (int i = 0; i < 5000;
        i++) plain[9]++; });
    a.join(); b.join();
    return all.at(argv[1])();
}
