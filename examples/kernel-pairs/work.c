// Small workloads for `tussle record-kernel --threads`: `work NAME ROUNDS [FILE]` runs four threads, each on a CPU of
// its own where there are four, which begin together. See docs/kernel-pairs.md for what each is to show.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#if __has_include("tussle.h")
#include "tussle.h"
#else
#define tussle_region_begin(name) ((void)0)
#define tussle_region_end(name) ((void)0)
#endif

enum { THREADS = 4 };
static const char *file_name = "/dev/shm/one-file";
static pthread_barrier_t begin;
static int pipes[THREADS][2];
static int server[2], receiver, rounds;

static void die(const char *what) { perror(what); exit(1); }
static void check(int bad, const char *what) { if (bad) die(what); }

// Two threads hand each other a byte; each waits for it, so its CPU goes idle and comes back.
static void turn_about(int me) {
	char byte = 0;
	int to = pipes[me ^ 1][1], from = pipes[me][0];
	for (int i = 0; i < rounds; i++) {
		check(write(to, &byte, 1) != 1, "write");
		check(read(from, &byte, 1) != 1, "read");
	}
}

// The same with a futex: `turn` of a pair is whose turn it is, and each sleeps until it is its own.
static int turn[THREADS / 2];
static void futex_turns(int me) {
	int *word = &turn[me / 2], mine = me % 2;
	for (int i = 0; i < rounds; i++) {
		while (__atomic_load_n(word, __ATOMIC_SEQ_CST) != mine)
			syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, !mine, NULL, NULL, 0);
		__atomic_store_n(word, !mine, __ATOMIC_SEQ_CST);
		check(syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) < 0, "futex");
	}
}

static void stat_file(int me) {
	(void)me;
	struct stat st;
	for (int i = 0; i < rounds; i++) check(stat(file_name, &st), "stat");
}

static void open_file(int me) {
	(void)me;
	for (int i = 0; i < rounds; i++) {
		int fd = open(file_name, O_RDONLY);
		check(fd < 0, "open");
		close(fd);
	}
}

static void new_socket(int me) {
	(void)me;
	for (int i = 0; i < rounds; i++) {
		int fd = socket(AF_INET, SOCK_DGRAM, 0);
		check(fd < 0, "socket");
		close(fd);
	}
}

static void aio_context(int me) {
	(void)me;
	for (int i = 0; i < rounds; i++) {
		unsigned long context = 0;
		check(syscall(SYS_io_setup, 8, &context), "io_setup");
		check(syscall(SYS_io_destroy, context), "io_destroy");
	}
}

static struct sockaddr_in address_of(int fd) {
	struct sockaddr_in a;
	socklen_t size = sizeof a;
	check(getsockname(fd, (struct sockaddr *)&a, &size), "getsockname");
	return a;
}

static int bound(int type) {
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, type, 0);
	check(fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a), "bind");
	return fd;
}

static int connected(int type, int to) {
	struct sockaddr_in a = address_of(to);
	int fd = socket(AF_INET, type, 0);
	check(fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a), "connect");
	return fd;
}

// Two pairs: a client asks with a byte, its server answers.
static void tcp_ask(int me) {
	char byte = 0;
	int fd = me % 2 ? accept(server[me / 2], NULL, NULL) : connected(SOCK_STREAM, server[me / 2]);
	check(fd < 0, "accept");
	for (int i = 0; i < rounds; i++) {
		if (me % 2 == 0) check(send(fd, &byte, 1, 0) != 1, "send");
		check(recv(fd, &byte, 1, 0) != 1, "recv");
		if (me % 2) check(send(fd, &byte, 1, 0) != 1, "send");
	}
	close(fd);
}

// Three senders, one receiver that stops when nothing comes for a while.
static void udp_flood(int me) {
	char data[64] = {0};
	if (me == 0) {
		struct timeval wait = {.tv_usec = 20000};
		setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
		for (int i = 0; i < 3 * rounds && recv(receiver, data, sizeof data, 0) > 0; i++) {}
		return;
	}
	int fd = connected(SOCK_DGRAM, receiver);
	for (int i = 0; i < rounds; i++) check(send(fd, data, sizeof data, 0) < 0, "send");
	close(fd);
}

// A name next to FILE that is this thread's own.
static void own_name(char *name, size_t size, int me) { snprintf(name, size, "%s-%d", file_name, me); }

// Each appends a page to a file of its own, and waits until it is on the disk.
static void append_file(int me) {
	static const char page[4096];
	char name[256];
	own_name(name, sizeof name, me);
	int fd = open(name, O_CREAT | O_WRONLY | O_APPEND, 0644);
	check(fd < 0, name);
	for (int i = 0; i < rounds; i++) {
		check(write(fd, page, sizeof page) != sizeof page, "write");
		check(fsync(fd), "fsync");
	}
	close(fd);
}

// Each makes a file of its own in the folder that all use, and removes it.
static void create_file(int me) {
	char name[256];
	own_name(name, sizeof name, me);
	for (int i = 0; i < rounds; i++) {
		int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
		check(fd < 0, name);
		close(fd);
		check(unlink(name), "unlink");
	}
}

// Four processes map one file, read a page of it, and unmap it.
static void map_file(int me) {
	int fd = open(file_name, O_RDWR), status;
	check(fd < 0 || ftruncate(fd, 4096), file_name);
	pid_t child = fork();
	check(child < 0, "fork");
	for (int i = 0; child == 0 && i < rounds; i++) {
		volatile char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		if (at == MAP_FAILED) _exit(1);
		(void)at[me];
		munmap((void *)at, 4096);
	}
	if (child == 0) _exit(0);
	check(waitpid(child, &status, 0) != child || status, "a process");
	close(fd);
}

static const struct { const char *name; void (*run)(int); } WORK[] = {
	{"switch", turn_about}, {"stat", stat_file}, {"open", open_file}, {"socket", new_socket},
	{"aio", aio_context},   {"tcp", tcp_ask},    {"udp", udp_flood},  {"futex", futex_turns},
	{"append", append_file}, {"create", create_file}, {"map", map_file},
};
static void (*work)(int);

static void *thread(void *arg) {
	int me = (int)(long)arg;
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(me % (int)sysconf(_SC_NPROCESSORS_ONLN), &cpus);
	check(sched_setaffinity(0, sizeof cpus, &cpus), "sched_setaffinity");
	pthread_barrier_wait(&begin);
	tussle_region_begin("work");
	work(me);
	tussle_region_end("work");
	return NULL;
}

int main(int argc, char **argv) {
	for (size_t i = 0; argc >= 3 && i < sizeof WORK / sizeof *WORK; i++)
		if (!strcmp(argv[1], WORK[i].name)) work = WORK[i].run;
	rounds = argc >= 3 ? atoi(argv[2]) : 0;
	if (argc > 3) file_name = argv[3];
	if (!work || rounds < 1) return fprintf(stderr, "usage: work NAME ROUNDS [FILE]\n"), 2;
	int fd = open(file_name, O_CREAT | O_RDONLY, 0644);
	check(fd < 0, file_name);
	close(fd);
	for (int i = 0; i < THREADS; i++) check(pipe(pipes[i]), "pipe");
	receiver = bound(SOCK_DGRAM);
	for (int i = 0; i < 2; i++) {
		server[i] = bound(SOCK_STREAM);
		check(listen(server[i], 4), "listen");
	}
	pthread_t threads[THREADS];
	check(pthread_barrier_init(&begin, NULL, THREADS), "barrier");
	for (long i = 0; i < THREADS; i++) check(pthread_create(&threads[i], NULL, thread, (void *)i), "thread");
	for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
	return 0;
}
