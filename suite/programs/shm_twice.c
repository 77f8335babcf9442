/* Two processes map one shared memory object, each by itself and at another address. */
#include "common.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
struct shared {
	volatile long reader;
	volatile long writer APART;
};
static struct shared *map(const char *name, void *where)
{
	int fd = shm_open(name, O_RDWR, 0600);
	void *at = mmap(where, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return at;
}
int main(void)
{
	char name[64];
	snprintf(name, sizeof name, "/suite-%d", getpid());
	int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || ftruncate(fd, 4096) != 0)
		return 1;
	pid_t pid = fork();
	struct shared *s = map(name, pid ? (void *)0x200000000000 : (void *)0x300000000000);
	volatile long *mine = pid ? &s->reader : &s->writer;
	for (int i = 0; i < 300000; i++)
		(*mine)++;
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	shm_unlink(name);
	truth("stores", s->reader + s->writer);
	return 0;
}
