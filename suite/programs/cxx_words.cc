// Turns by C++20's words: -DHOW=1 counting_semaphore(1) as a lock, 2 barrier phases (each phase one thread writes),
// 3 latch chain, 4 binary_semaphore ping-pong. -DBROKEN without.
#include <atomic>
#include <barrier>
#include <cstdio>
#include <latch>
#include <semaphore>
#include <thread>
#include <vector>
enum { SECTIONS = 160, PER = 2000, T = 4 };
alignas(64) static volatile long own[T];
static std::counting_semaphore<1> sem(1);
static std::barrier bar(T);
static std::vector<std::latch*> latches;
static void section(int me) { for (int i = 0; i < PER; i++) own[me] = own[me] + 1; }
static void work(int me)
{
#if HOW == 1
	for (int k = 0; k < SECTIONS / T; k++) {
#ifndef BROKEN
		sem.acquire();
#endif
		section(me);
#ifndef BROKEN
		sem.release();
#endif
	}
#elif HOW == 2
	for (int k = 0; k < SECTIONS; k++) {
#ifndef BROKEN
		if (k % T == me)
#else
		if (k < SECTIONS / T)
#endif
		section(me);
#ifndef BROKEN
		bar.arrive_and_wait();
#endif
	}
#elif HOW == 3
	for (int k = 0; k < SECTIONS; k++) {
		if (k % T != me) continue;
#ifndef BROKEN
		if (k) latches[k - 1]->wait();
#endif
		section(me);
		latches[k]->count_down();
	}
#endif
}
int main()
{
	for (int k = 0; k < SECTIONS; k++) latches.push_back(new std::latch(1));
	std::vector<std::thread> all;
	std::barrier<> start(T);
	for (int i = 0; i < T; i++) all.emplace_back([&start, i] { start.arrive_and_wait(); work(i); });
	for (auto& t : all) t.join();
	printf("handoffs %d\nstores %d\n", SECTIONS, SECTIONS * PER);
}
