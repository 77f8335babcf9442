/* Threads in steps of COUNT accesses, ordered by what the program made itself, or by POSIX. Each thread stores to its own
   element of one line.   turns MODE [ACCESSES]
   One thread stores per step, the others wait:   barrier rounds dissemination turn token captured sem posix_sem cond
                                                  posix_cond futex
   All store in each step, then wait for each other:   together
   A thread hands tasks to three workers, which work at once:   farm posix_farm
   Two pairs, of which each takes turns for itself:   pairs (one of each pair shares a line with one of the other)
                                                    couples (only the two of a pair share a line) */
#include "common.h"
#include <linux/futex.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>

enum { THREADS = 4, STEPS = 160 };
#define LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define ADD(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
#define APART __attribute__((aligned(64)))

static int count = 2000;
static struct {
	volatile long value[8];
} APART board, other;
/* Under a lock. */
static volatile int whose APART;
static int arrived APART, sense APART, rounds APART, turn APART, token APART, sequence APART, spin APART;
static struct {
	int word;
} APART flag[THREADS][2], credit[THREADS];
static sem_t posted[THREADS], idle;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void store_to(volatile long *place)
{
	for (int i = 0; i < count; i++)
		*place += i;
}

static void wait_for(int *word, int value)
{
	while (LOAD(word) != value)
		sched_yield();
}

static void meet(int *mine)
{
	*mine = !*mine;
	if (ADD(&arrived, 1) == THREADS - 1) {
		STORE(&arrived, 0);
		STORE(&sense, *mine);
		return;
	}
	wait_for(&sense, *mine);
}

static void *barrier(void *arg)
{
	long me = (long)arg;
	int mine = 0;
	for (int step = 0; step < STEPS; step++) {
		if (step % THREADS == me)
			store_to(&board.value[me]);
		meet(&mine);
	}
	return NULL;
}

static void *together(void *arg)
{
	long me = (long)arg;
	int mine = 0;
	for (int step = 0; step < STEPS; step++) {
		store_to(&board.value[me]);
		meet(&mine);
	}
	return NULL;
}

static void *by_rounds(void *arg)
{
	long me = (long)arg;
	for (int step = 0; step < STEPS; step++) {
		if (step % THREADS == me)
			store_to(&board.value[me]);
		ADD(&rounds, 1);
		while (LOAD(&rounds) < (step + 1) * THREADS)
			sched_yield();
	}
	return NULL;
}

static void *dissemination(void *arg)
{
	long me = (long)arg;
	for (int step = 0; step < STEPS; step++) {
		if (step % THREADS == me)
			store_to(&board.value[me]);
		for (int k = 0; k < 2; k++) {
			STORE(&flag[(me + (1 << k)) % THREADS][k].word, step + 1);
			while (LOAD(&flag[me][k].word) < step + 1)
				sched_yield();
		}
	}
	return NULL;
}

static void *by_turn(void *arg)
{
	long me = (long)arg;
	for (int step = 0; step < STEPS / THREADS; step++) {
		wait_for(&turn, (int)me);
		store_to(&board.value[me]);
		STORE(&turn, (int)(me + 1) % THREADS);
	}
	return NULL;
}

/* A number that only grows says whose turn it is. */
static void *by_token(void *arg)
{
	long me = (long)arg;
	for (int step = 0; step < STEPS / THREADS; step++) {
		while (LOAD(&token) % THREADS != me)
			sched_yield();
		store_to(&board.value[me]);
		ADD(&token, 1);
	}
	return NULL;
}

/* What a lambda keeps: its captures lie on the heap, and refer to variables of the thread that made it. */
static int *places[1] = {&turn};

static void *by_captured_turn(void *arg)
{
	struct {
		int **volatile places;
		volatile long me;
	} *mine = aligned_alloc(64, 64);
	mine->places = places;
	mine->me = (long)arg;
	for (int step = 0; step < STEPS / THREADS; step++) {
		while (LOAD(((int *volatile *)mine->places)[0]) != mine->me)
			sched_yield();
		store_to(&board.value[mine->me]);
		STORE(&turn, (int)(mine->me + 1) % THREADS);
	}
	free(mine);
	return NULL;
}

static void take(int *word)
{
	for (;;) {
		int n = LOAD(word);
		if (n > 0 && __atomic_compare_exchange_n(word, &n, n - 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return;
		sched_yield();
	}
}

static void *by_sem(void *arg)
{
	long me = (long)arg;
	for (int step = 0; step < STEPS / THREADS; step++) {
		take(&credit[me].word);
		store_to(&board.value[me]);
		ADD(&credit[(me + 1) % THREADS].word, 1);
	}
	return NULL;
}

static void *by_posix_sem(void *arg)
{
	long me = (long)arg;
	for (int step = 0; step < STEPS / THREADS; step++) {
		sem_wait(&posted[me]);
		store_to(&board.value[me]);
		sem_post(&posted[(me + 1) % THREADS]);
	}
	return NULL;
}

static void lock(void)
{
	while (__atomic_exchange_n(&spin, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void unlock(void)
{
	STORE(&spin, 0);
}

/* A condition is the number of its changes; `futex`: who waits for it sleeps. */
static void *by_cond(int futex, long me)
{
	for (int step = 0; step < STEPS / THREADS; step++) {
		lock();
		while (whose != me) {
			int before = LOAD(&sequence);
			unlock();
			while (LOAD(&sequence) == before)
				if (futex)
					syscall(SYS_futex, &sequence, FUTEX_WAIT_PRIVATE, before, NULL, NULL, 0);
				else
					sched_yield();
			lock();
		}
		unlock();
		store_to(&board.value[me]);
		lock();
		whose = (int)(me + 1) % THREADS;
		unlock();
		ADD(&sequence, 1);
		if (futex)
			syscall(SYS_futex, &sequence, FUTEX_WAKE_PRIVATE, THREADS, NULL, NULL, 0);
	}
	return NULL;
}

static void *by_spun_cond(void *arg)
{
	return by_cond(0, (long)arg);
}

static void *by_futex(void *arg)
{
	return by_cond(1, (long)arg);
}

static void *by_posix_cond(void *arg)
{
	long me = (long)arg;
	for (int step = 0; step < STEPS / THREADS; step++) {
		pthread_mutex_lock(&mutex);
		while (whose != me)
			pthread_cond_wait(&changed, &mutex);
		pthread_mutex_unlock(&mutex);
		store_to(&board.value[me]);
		pthread_mutex_lock(&mutex);
		whose = (int)(me + 1) % THREADS;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

/* Thread 0 gives each worker the next task as soon as it has none, and prepares a little in between. */
static void *farm(void *arg)
{
	long me = (long)arg;
	static volatile long prepared APART;
	if (me) {
		for (int task = 0; task < STEPS; task++) {
			wait_for(&flag[me][0].word, 1);
			store_to(&board.value[me]);
			STORE(&flag[me][0].word, 0);
		}
		return NULL;
	}
	for (int given[THREADS] = {0}, all = 0; all < STEPS * (THREADS - 1);) {
		for (int w = 1; w < THREADS; w++)
			if (given[w] < STEPS && LOAD(&flag[w][0].word) == 0) {
				prepared += all;
				STORE(&flag[w][0].word, 1);
				given[w]++, all++;
			}
		sched_yield();
	}
	return NULL;
}

static void *posix_farm(void *arg)
{
	long me = (long)arg;
	static int given[THREADS];
	if (me) {
		for (int task = 0; task < STEPS; task++) {
			sem_wait(&posted[me]);
			store_to(&board.value[me]);
			STORE(&flag[me][0].word, 0);
			sem_post(&idle);
		}
		return NULL;
	}
	for (int all = 0; all < STEPS * (THREADS - 1) + 0;) {
		for (int w = 1; w < THREADS; w++)
			if (given[w] < STEPS && LOAD(&flag[w][0].word) == 0) {
				STORE(&flag[w][0].word, 1);
				sem_post(&posted[w]);
				given[w]++, all++;
			}
		if (all < STEPS * (THREADS - 1))
			sem_wait(&idle);
	}
	return NULL;
}

static int couples;

static void *pairs(void *arg)
{
	long me = (long)arg, pair = me / 2, side = me % 2;
	volatile long *place = (couples ? pair : side) ? &board.value[me] : &other.value[me];
	for (int step = 0; step < STEPS; step++) {
		wait_for(&flag[pair][0].word, (int)side);
		store_to(place);
		STORE(&flag[pair][0].word, !side);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void *(*work)(void *);
	} modes[] = {
		{"barrier", barrier}, {"together", together}, {"rounds", by_rounds}, {"dissemination", dissemination},
		{"turn", by_turn}, {"token", by_token}, {"captured", by_captured_turn}, {"sem", by_sem},
		{"posix_sem", by_posix_sem}, {"cond", by_spun_cond}, {"posix_cond", by_posix_cond}, {"futex", by_futex}, {"farm", farm},
		{"posix_farm", posix_farm}, {"pairs", pairs}, {"couples", pairs},
	};
	if (argc > 2)
		count = atoi(argv[2]) / 2;
	couples = argc > 1 && strcmp(argv[1], "couples") == 0;
	for (int i = 0; i < THREADS; i++)
		sem_init(&posted[i], 0, 0);
	sem_init(&idle, 0, 0);
	if (argc > 1 && strncmp(argv[1], "posix_farm", 10) != 0)
		sem_post(&posted[0]);
	credit[0].word = 1;
	for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++)
		if (argc > 1 && strcmp(argv[1], modes[i].name) == 0)
			return parallel(THREADS, modes[i].work), 0;
	return 2;
}
