/* Prints how hooks begin: what is called for a load, a store, a function, and what is jumped to for a store. */
#include "common.h"
#include <stdint.h>
extern void __tsan_read4(void *);
extern void __tsan_write8(void *);
extern void __tsan_func_entry(void *);
extern void tussle_site_write4(void);

static volatile long sum;
static volatile int word;

static void show(void (*hook)(void)) {
    const uint8_t *bytes = (const uint8_t *)hook;
    printf("%02x%02x%02x\n", bytes[0], bytes[1], bytes[2]);
}

int main(int argc, char **argv) {
    for (long i = number(argc, argv, 1, 1000); i > 0; i--) sum += i, word = i;
    show((void (*)(void))__tsan_read4);
    show((void (*)(void))__tsan_write8);
    show((void (*)(void))__tsan_func_entry);
    show(tussle_site_write4);
}
