// Numbers in a container of the library's, which the program's own code counts up in place, each thread its own. The
// library allocated them, the program chose what they are. FIXED: each is as large as a line.
// VECTOR, DEQUE, LIST, ARRAY, ATOMIC: which container. HASH: values of a map. LOCKS: locks of the library's, each thread takes its own.
#include "common.h"
#include <array>
#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>
#define TIMES 50000
#ifdef HASH
#define VALUE(it) (it)->second
#else
#define VALUE(it) *(it)
#endif
#ifdef FIXED
template<typename T> struct alignas(64) apart {
	T n;
};
#define NUMBER(T) apart<T>
#define OF(x) (x).n
#else
#define NUMBER(T) T
#define OF(x) (x)
#endif
#ifdef VECTOR
static std::vector<NUMBER(long)> counts(64);
#elif defined(DEQUE)
static std::deque<NUMBER(long)> counts(64);
#elif defined(LIST)
static std::list<NUMBER(long)> counts(64);
#elif defined(ATOMIC)
static std::vector<NUMBER(std::atomic<long>)> counts(64);
#elif defined(HASH)
static std::unordered_map<long, NUMBER(long)> counts;
static const bool full = [] {
	for (long i = 0; i < 64; i++)
		counts[i];
	return true;
}();
#elif defined(LOCKS)
static std::vector<NUMBER(std::mutex)> counts(64);
#else
static auto shared = std::make_shared<std::array<NUMBER(long), 64>>();
static auto &counts = *shared;
#endif
static void *work(void *arg)
{
	auto mine = counts.begin();
	std::advance(mine, (long)arg % 64);
	for (long i = 0; i < TIMES; i++) {
#ifdef LOCKS
		std::lock_guard<std::mutex> held(OF(VALUE(mine)));
#else
		OF(VALUE(mine)) += i & 3;
#endif
		__asm__ volatile("" ::: "memory");
	}
	return nullptr;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", (long)TIMES * threads);
	return 0;
}
