/* Hooks that do nothing: the floor below which no recorder can go. Atomic operations must be done all the same.
   COUNT: hooks that count into one word of the thread's own and know nothing else, the floor of what counts at all.
   SITES: also those that are jumped to, as `tussle cc` has them. */
#include <stdint.h>
#define NOTHING(name) void name(void *a) { (void)a; }
#ifdef COUNT
static __thread volatile uint16_t counts[2][32];
#define COUNTING(name, i) void name(void *a) { (void)a, counts[i][0]++; }
#else
#define COUNTING(name, i) NOTHING(name)
#endif
#define BOTH(n) COUNTING(__tsan_read##n, 0) COUNTING(__tsan_write##n, 1)
BOTH(1) BOTH(2) BOTH(4) BOTH(8) BOTH(16)
#define UNALIGNED(n) COUNTING(__tsan_unaligned_read##n, 0) COUNTING(__tsan_unaligned_write##n, 1)
UNALIGNED(2) UNALIGNED(4) UNALIGNED(8) UNALIGNED(16)
NOTHING(__tsan_func_entry)
NOTHING(__tsan_func_exit)
NOTHING(__tsan_init)
NOTHING(__tsan_vptr_read)
NOTHING(__tsan_vptr_update)
void __tsan_read_range(void *a, unsigned long n) { (void)a, (void)n; }
void __tsan_write_range(void *a, unsigned long n) { (void)a, (void)n; }
#define ATOMIC(bits, t)                                                                                            \
    t __tsan_atomic##bits##_load(t *a, int o) { return __atomic_load_n(a, 5); }                                    \
    void __tsan_atomic##bits##_store(t *a, t v, int o) { __atomic_store_n(a, v, 5); }                              \
    t __tsan_atomic##bits##_exchange(t *a, t v, int o) { return __atomic_exchange_n(a, v, 5); }                    \
    t __tsan_atomic##bits##_fetch_add(t *a, t v, int o) { return __atomic_fetch_add(a, v, 5); }                    \
    t __tsan_atomic##bits##_fetch_sub(t *a, t v, int o) { return __atomic_fetch_sub(a, v, 5); }                    \
    int __tsan_atomic##bits##_compare_exchange_strong(t *a, t *c, t v, int o, int f) {                             \
        return __atomic_compare_exchange_n(a, c, v, 0, 5, 5);                                                      \
    }
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
#define WEAK(bits, t)                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_weak(t *a, t *c, t v, int o, int f) {                               \
        return __atomic_compare_exchange_n(a, c, v, 0, 5, 5);                                                      \
    }
WEAK(32, uint32_t)
WEAK(64, uint64_t)
#ifdef SITES
#define SITE(name) asm(".globl tussle_site_" #name "\n.p2align 5\ntussle_site_" #name ": jmp *%r11");
#define READ_WRITE(n) SITE(read##n) SITE(write##n)
READ_WRITE(1) READ_WRITE(2) READ_WRITE(4) READ_WRITE(8)
SITE(unaligned_read8) SITE(unaligned_write8)
#endif
