#include "tussle.h"
#include <stdio.h>
#include <stdlib.h>
struct conn { long a; long b; };
int main(void) {
	struct conn *p = (struct conn *)calloc(4, sizeof *p);
	TUSSLE_TYPE(p, struct conn);
	tussle_region_begin("x");
	tussle_operation_begin("y");
	p->a = 1;
	tussle_operation_end("y");
	tussle_region_end("x");
	TUSSLE_PART(p + 1, struct conn);
	TUSSLE_PART_END(p + 1);
#ifdef __cplusplus
	tussle::region r("x");
	tussle::operation o("y");
#endif
	printf("%ld\n", p->a);
	return 0;
}
