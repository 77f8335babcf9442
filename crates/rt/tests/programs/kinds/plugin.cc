// Loaded and closed by plugins.cc: objects of each thread, and one whose end starts a thread.
#include <stdexcept>
#include <string>
#include <vector>
#include <thread>
#include <mutex>
struct Kept { std::vector<long> v; ~Kept() { v.assign(100, 1); } };
static thread_local Kept kept;
static thread_local long big[5000];
static std::vector<std::string> *names = new std::vector<std::string>{"one", "two"};
static std::mutex m;
struct Ends { ~Ends() { std::thread([] { names->push_back("end"); }).join(); delete names; } } ends;
inline long counter = 0;
extern "C" long touch(long n) { std::lock_guard l(m); kept.v.push_back(n); big[n]++; counter++;
    return (long)kept.v.size() & 1; }
extern "C" void fail(int n) { throw std::runtime_error("failed " + std::to_string(n)); }
