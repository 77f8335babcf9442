/* Two processes that use one line in turns, ordered by one means; or all at once, ordered by the same means before.
   phases wait|exec|sem|mutex|cond|barrier|word|spawn MEMORY turns|once [hugetlb]
   MEMORY: a file, which the child maps at another address, or -: pages shared by fork. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 50000, ROUNDS = 4 };

struct shared {
	volatile long counts[2];
	sem_t go[2] __attribute__((aligned(128)));
	pthread_mutex_t mutex __attribute__((aligned(128)));
	pthread_cond_t cond __attribute__((aligned(128)));
	pthread_barrier_t barrier __attribute__((aligned(128)));
	long turn __attribute__((aligned(128)));
	int word __attribute__((aligned(128)));
};

extern char **environ;
static struct shared *s;
static int turns;

static void count(int me)
{
	for (int i = 0; i < COUNT; i++)
		s->counts[me]++;
}

static struct shared *map(const char *path, int child, int huge)
{
	int flags = MAP_SHARED, fd = -1;
	size_t bytes = huge ? 2 << 20 : 8192;
	if (strcmp(path, "-")) {
		fd = open(path, O_RDWR | O_CREAT, 0600);
		if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
			exit(1);
	} else {
		flags |= MAP_ANONYMOUS | (huge ? MAP_HUGETLB : 0);
	}
	void *p = mmap(child ? (void *)0x300000000000 : (void *)0x200000000000, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (p == MAP_FAILED)
		exit(77);
	if (fd >= 0)
		close(fd);
	return p;
}

static void set_up(void)
{
	pthread_mutexattr_t m;
	pthread_condattr_t c;
	pthread_barrierattr_t b;
	pthread_mutexattr_init(&m);
	pthread_condattr_init(&c);
	pthread_barrierattr_init(&b);
	pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED);
	pthread_barrierattr_setpshared(&b, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&s->mutex, &m);
	pthread_cond_init(&s->cond, &c);
	pthread_barrier_init(&s->barrier, &b, 2);
	sem_init(&s->go[0], 1, 1);
	sem_init(&s->go[1], 1, 0);
}

static void by_word(int round)
{
	int v;
	while ((v = __atomic_load_n(&s->word, __ATOMIC_ACQUIRE)) != round)
		syscall(SYS_futex, &s->word, 0, v, NULL, NULL, 0);
}

static void pass_word(int round)
{
	__atomic_store_n(&s->word, round, __ATOMIC_RELEASE);
	syscall(SYS_futex, &s->word, 1, 1, NULL, NULL, 0);
}

static void one_round(const char *how, int me, int k)
{
	if (!strcmp(how, "sem")) {
		sem_wait(&s->go[me]);
		count(me);
		sem_post(&s->go[!me]);
	} else if (!strcmp(how, "mutex")) {
		pthread_mutex_lock(&s->mutex);
		count(me);
		pthread_mutex_unlock(&s->mutex);
		sched_yield();
	} else if (!strcmp(how, "cond")) {
		pthread_mutex_lock(&s->mutex);
		while (s->turn % 2 != me)
			pthread_cond_wait(&s->cond, &s->mutex);
		count(me);
		s->turn++;
		pthread_cond_broadcast(&s->cond);
		pthread_mutex_unlock(&s->mutex);
	} else if (!strcmp(how, "barrier")) {
		for (int who = 0; who < 2; who++) {
			if (who == me)
				count(me);
			pthread_barrier_wait(&s->barrier);
		}
	} else {
		by_word(2 * k + me);
		count(me);
		pass_word(2 * k + me + 1);
	}
}

static void work(const char *how, int me)
{
	/* Whose turn it is not is there before it is: a first change that nobody waits for is seen by nobody. */
	if (!strcmp(how, "word")) {
		pthread_barrier_wait(&s->barrier);
		usleep(me ? 0 : 50000);
	}
	if (!turns)
		pthread_barrier_wait(&s->barrier);
	for (int k = 0; k < ROUNDS; k++)
		if (turns && strcmp(how, "wait") && strcmp(how, "exec") && strcmp(how, "spawn"))
			one_round(how, me, k);
		else
			count(me);
}

int main(int argc, char **argv)
{
	const char *how = argv[1], *path = argv[2];
	turns = argc > 3 && !strcmp(argv[3], "turns");
	int huge = argc > 4 && !strcmp(argv[4], "hugetlb");
	if (argc > 4 && !strcmp(argv[4], "second")) {
		s = map(path, 1, 0);
		work(how, 1);
		return 0;
	}
	s = map(path, 0, huge);
	set_up();
	pid_t pid;
	char *again[] = {argv[0], argv[1], argv[2], argv[3], "second", NULL};
	if (!strcmp(how, "spawn")) {
		if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, again, environ) != 0)
			return 1;
	} else {
		pid = fork();
	}
	if (pid == 0) {
		if (!strcmp(how, "exec"))
			execv("/proc/self/exe", again);
		if (strcmp(path, "-"))
			s = map(path, 1, huge);
		work(how, 1);
		_exit(0);
	}
	int after = turns && (!strcmp(how, "wait") || !strcmp(how, "exec") || !strcmp(how, "spawn"));
	if (!after)
		work(how, 0);
	waitpid(pid, NULL, 0);
	if (after)
		work(how, 0);
	printf("stores %ld\n", s->counts[0] + s->counts[1]);
	return 0;
}
