/* Threads that live one after the other write the same line. */
#include "common.h"
static struct {
	volatile long a;
	volatile long b;
} __attribute__((aligned(64))) log_book;
static void *work(void *arg)
{
	for (int i = 0; i < 60000; i++) {
		if ((long)arg % 2)
			log_book.a++;
		else
			log_book.b++;
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	for (long i = 0; i < threads; i++) {
		pthread_t one;
		pthread_create(&one, NULL, work, (void *)i);
		pthread_join(one, NULL);
	}
	truth("handoffs", threads);
	return 0;
}
