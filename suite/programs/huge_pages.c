/* Two workers store 100,000 times each to neighbouring words of memory that is mapped in some way: -DKIND="thp"
 * transparent huge pages, "hugetlb" reserved ones, "hugeshared" the same between processes, "shm" shared memory that
 * one process maps anew at another address. Fixed: the words lie on two lines. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUGE (2ul << 20)
#define BYTES (2 * HUGE)
#ifdef FIXED
#define STEP 8
#else
#define STEP 1
#endif

static volatile long *words;
static pthread_barrier_t *start;

static void place(char *m)
{
	start = (pthread_barrier_t *)m;
	words = (volatile long *)(m + 4096);
}

static void run(long k)
{
	pthread_barrier_wait(start);
	for (int i = 0; i < 100000; i++)
		words[k * STEP]++;
}

static void *thread(void *k)
{
	run((long)k);
	return NULL;
}

int main(void)
{
	int shared = !strcmp(KIND, "hugeshared") || !strcmp(KIND, "shm"), huge = !strncmp(KIND, "huge", 4), fd = -1;
	if (!strcmp(KIND, "shm")) {
		char name[64];
		snprintf(name, sizeof(name), "/tussle-suite-%d", (int)getpid());
		fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
		if (fd < 0 || shm_unlink(name) || ftruncate(fd, BYTES))
			return 1;
	}
	int flags = (fd < 0 ? MAP_ANONYMOUS : 0) | (shared ? MAP_SHARED : MAP_PRIVATE) | (huge ? MAP_HUGETLB : 0);
	char *m = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (m == MAP_FAILED) {
		perror("mmap");
		return 77;
	}
	if (!strcmp(KIND, "thp")) {
		m = (char *)(((unsigned long)m + HUGE - 1) & ~(HUGE - 1));
		madvise(m, HUGE, MADV_HUGEPAGE);
	}
	place(m);
	pthread_barrierattr_t attributes;
	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
	pthread_barrier_init(start, &attributes, 2);
	printf("stores 200000\n");
	fflush(stdout);
	if (!shared) {
		pthread_t all[2];
		for (long k = 0; k < 2; k++)
			pthread_create(&all[k], NULL, thread, (void *)k);
		for (int k = 0; k < 2; k++)
			pthread_join(all[k], NULL);
		return 0;
	}
	for (long k = 0; k < 2; k++)
		if (!fork()) {
			if (fd >= 0 && k)
				place(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
			run(k);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	return 0;
}
