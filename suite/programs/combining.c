/* Flat combining: a thread writes its request into its record, 32 bytes apart from the next one's, and prepares the next
 * in `draft` there (200 stores per request); whoever has the lock looks at all requests and serves those that are new.
 * Fixed: request and answer on a line per thread, the draft on another one: whoever looks for requests would take it from
 * a thread that is at it. Then 300 requests per thread move a line twice each. */
#include "common.h"
struct record {
	long request APART, answer, draft APART, spare;
};
static struct record records[THREADS_MAX] __attribute__((aligned(64)));
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;
static void *work(void *arg)
{
	volatile struct record *r = &records[(long)arg];
	for (int i = 1; i <= 300; i++) {
		for (int k = 0; k < 200; k++) r->draft += k;
		STORE(&records[(long)arg].request, i);
		while (LOAD(&records[(long)arg].answer) != i) {
			if (pthread_mutex_trylock(&lock)) { sched_yield(); continue; }
			for (int t = 0; t < threads; t++) {
				long want = LOAD(&records[t].request);
				if (want != records[t].answer) total += want, STORE(&records[t].answer, want);
			}
			pthread_mutex_unlock(&lock);
		}
	}
	return NULL;
}
int main(int argc, char **argv) { arguments(argc, argv); run_threads(work); truth("stores", 60000L * threads); return 0; }
