/* One allocation holds the count of owners and the object: copies of the pointer change the count while others read
 * the object. With -DFIXED the object is allocated by itself, on a line of its own. */
#include "common.h"
#include <memory>
#include <vector>
struct alignas(64) Apart { long rate; };
struct Beside { long rate; };
#ifdef FIXED
typedef Apart Settings;
#else
typedef Beside Settings;
#endif
static std::shared_ptr<Settings> current;
static void *work(void *arg)
{
	long me = (long)arg, sum = 0;
	const volatile Settings *s = current.get();
	for (int i = 0; i < 100000; i++) {
		if (me % 2) {
			std::shared_ptr<Settings> copy = current;
		} else {
			/* Often enough that the object's part of the cost is no borderline, whatever the library reads. */
			for (int k = 0; k < 4; k++)
				sum += s->rate;
		}
	}
	return (void *)(sum & 0);
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
#ifdef FIXED
	current = std::shared_ptr<Settings>(new Settings{7});
#else
	/* A block that ends a line would leave the count there and the object on the next one. Such blocks are kept, so
	 * that none is given out again. */
	std::vector<std::shared_ptr<Settings>> passed;
	do {
		passed.push_back(current);
		current = std::make_shared<Settings>(Settings{7});
	} while ((unsigned long)current.get() % 64 == 0);
#endif
	run_threads(work);
	truth("stores", 100000L * threads);
	return 0;
}
