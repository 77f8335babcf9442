/* Objects with a reference count and a body that nobody changes: 4 objects, each thread takes one reference per 20
 * reads of the body. As it is the count is beside the body. Fixed: apart; the count itself remains: the same bytes. */
#include "common.h"
struct object { int references APART; long body[6] APART; };
static struct object objects[4] __attribute__((aligned(64)));
static void *work(void *arg)
{
	long me = (long)arg, sum = 0;
	for (int i = 0; i < 20000; i++) {
		struct object *o = &objects[(i + me) % 4];
		ADD(&o->references, 1);
		for (int k = 0; k < 20; k++) sum += ((volatile long *)o->body)[k % 6];
		ADD(&o->references, -1);
	}
	return (void *)sum;
}
int main(int argc, char **argv) { arguments(argc, argv); run_threads(work); truth("stores", 40000L * threads); return 0; }
