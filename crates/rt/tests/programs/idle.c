/* Does next to nothing. With one argument so does a child; with two the child stores COUNT times to memory that both
   share, which `main` asks for itself. Prints where `main` begins. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { COUNT = 5 };
int main(int argc, char **argv)
{
	volatile long *shared = NULL;
	if (argc > 2)
		shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (argc > 1 && fork() == 0) {
		for (int i = 0; shared && i < COUNT; i++)
			*shared = i;
		_exit(0);
	}
	if (argc > 1)
		wait(NULL);
	printf("%lu\n", (unsigned long)main);
	return 0;
}
