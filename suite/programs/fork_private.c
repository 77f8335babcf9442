/* The same without MAP_SHARED: after the fork the pages are two processes' own, nothing is shared. */
#include "common.h"
#include <sys/wait.h>
#include <unistd.h>
static struct {
	volatile long parent;
	volatile long child;
} __attribute__((aligned(64))) own;
int main(void)
{
	pid_t pid = fork();
	volatile long *mine = pid ? &own.parent : &own.child;
	for (int i = 0; i < 300000; i++)
		(*mine)++;
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	truth("handoffs", 0);
	return 0;
}
