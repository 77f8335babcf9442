/* C++20: a word that is waited for (-DHOW=1), semaphores (2), a barrier (3), a latch per round (4): who has the turn stores 20,000
 * times, nobody else stores meanwhile. */
#include "common.h"
#include <atomic>
#include <barrier>
#include <latch>
#include <semaphore>
alignas(64) static volatile long own[THREADS_MAX];
alignas(64) static std::atomic<long> turn{0};
static std::counting_semaphore<> *go[THREADS_MAX];
static std::barrier<> *together;
static std::latch *done[8 * THREADS_MAX];
static void *work(void *arg)
{
	long me = (long)arg;
	for (long k = 0; k < 8L * threads; k++) {
		bool mine = k % threads == me;
#if HOW == 1
		if (mine)
			for (long seen; (seen = turn.load()) != k;)
				turn.wait(seen);
#elif HOW == 2
		if (mine)
			go[me]->acquire();
#elif HOW == 4
		if (mine && k)
			done[k - 1]->wait();
#endif
		if (mine)
			for (int i = 0; i < 20000; i++)
				own[me] = own[me] + 1;
#if HOW == 1
		if (mine) {
			turn.store(k + 1);
			turn.notify_all();
		}
#elif HOW == 2
		if (mine)
			go[(me + 1) % threads]->release();
#elif HOW == 3
		together->arrive_and_wait();
#else
		if (mine)
			done[k]->count_down();
#endif
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	for (int i = 0; i < threads; i++)
		go[i] = new std::counting_semaphore<>(i == 0);
	together = new std::barrier<>(threads);
	for (int i = 0; i < 8 * threads; i++)
		done[i] = new std::latch(1);
	run_threads(work);
	truth("handoffs", 8L * threads);
	return 0;
}
