/* Data under locks made by hand. Each thread stores PER_SECTION times to its own counter in each of its sections; all
   counters lie on one line, which cannot move more often than the lock changes hands: SECTIONS times.
     -DKIND=NAME    the lock, see below
     -DBROKEN       nobody takes it
     -DLONG         sections are ten times as long, and a tenth as many
     -DSHORT        they are of 8 stores, and 2,500 times as many
     -DLATE         all but the first thread come when that one has gone through its sections
     -DPOLLED       (conditions) the counters lie beside the lock's own words, and every other thread does not wait, but
                    looks again and again under the mutex: those looks lose the line to the counters' stores */
#include "common.h"
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef SHORT
enum { THREADS = 4, SECTIONS = 400000, PER_SECTION = 8 };
#elif defined LONG
enum { THREADS = 4, SECTIONS = 16, PER_SECTION = 20000 };
#else
enum { THREADS = 4, SECTIONS = 160, PER_SECTION = 2000 };
#endif
/* Made of atomics, the first seven with nodes; of a mutex and conditions from SEMAPHORE on. */
#define MCS 1
#define MCS_READY 2
#define MCS_STACK 3
#define CLH 4
#define CLH_READY 5
#define HEMLOCK 6
#define QSPIN 7
#define COHORT 8
#define FLAGS 9
#define ARRAY 10
#define ARRAY_LATE 11
#define SET_BY_HAND 12
#define TICKET_SPIN 13
#define PARKED 14
#define SLOW_UNSEEN 15
#define SEMAPHORE 16
#define WOKEN_AFTER 17
#define READERS 18
#define TICKETS 19
#define TURNS 20
#define OWN_TURNS 21

#define LINE __attribute__((aligned(128)))
#define RELAXED __ATOMIC_RELAXED
#define LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define SET(p, v) __atomic_store_n((p), (v), RELAXED)
#define SWAP(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define CAS(p, from, to) __atomic_compare_exchange_n((p), (from), (to), 0, __ATOMIC_ACQ_REL, RELAXED)

static struct {
	volatile long own[THREADS];
	int busy;
} board LINE;

static pthread_barrier_t start LINE;

static void relax(int *spins)
{
	if (++*spins % 64 == 0)
		sched_yield();
}

#if KIND >= MCS && KIND <= QSPIN
struct node {
	struct node *next;
	int word;
	void *grant;
} LINE;
static struct node nodes[THREADS + 1], *tail LINE;
static __thread struct node *mine;
#endif

#if KIND == MCS || KIND == MCS_READY || KIND == MCS_STACK
/* What a waiter's word is while it waits, and then. */
enum { WAIT = KIND != MCS_READY, GO = !WAIT };
static void queue_up(struct node *n)
{
	int spins = 0;
	SET(&n->next, NULL);
	SET(&n->word, WAIT);
	mine = n;
	struct node *before = SWAP(&tail, n);
	if (!before)
		return;
	STORE(&before->next, n);
	while (LOAD(&n->word) == WAIT)
		relax(&spins);
}
static void take(long me) { queue_up(&nodes[me]); }
static void give(long me)
{
	int spins = 0;
	struct node *n = mine, *last = n, *next = LOAD(&n->next);
	if (!next) {
		if (CAS(&tail, &last, NULL))
			return;
		while (!(next = LOAD(&n->next)))
			relax(&spins);
	}
	STORE(&next->word, GO);
}
#elif KIND == CLH || KIND == CLH_READY
enum { WAIT = KIND != CLH_READY, GO = !WAIT };
static struct node *own_node[THREADS], *before[THREADS];
static void take(long me)
{
	int spins = 0;
	if (!own_node[me])
		own_node[me] = &nodes[me];
	SET(&own_node[me]->word, WAIT);
	before[me] = SWAP(&tail, own_node[me]);
	while (LOAD(&before[me]->word) == WAIT)
		relax(&spins);
}
static void give(long me)
{
	STORE(&own_node[me]->word, GO);
	own_node[me] = before[me];
}
#elif KIND == HEMLOCK
/* Who waits looks at what the one before grants. */
static void take(long me)
{
	int spins = 0;
	struct node *before = SWAP(&tail, &nodes[me]);
	if (before) {
		while (LOAD(&before->grant) != (void *)&tail)
			relax(&spins);
		STORE(&before->grant, NULL);
	}
}
static void give(long me)
{
	int spins = 0;
	struct node *last = &nodes[me];
	if (CAS(&tail, &last, NULL))
		return;
	STORE(&nodes[me].grant, (void *)&tail);
	while (LOAD(&nodes[me].grant))
		relax(&spins);
}
#elif KIND == QSPIN
/* A word, and a queue of those that wait for it. */
static int word LINE;
static void take(long me)
{
	int spins = 0, zero = 0;
	if (!LOAD(&tail) && CAS(&word, &zero, 1))
		return;
	struct node *n = &nodes[me], *last = n, *next;
	SET(&n->next, NULL);
	SET(&n->word, 0);
	struct node *before = SWAP(&tail, n);
	if (before) {
		STORE(&before->next, n);
		while (!LOAD(&n->word))
			relax(&spins);
	}
	do {
		while (LOAD(&word))
			relax(&spins);
		zero = 0;
	} while (!CAS(&word, &zero, 1));
	if (!(next = LOAD(&n->next))) {
		if (CAS(&tail, &last, NULL))
			return;
		while (!(next = LOAD(&n->next)))
			relax(&spins);
	}
	STORE(&next->word, 1);
}
static void give(long me) { STORE(&word, 0); }
#elif KIND == COHORT
/* Tickets of a pair of threads, then of both pairs. */
struct tickets {
	unsigned next LINE, serving LINE;
};
static struct tickets pair[THREADS / 2], all;
static void take_one(struct tickets *t)
{
	int spins = 0;
	unsigned own = __atomic_fetch_add(&t->next, 1, RELAXED);
	while (LOAD(&t->serving) != own)
		relax(&spins);
}
static void take(long me) { take_one(&pair[me / 2]), take_one(&all); }
static void give(long me)
{
	STORE(&all.serving, all.serving + 1);
	STORE(&pair[me / 2].serving, pair[me / 2].serving + 1);
}
#elif KIND == FLAGS
/* Each thread lets the next one go. */
static struct {
	int go LINE;
} slot[THREADS] = {{1}};
static void take(long me)
{
	int spins = 0;
	while (!LOAD(&slot[me].go))
		relax(&spins);
	SET(&slot[me].go, 0);
}
static void give(long me) { STORE(&slot[(me + 1) % THREADS].go, 1); }
#elif KIND == ARRAY || KIND == ARRAY_LATE
/* A ticket says at which flag to wait; who has the lock takes the flag down at once, or when it gives the lock on. */
static struct {
	int go LINE;
} slot[THREADS] = {{1}};
static unsigned next LINE, place[THREADS];
static void take(long me)
{
	int spins = 0;
	place[me] = __atomic_fetch_add(&next, 1, RELAXED) % THREADS;
	while (!LOAD(&slot[place[me]].go))
		relax(&spins);
	if (KIND == ARRAY)
		SET(&slot[place[me]].go, 0);
}
static void give(long me)
{
	if (KIND == ARRAY_LATE)
		SET(&slot[place[me]].go, 0);
	STORE(&slot[(place[me] + 1) % THREADS].go, 1);
}
#endif

#if KIND == SET_BY_HAND
static int locked LINE;
static void take(long me)
{
	(void)me;
	while (SWAP(&locked, 1))
		usleep(500);
}
static void give(long me)
{
	(void)me;
	STORE(&locked, 0);
}
#elif KIND == TICKET_SPIN
static unsigned next LINE, serving LINE;
static void take(long me)
{
	int spins = 0;
	unsigned mine = __atomic_fetch_add(&next, 1, RELAXED);
	(void)me;
	while (LOAD(&serving) != mine)
		relax(&spins);
}
static void give(long me)
{
	(void)me;
	STORE(&serving, serving + 1);
}
#endif

#if KIND == PARKED
/* A byte: 1 says that it is taken, 2 that somebody sleeps, which who gives it back leaves while another one does. Now
   and then a sleeper is given the lock. */
static unsigned char word LINE;
static struct sleeper {
	struct sleeper *next;
	int woken;
} *asleep LINE;
static pthread_mutex_t beds LINE = PTHREAD_MUTEX_INITIALIZER;
/* How a sleeper is woken: to try again, or with the lock, so that nobody waits for ever. */
enum { FREE = 1, HANDED, FAIR = 32 };
static void take(long me)
{
	struct sleeper own;
	(void)me;
	for (;;) {
		unsigned char seen = LOAD(&word);
		if (!(seen & 1)) {
			if (CAS(&word, &seen, seen | 1))
				return;
			continue;
		}
		if (!(seen & 2) && !CAS(&word, &seen, seen | 2))
			continue;
		pthread_mutex_lock(&beds);
		int sleeps = LOAD(&word) == 3;
		if (sleeps) {
			own.woken = 0;
			own.next = asleep;
			asleep = &own;
		}
		pthread_mutex_unlock(&beds);
		while (sleeps && !LOAD(&own.woken))
			syscall(SYS_futex, &own.woken, FUTEX_WAIT_PRIVATE, 0, NULL);
		if (sleeps && LOAD(&own.woken) == HANDED)
			return;
	}
}
static void give(long me)
{
	unsigned char alone = 1;
	(void)me;
	if (CAS(&word, &alone, 0))
		return;
	pthread_mutex_lock(&beds);
	static int gives;
	struct sleeper *first = asleep;
	int handed = first && ++gives % FAIR == 0;
	if (first)
		asleep = first->next;
	STORE(&word, (asleep ? 2 : 0) | handed);
	pthread_mutex_unlock(&beds);
	if (first) {
		STORE(&first->woken, handed ? HANDED : FREE);
		syscall(SYS_futex, &first->woken, FUTEX_WAKE_PRIVATE, 1);
	}
}
#endif

#if KIND == SLOW_UNSEEN
/* 2 says that somebody sleeps. Who does not get it at once goes through code that is not instrumented, as in a library. */
static unsigned word LINE;
__attribute__((noinline, no_sanitize("thread"))) static void wait_for_it(void)
{
	while (SWAP(&word, 2))
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL);
}
static void take(long me)
{
	unsigned nobody = 0;
	(void)me;
	if (!CAS(&word, &nobody, 1))
		wait_for_it();
}
static void give(long me)
{
	(void)me;
	if (SWAP(&word, 0) == 2)
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1);
}
#endif

#if KIND >= SEMAPHORE
static pthread_mutex_t mutex LINE = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed LINE = PTHREAD_COND_INITIALIZER, free_again LINE = PTHREAD_COND_INITIALIZER;
static pthread_cond_t own_turn[THREADS] LINE;
static long next LINE, serving, turn, inside;
#endif

#ifdef NESTED
static pthread_mutex_t log_mutex LINE = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t logged LINE = PTHREAD_COND_INITIALIZER;
#endif

#if KIND == SEMAPHORE || KIND == WOKEN_AFTER
static void take(long me)
{
	pthread_mutex_lock(&mutex);
	while (board.busy) {
#ifdef POLLED
		if (me % 2) {
			pthread_mutex_unlock(&mutex);
			pthread_mutex_lock(&mutex);
			continue;
		}
#endif
		pthread_cond_wait(&changed, &mutex);
	}
	board.busy = 1;
	pthread_mutex_unlock(&mutex);
}
static void give(long me)
{
	pthread_mutex_lock(&mutex);
#ifdef NESTED
	/* Another monitor under this one: it lets somebody go on, too. */
	pthread_mutex_lock(&log_mutex);
	pthread_cond_signal(&logged);
	pthread_mutex_unlock(&log_mutex);
#endif
	board.busy = 0;
#if KIND == SEMAPHORE
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&mutex);
#else
	pthread_mutex_unlock(&mutex);
	pthread_cond_broadcast(&changed);
#endif
}
#elif KIND == READERS
static void take(long me)
{
	pthread_mutex_lock(&mutex);
	while (inside)
		pthread_cond_wait(&free_again, &mutex);
	inside = -1;
	pthread_mutex_unlock(&mutex);
}
static void give(long me)
{
	pthread_mutex_lock(&mutex);
	inside = 0;
	pthread_cond_broadcast(&changed);
	pthread_cond_signal(&free_again);
	pthread_mutex_unlock(&mutex);
}
static void look(void)
{
	pthread_mutex_lock(&mutex);
	while (inside < 0)
		pthread_cond_wait(&changed, &mutex);
	inside++;
	pthread_mutex_unlock(&mutex);
	long sum = 0;
	for (int i = 0; i < 100; i++)
		sum += board.own[i % THREADS];
	pthread_mutex_lock(&mutex);
	inside--;
	pthread_cond_signal(&free_again);
	pthread_mutex_unlock(&mutex);
}
#elif KIND == TICKETS
static void take(long me)
{
	pthread_mutex_lock(&mutex);
	long ticket = next++;
	while (serving != ticket)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
}
static void give(long me)
{
	pthread_mutex_lock(&mutex);
	serving++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}
#elif KIND >= TURNS
#define WHERE (KIND == TURNS ? &changed : &own_turn[me])
static void take(long me)
{
	pthread_mutex_lock(&mutex);
	while (turn % THREADS != me)
		pthread_cond_wait(WHERE, &mutex);
	pthread_mutex_unlock(&mutex);
}
static void give(long me)
{
	pthread_mutex_lock(&mutex);
	me = ++turn % THREADS;
	pthread_cond_broadcast(WHERE);
	pthread_mutex_unlock(&mutex);
}
#endif

static void section(long me)
{
	for (int i = 0; i < PER_SECTION; i++)
		board.own[me]++;
}

static void *work(void *arg)
{
	long me = (long)arg;
	pthread_barrier_wait(&start);
#ifdef LATE
	if (me)
		usleep(100000);
#endif
	for (int k = 0; k < SECTIONS / THREADS; k++) {
#ifdef BROKEN
		section(me);
#else
#if KIND == READERS
		look();
#endif
#if KIND == MCS_STACK
		struct node on_stack = {0};
		queue_up(&on_stack);
#else
		take(me);
#endif
		section(me);
		give(me);
#ifdef OUTSIDE
		section(me);
#endif
#endif
	}
	return NULL;
}

int main(void)
{
	pthread_barrier_init(&start, NULL, THREADS);
#if KIND == CLH || KIND == CLH_READY
	nodes[THREADS].word = GO;
	tail = &nodes[THREADS];
#endif
#if KIND >= SEMAPHORE
	for (int i = 0; i < THREADS; i++)
		pthread_cond_init(&own_turn[i], NULL);
#endif
	parallel(THREADS, work);
	printf("%ld\n", board.own[0]);
	return 0;
}
