// Two threads append to queues of their own, whose heads and sizes lie side by side in one object.
#include "common.h"
#include <deque>
struct Mailbox {
	long sent = 0;
	std::deque<long> letters;
};
struct Office {
	Mailbox left;
	APART Mailbox right;
};
static Office *office;
static void *work(void *arg)
{
	Mailbox &mine = arg ? office->right : office->left;
	for (long i = 0; i < 40000; i++) {
		mine.sent++;
		mine.letters.push_back(i);
		if (mine.letters.size() > 100)
			mine.letters.pop_front();
	}
	return nullptr;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	threads = 2;
	office = new Office;
	run_threads(work);
	truth("stores", 80000);
	return 0;
}
