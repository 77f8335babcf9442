#include <stddef.h>
/* Work that waits. */
struct queue {
	long lock;	/* taken by everybody */
	char name[40];
	struct { int head, tail; } ring;
	unsigned ready : 1, stuck : 3;
	void (*wake)(struct queue *q, int why);
	union { long whole; char part[8]; };
#ifdef STATS
	long taken;
#endif
	long added; // by producers
	struct queue *next;
	int depth[];
};
static struct queue q = { .lock = 1, .added = 2 };
