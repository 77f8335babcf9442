// C++20: exceptions over frames and threads, coroutines, thread_local, everything of <thread>, containers, streams.
#include "kinds.h"
#include <algorithm>
#include <any>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <latch>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <queue>
#include <ranges>
#include <regex>
#include <semaphore>
#include <set>
#include <shared_mutex>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <typeindex>
#include <unordered_map>
#include <variant>
#include <vector>

namespace {
struct Noisy {
    const char *name;
    explicit Noisy(const char *n) : name(n) { std::cout << "+" << n << "\n"; }
    ~Noisy() { std::cout << "-" << name << "\n"; }
};
Noisy global{"global"};
thread_local std::string own = "fresh";

[[gnu::noinline]] int thrower(int n) {
    Noisy here("frame");
    pair[0] = pair[0] + 1;
    if (n == 0) throw std::runtime_error("from below");
    return thrower(n - 1) + 1;
}
int exceptions() {
    for (int i = 0; i < 3; i++) {
        try {
            thrower(i * 2);
        } catch (const std::exception &e) {
            std::cout << e.what() << "\n";
        }
    }
    try {
        try {
            thrower(1);
        } catch (...) {
            std::throw_with_nested(std::logic_error("outer"));
        }
    } catch (const std::exception &e) {
        try {
            std::rethrow_if_nested(e);
        } catch (const std::exception &inner) {
            std::cout << e.what() << " <- " << inner.what() << "\n";
        }
    }
    long sum = 0;
    for (int i = 0; i < 2000; i++) {
        try {
            if (i % 3) throw i;
        } catch (int v) {
            sum += v;
        }
    }
    std::cout << sum << " " << std::uncaught_exceptions() << "\n";
    fights();
    return 0;
}
int across_threads() {
    std::exception_ptr kept;
    std::thread t([&] {
        try {
            thrower(2);
        } catch (...) {
            kept = std::current_exception();
        }
    });
    t.join();
    try {
        std::rethrow_exception(kept);
    } catch (const std::runtime_error &e) {
        std::cout << e.what() << "\n";
    }
    auto f = std::async(std::launch::async, [] { return thrower(1); });
    try {
        f.get();
    } catch (const std::runtime_error &e) {
        std::cout << e.what() << "\n";
    }
    return 0;
}
void hands_up() {
    std::cout << "terminate handler" << std::endl;
    _exit(33);
}
int terminates() {
    std::set_terminate(hands_up);
    fights();
    std::thread([] { throw 1; }).join();
    return 0;
}
void never() noexcept { thrower(0); }
int noexcepts() {
    fights();
    std::cout << std::flush;
    never();
    return 0;
}
struct Local {
    int n = 0;
    ~Local() {
        own += "!";
        std::cout << "thread's " << n << " " << own << "\n";
    }
};
thread_local Local local;
int thread_locals() {
    for (int i = 1; i < 4; i++) {
        std::thread([i] {
            local.n = i;
            own = std::string(100, 'x').substr(0, static_cast<size_t>(i));
        }).join();
    }
    local.n = 9;
    fights();
    return 0;
}
template <typename T> struct Generator {
    struct promise_type {
        T value{};
        Generator get_return_object() { return Generator{std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(T v) {
            value = v;
            return {};
        }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
    explicit Generator(std::coroutine_handle<promise_type> h) : handle(h) {}
    // clang 14 wants to move what the promise returns.
    Generator(Generator &&from) : handle(from.handle) { from.handle = nullptr; }
    ~Generator() {
        if (handle) handle.destroy();
    }
    bool next() {
        handle.resume();
        return !handle.done();
    }
};
Generator<long> numbers(long n) {
    std::vector<long> kept;
    for (long i = 0; i < n; i++) {
        kept.push_back(i);
        co_yield std::accumulate(kept.begin(), kept.end(), 0L);
    }
}
int coroutines() {
    long sum = 0;
    auto run = [&](long n) {
        long s = 0;
        auto g = numbers(n);
        while (g.next()) s += g.handle.promise().value;
        return s;
    };
    std::thread t([&] { sum = run(60); });
    long here = run(50);
    t.join();
    // Begun here, continued there.
    auto g = numbers(10);
    g.next(), g.next();
    std::thread([&] { while (g.next()) here += g.handle.promise().value; }).join();
    std::cout << sum << " " << here << "\n";
    return 0;
}
int threading() {
    std::latch latch(3);
    std::barrier barrier(3);
    std::counting_semaphore<4> sem(2);
    std::shared_mutex rw;
    std::atomic<long> count = 0;
    std::map<int, int> table;
    {
        std::vector<std::jthread> all;
        for (int i = 0; i < 3; i++) {
            all.emplace_back([&, i](std::stop_token) {
                latch.arrive_and_wait();
                for (int k = 0; k < 200; k++) {
                    // To wait for it may last for ever in libstdc++ (its bug 104928), recorded or not.
                    while (!sem.try_acquire()) std::this_thread::yield();
                    if (k % 10 == i) {
                        std::unique_lock l(rw);
                        table[k]++;
                    } else {
                        std::shared_lock l(rw);
                        count += static_cast<long>(table.count(k));
                    }
                    sem.release();
                    if (k % 50 == 0) barrier.arrive_and_wait();
                }
            });
        }
    }
    std::cout << table.size() << "\n";
    std::mutex m;
    std::condition_variable_any cv;
    std::queue<std::string> q;
    std::jthread consumer([&](std::stop_token stop) {
        size_t bytes = 0;
        std::unique_lock l(m);
        while (cv.wait(l, stop, [&] { return !q.empty(); })) {
            bytes += q.front().size();
            q.pop();
            if (bytes == 4950) break;
        }
        std::cout << bytes << "\n";
    });
    for (size_t i = 0; i < 100; i++) {
        std::lock_guard l(m);
        q.push(std::string(i, 'q'));
        cv.notify_one();
    }
    consumer.join();
    std::promise<int> p;
    auto f = p.get_future();
    std::thread([&] { p.set_value_at_thread_exit(6); }).join();
    std::cout << f.get() << "\n";
    std::atomic<std::shared_ptr<int>> shared = std::make_shared<int>(4);
    std::thread([&] { shared.store(std::make_shared<int>(5)); }).join();
    std::cout << *shared.load() << "\n";
    std::atomic<int> flag = 0;
    std::thread waker([&] {
        flag = 1;
        flag.notify_all();
    });
    flag.wait(0);
    waker.join();
    std::atomic_ref<long> ref(*const_cast<long *>(&pair[0]));
    ref.fetch_add(5);
    std::once_flag once;
    for (int i = 0; i < 2; i++) std::call_once(once, [] { std::cout << "once\n"; });
    std::timed_mutex tm;
    std::cout << tm.try_lock_for(std::chrono::milliseconds(1)) << "\n";
    return 0;
}
struct Base {
    virtual ~Base() = default;
    virtual int value() const { return 1; }
};
struct Derived : virtual Base {
    int value() const override { return 2; }
};
int containers() {
    std::map<std::string, std::vector<int>> m;
    std::unordered_map<std::string, std::unique_ptr<Base>> u;
    for (int i = 0; i < 300; i++) {
        m["key" + std::to_string(i % 20)].push_back(i);
        u.emplace("a longer key that needs the heap " + std::to_string(i),
                  i % 2 ? std::make_unique<Base>() : std::unique_ptr<Base>(new Derived));
    }
    int sum = 0;
    for (auto &[k, v] : u) sum += v->value() + (dynamic_cast<Derived *>(v.get()) ? 10 : 0);
    std::cout << m.size() << " " << m["key7"].size() << " " << sum << " " << typeid(Derived).name() << "\n";
    std::list<std::deque<int>> l(10, std::deque<int>(100, 3));
    l.remove_if([n = 0](auto &) mutable { return n++ % 2; });
#if !defined(__clang__) || __clang_major__ >= 16 // earlier ones do not compile the views of libstdc++
    auto even = std::views::iota(1, 100) | std::views::filter([](int i) { return i % 2 == 0; }) | std::views::take(5);
    for (int i : even) std::cout << i << " ";
#endif
    std::variant<int, std::string> v = "variant";
    std::any a = std::string("any");
    std::optional<int> none;
    std::cout << l.size() << std::get<std::string>(v) << std::any_cast<std::string>(a) << none.value_or(4) << "\n";
    std::regex re("(\\w+)@(\\w+)");
    std::smatch found;
    std::string text = "someone@somewhere";
    std::cout << std::regex_match(text, found, re) << found[2] << "\n";
    std::ofstream("file.txt") << "written " << 42 << "\n";
    std::ifstream in("file.txt");
    std::string word;
    while (in >> word) std::cout << word << ";";
    std::cout << std::filesystem::file_size("file.txt") << std::filesystem::exists("nothing") << "\n";
    std::ostringstream o;
    o << std::hex << 255 << " " << std::showpoint << 1.0;
    std::cerr << o.str() << "\n";
    std::vector<int> big(100000);
    std::iota(big.rbegin(), big.rend(), 0);
    std::sort(big.begin(), big.end());
    std::cout << big[777] << "\n";
    fights();
    return 0;
}
} // namespace
KINDS({"exceptions", exceptions}, {"across_threads", across_threads}, {"terminate", terminates},
      {"noexcept", noexcepts}, {"thread_local", thread_locals}, {"coroutines", coroutines}, {"threading", threading},
      {"containers", containers})
