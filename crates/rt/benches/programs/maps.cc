// Maps of strings under eight locks: nodes and strings on the heap, short critical sections.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct Shard {
    std::mutex lock;
    std::map<std::string, std::string> entries;
};
static Shard shards[8];

static void work(unsigned seed, long rounds) {
    for (long i = 0; i < rounds; i++) {
        seed = seed * 1664525 + 1013904223;
        unsigned key = (seed >> 8) % 20000;
        std::string name = "key of some length " + std::to_string(key);
        Shard &s = shards[key % 8];
        std::lock_guard<std::mutex> held(s.lock);
        switch (seed >> 28 & 3) {
        case 0: s.entries[name] = "value of some length " + std::to_string(i); break;
        case 1: s.entries.erase(name); break;
        default: {
            auto found = s.entries.find(name);
            if (found != s.entries.end()) seed += found->second.size();
        }
        }
    }
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 200000;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) threads.emplace_back(work, i + 1, rounds);
    for (auto &t : threads) t.join();
    size_t n = 0;
    for (auto &s : shards) n += s.entries.size();
    printf("%zu\n", n);
}
