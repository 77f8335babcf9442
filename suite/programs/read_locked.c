/* Readers hold the lock together, and each counts in an element of its own: every store may find the line elsewhere,
 * the lock keeps nobody away. */
#include "common.h"
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct { volatile long looked APART; } seen[THREADS_MAX];
static void *work(void *arg)
{
	for (int k = 0; k < 200; k++) {
		pthread_rwlock_rdlock(&lock);
		for (int i = 0; i < 500; i++)
			seen[(long)arg].looked++;
		pthread_rwlock_unlock(&lock);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("stores", 100000L * threads);
	return 0;
}
