/* Quiet: one thread fills blocks of 16 KiB on the heap and hands them on by a queue with a mutex and conditions; the
 * others read each block many times and free it. 400 blocks of 256 lines: every line moves once per block. With 1 byte
 * of length behind the words, two lines before the next block and what malloc keeps in front of it. No layout helps:
 * moves. */
#include "common.h"
struct block { unsigned words[4096]; unsigned char used, rest[127]; };
static struct block *queue[8];
static int head, tail, closed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, room = PTHREAD_COND_INITIALIZER;
static void *work(void *arg)
{
	long me = (long)arg, sum = 0;
	if (me == 0) {
		for (int k = 0; k < 400; k++) {
			struct block *b = malloc(sizeof(*b));
			b->used = 200;
			for (int i = 0; i < 4096; i++) b->words[i] = i * k;
			pthread_mutex_lock(&lock);
			while (tail - head == 8) pthread_cond_wait(&room, &lock);
			queue[tail++ % 8] = b;
			pthread_cond_signal(&more);
			pthread_mutex_unlock(&lock);
		}
		pthread_mutex_lock(&lock);
		closed = 1;
		pthread_cond_broadcast(&more);
		pthread_mutex_unlock(&lock);
		return NULL;
	}
	for (;;) {
		pthread_mutex_lock(&lock);
		while (tail == head && !closed) pthread_cond_wait(&more, &lock);
		if (tail == head) { pthread_mutex_unlock(&lock); return (void *)sum; }
		struct block *b = queue[head++ % 8];
		pthread_cond_signal(&room);
		pthread_mutex_unlock(&lock);
		for (int i = 0; i < 4096; i++) if (((volatile struct block *)b)->used) sum += b->words[i];
		free(b);
	}
}
int main(int argc, char **argv) { arguments(argc, argv); run_threads(work); truth("handoffs", 400); return 0; }
