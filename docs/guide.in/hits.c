/* The guide's program: four threads answer requests, and each counts its own. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, REQUESTS = 300000 };

struct hits {
	unsigned long requests;
	unsigned long bytes;
};

struct server {
	unsigned long limit; /* read by everybody, for every request */
	unsigned long open;  /* counted up and down, for every request */
	struct hits *hits;   /* one of each thread */
};

static struct server server = { .limit = 100 };

static void answer(struct hits *mine, unsigned long n)
{
	if (__atomic_add_fetch(&server.open, 1, __ATOMIC_RELAXED) <= server.limit) {
		mine->requests++;
		mine->bytes += n % 1400;
	}
	__atomic_sub_fetch(&server.open, 1, __ATOMIC_RELAXED);
}

static void *serve(void *mine)
{
	for (unsigned long n = 0; n < REQUESTS; n++)
		answer(mine, n);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	server.hits = calloc(THREADS, sizeof *server.hits);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, serve, &server.hits[i]);
	unsigned long sum = 0;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		sum += server.hits[i].requests;
	}
	printf("%lu requests\n", sum);
	return 0;
}
