#include "tallyd.h"

#include <string.h>

void queue_init(struct queue *q)
{
	memset(q, 0, sizeof(*q));
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->not_empty, NULL);
	pthread_cond_init(&q->not_full, NULL);
}

int queue_push(struct queue *q, struct batch *b)
{
	pthread_mutex_lock(&q->lock);
	while (q->tail - q->head == QUEUE_MAX && !q->closed)
		pthread_cond_wait(&q->not_full, &q->lock);
	if (q->closed) {
		pthread_mutex_unlock(&q->lock);
		return -1;
	}
	q->slots[q->tail++ % QUEUE_MAX] = b;
	pthread_cond_signal(&q->not_empty);
	pthread_mutex_unlock(&q->lock);
	return 0;
}

struct batch *queue_pop(struct queue *q)
{
	struct batch *b = NULL;

	pthread_mutex_lock(&q->lock);
	while (q->tail == q->head && !q->closed)
		pthread_cond_wait(&q->not_empty, &q->lock);
	if (q->tail != q->head) {
		b = q->slots[q->head++ % QUEUE_MAX];
		pthread_cond_signal(&q->not_full);
	}
	pthread_mutex_unlock(&q->lock);
	return b;
}

void queue_close(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->closed = 1;
	pthread_cond_broadcast(&q->not_empty);
	pthread_cond_broadcast(&q->not_full);
	pthread_mutex_unlock(&q->lock);
}
