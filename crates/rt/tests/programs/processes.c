/* Two processes that count side by side, in memory that they share or do not.
   processes anonymous | segment | objects NAME | files PATH | private */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef FIXED
#define APART __attribute__((aligned(128)))
#else
#define APART
#endif
struct pair {
	volatile long parent;
	volatile long child APART;
};
static struct pair own __attribute__((aligned(128)));
enum { COUNT = 100000 };

static void count(volatile long *mine)
{
	for (int i = 0; i < COUNT; i++)
		(*mine)++;
}

static struct pair *map(const char *path, void *where)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, 8192) != 0)
		exit(1);
	void *p = mmap(where, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p;
}

static struct pair *by_path(const char *path, int child)
{
	return map(path, child ? (void *)0x300000000000 : (void *)0x200000000000);
}

int main(int argc, char **argv)
{
	const char *how = argv[1];
	if (!strcmp(how, "second")) {
		count(&by_path(argv[2], 1)->child);
		return 0;
	}
	struct pair *p = &own;
	if (!strcmp(how, "anonymous"))
		p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int segment = strcmp(how, "segment") ? -1 : shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	pid_t pid = fork();
	if (pid == 0 && !strcmp(how, "files"))
		execl("/proc/self/exe", argv[0], "second", argv[2], NULL);
	if (argc > 2)
		p = by_path(argv[2], pid == 0);
	if (segment >= 0)
		p = shmat(segment, NULL, 0);
	count(pid ? &p->parent : &p->child);
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	if (segment >= 0)
		shmctl(segment, IPC_RMID, NULL);
	if (argc > 2)
		unlink(argv[2]);
	return 0;
}
