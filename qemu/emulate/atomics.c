/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What atomic instructions find. While a program has several threads QEMU 7.2 runs each of them in a function of its own
 * (helper_atomic_xchgl_le and others), which returns what was there; plugins do not get to see it. These functions are
 * no more than cpu_atomic_xchgl_le_mmu and others with a return address, and those it exports: so each is replaced by
 * one of ours that calls the exported one, and tells before and after. Where they begin is in QEMU's own list of them
 * by name, in its data.
 */
#define _GNU_SOURCE
#include "tussle-emulate.h"

#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

extern __thread uintptr_t helper_retaddr; /* QEMU: where a fault of this thread belongs to */
__thread int tussle_emulated_self = -1;
__thread uint64_t tussle_emulated_reserved;
enum halves tussle_emulated_halves;

/*
 * A comparison of this word is the store of a loop that loads, computes and stores (LDXR and STXR, LR and SC), which
 * QEMU makes of it: what it does to the word may be anything. Arm has a comparison of its own, too (CAS): that follows
 * no load that reserves.
 */
static bool is_half(uint64_t addr)
{
    bool reserved = tussle_emulated_reserved == addr;
    tussle_emulated_reserved = 0;
    return tussle_emulated_halves == ALL_HALVES || (tussle_emulated_halves == RESERVED_HALVES && reserved);
}

/* Addresses may have a tag in their highest byte. */
static uint64_t host_of(uint64_t addr)
{
    return (uint64_t)((int64_t)(addr << 8) >> 8) + guest_base;
}

#define TELLS(addr, bytes) (tussle_emulated_self >= 0 && ((addr) & ((bytes) - 1)) == 0)

/*
 * An instruction that finds `old` and leaves TO, an expression of that and of the operand `v`; FOUND is what it found, an
 * expression of its result and of what was there just before.
 */
#define REPLACED(NAME, TYPE, WORD, TO, FOUND, COUNTS)                                                               \
    extern TYPE cpu_atomic_##NAME##_mmu(void *env, uint64_t addr, TYPE v, uint32_t oi, uintptr_t ra);                \
    static TYPE own_##NAME(void *env, uint64_t addr, TYPE v, uint32_t oi)                                            \
    {                                                                                                                \
        uintptr_t ra = (uintptr_t)__builtin_return_address(0);                                                       \
        uint64_t at = host_of(addr);                                                                                 \
        WORD old, result;                                                                                            \
        if (!TELLS(addr, sizeof(WORD))) {                                                                            \
            return cpu_atomic_##NAME##_mmu(env, addr, v, oi, ra);                                                    \
        }                                                                                                            \
        bool matters = tussle_emulated_may_change(tussle_emulated_self, at);                                         \
        helper_retaddr = ra;                                                                                         \
        old = *(volatile WORD *)at;                                                                                  \
        helper_retaddr = 0;                                                                                          \
        if (matters) {                                                                                               \
            tussle_emulated_changing(tussle_emulated_self, at, old, (WORD)(TO));                                     \
        }                                                                                                            \
        result = cpu_atomic_##NAME##_mmu(env, addr, v, oi, ra);                                                      \
        old = (FOUND);                                                                                              \
        tussle_emulated_changed(tussle_emulated_self, at, sizeof(WORD), old, (WORD)(TO), COUNTS);                    \
        return result;                                                                                               \
    }

#define COMPARED(NAME, TYPE, WORD)                                                                                   \
    extern TYPE cpu_atomic_##NAME##_mmu(void *env, uint64_t addr, TYPE c, TYPE v, uint32_t oi, uintptr_t ra);        \
    static TYPE own_##NAME(void *env, uint64_t addr, TYPE c, TYPE v, uint32_t oi)                                    \
    {                                                                                                                \
        uintptr_t ra = (uintptr_t)__builtin_return_address(0);                                                       \
        uint64_t at = host_of(addr);                                                                                 \
        bool half = is_half(addr);                                                                                   \
        WORD old;                                                                                                    \
        if (!TELLS(addr, sizeof(WORD))) {                                                                            \
            return cpu_atomic_##NAME##_mmu(env, addr, c, v, oi, ra);                                                 \
        }                                                                                                            \
        if (tussle_emulated_may_change(tussle_emulated_self, at)) {                                                  \
            helper_retaddr = ra;                                                                                     \
            old = *(volatile WORD *)at;                                                                              \
            helper_retaddr = 0;                                                                                      \
            tussle_emulated_changing(tussle_emulated_self, at, old, old == (WORD)c ? (WORD)v : old);                 \
        }                                                                                                            \
        old = cpu_atomic_##NAME##_mmu(env, addr, c, v, oi, ra);                                                      \
        tussle_emulated_compared(tussle_emulated_self, at, sizeof(WORD), old, (WORD)c, (WORD)v, half);               \
        return old;                                                                                                  \
    }

#define ALL_OF(SUFFIX, TYPE, WORD)                                             \
    COMPARED(cmpxchg##SUFFIX, TYPE, WORD)                                      \
    REPLACED(xchg##SUFFIX, TYPE, WORD, v, result, false)                       \
    REPLACED(fetch_add##SUFFIX, TYPE, WORD, old + v, result, true)             \
    REPLACED(fetch_and##SUFFIX, TYPE, WORD, old & v, result, false)            \
    REPLACED(fetch_or##SUFFIX, TYPE, WORD, old | v, result, false)             \
    REPLACED(fetch_xor##SUFFIX, TYPE, WORD, old ^ v, result, false)            \
    REPLACED(and_fetch##SUFFIX, TYPE, WORD, old & v, old, false)               \
    REPLACED(or_fetch##SUFFIX, TYPE, WORD, old | v, old, false)                \
    REPLACED(add_fetch##SUFFIX, TYPE, WORD, old + v, result - (WORD)v, true)   \
    REPLACED(xor_fetch##SUFFIX, TYPE, WORD, old ^ v, result ^ (WORD)v, false)

ALL_OF(b, uint32_t, uint8_t)
ALL_OF(w_le, uint32_t, uint16_t)
ALL_OF(l_le, uint32_t, uint32_t)
ALL_OF(q_le, uint64_t, uint64_t)

struct replaced { const char *name; void *own; };
#define ROW(NAME) { "atomic_" #NAME, own_##NAME },
#define ROWS(SUFFIX)                                                                                    \
    ROW(cmpxchg##SUFFIX) ROW(xchg##SUFFIX) ROW(fetch_add##SUFFIX) ROW(fetch_and##SUFFIX)                \
    ROW(fetch_or##SUFFIX) ROW(fetch_xor##SUFFIX) ROW(and_fetch##SUFFIX) ROW(or_fetch##SUFFIX)           \
    ROW(add_fetch##SUFFIX) ROW(xor_fetch##SUFFIX)
static const struct replaced ALL[] = { ROWS(b) ROWS(w_le) ROWS(l_le) ROWS(q_le) };
enum { COUNT = sizeof ALL / sizeof *ALL, JUMP_BYTES = 12, PAGE_BYTES = 4096 };

struct image { uint64_t lo, hi, code_lo, code_hi; void *found[COUNT]; };

static bool is_text(const struct image *image, uint64_t at)
{
    return image->lo <= at && at + 32 < image->hi;
}

/* QEMU's list: where a function is, what it is called. */
static void find_in(struct image *image, const uint64_t *from, const uint64_t *to)
{
    for (const uint64_t *p = from; p + 1 < to; p++) {
        if (p[0] < image->code_lo || p[0] >= image->code_hi || !is_text(image, p[1])) {
            continue;
        }
        const char *name = (const char *)(uintptr_t)p[1];
        for (size_t k = 0; !strncmp(name, "atomic_", 7) && k < COUNT; k++) {
            if (!strcmp(name, ALL[k].name)) {
                image->found[k] = (void *)(uintptr_t)p[0];
            }
        }
    }
}

static int find(struct dl_phdr_info *info, size_t size, void *data)
{
    struct image *image = data;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < info->dlpi_phnum; k++) {
            const ElfW(Phdr) *p = &info->dlpi_phdr[k];
            uint64_t at = info->dlpi_addr + p->p_vaddr, end = at + p->p_filesz;
            if (p->p_type != PT_LOAD) {
                continue;
            }
            if (pass == 1 && (p->p_flags & PF_W)) {
                find_in(image, (const uint64_t *)(uintptr_t)((at + 7) & ~7ull), (const uint64_t *)(uintptr_t)end);
            } else if (pass == 0) {
                image->lo = !image->lo || at < image->lo ? at : image->lo;
                image->hi = end > image->hi ? end : image->hi;
                if (p->p_flags & PF_X) {
                    image->code_lo = at;
                    image->code_hi = end;
                }
            }
        }
    }
    return 1; /* the first one is the executable */
}

/* mov $own, %rax; jmp *%rax */
static bool jump(uint8_t *at, void *own)
{
    uint8_t code[JUMP_BYTES] = { 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0 };
    uintptr_t page = (uintptr_t)at & ~(uintptr_t)(PAGE_BYTES - 1);
    memcpy(code + 2, &own, sizeof own);
    if (mprotect((void *)page, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC)) {
        return false;
    }
    memcpy(at, code, sizeof code);
    return !mprotect((void *)page, 2 * PAGE_BYTES, PROT_READ | PROT_EXEC);
}

bool tussle_emulated_hear_atomics(void)
{
    struct image image = { 0 };
    dl_iterate_phdr(find, &image);
    for (size_t k = 0; k < COUNT; k++) {
        if (!image.found[k] || !jump(image.found[k], ALL[k].own)) {
            return false;
        }
    }
    return true;
}
