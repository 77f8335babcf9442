/* How far the last variable with a value of its own lies from the first one without: on one line, unless something
 * else lies between `.data` and `.bss`. */
#include <stdio.h>
static volatile int running = 1;
static volatile long served;
int main(void)
{
	running = 0;
	served++;
	printf("%ld\n", (long)((char *)&served - (char *)&running));
	return 0;
}
