/* Two processes count in memory that both map: MAP_SHARED | MAP_ANONYMOUS, then fork. */
#include "common.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
struct shared {
	volatile long parent;
	volatile long child APART;
};
int main(void)
{
	struct shared *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();
	volatile long *mine = pid ? &s->parent : &s->child;
	for (int i = 0; i < 300000; i++)
		(*mine)++;
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	truth("stores", s->parent + s->child);
	return 0;
}
