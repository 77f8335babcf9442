/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU plugin of `tussle record --emulate`: tells the recorder (crates/rt/emulated, linked in as an object) what a
 * program does under user-mode emulation: accesses, calls, system calls, and functions that allocate or lock.
 *
 * The environment names the session folder (TUSSLE_SESSION), the cap (TUSSLE_MEM_MAX) and, in the folder, a file `watch`:
 *
 *   program PATH
 *   library PATH             of the functions that follow
 *   at OFFSET KIND           function that begins at this place of the file; KIND as in crates/rt/emulated/kinds.rs
 *   between OFFSET BYTES     code between the program and its allocator
 *
 * Go's functions (kinds 9 and 28 to 30) get their arguments in other registers.
 */
#define _GNU_SOURCE
#include "tussle-emulate.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

EXPORT int qemu_plugin_version = 1;

enum { ARGS = 4, TEXT = 4096, PAGE = 4096, CALL_BYTES_MAX = 7 };
enum { GO_MALLOC = 9, GO_READY = 28, GO_RUN = 29, GO_SWITCH = 30, BETWEEN = 31 };
/* Results of looking at an instruction. */
enum { PLAIN, SKIP, CALL, LINK };

static bool x86, arm, begun;
static char session[TEXT];
static const char *program;
static char *own_maps; /* the emulator's, before the program is mapped */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- what is watched, and where it lies ---- */

struct watch { char *path; uint64_t offset, bytes; unsigned kind; };
static struct watch *watches;
static size_t watches_count;

struct place { uint64_t at; unsigned kind; };
static struct place *places; /* in order of addresses */
static size_t places_count;
static bool stale = true;
static int64_t mmap_number;

static void *grown(void *old, size_t count, size_t each)
{
    if (count && (count & (count - 1))) {
        return old;
    }
    void *new = realloc(old, (count ? 2 * count : 1) * each);
    if (!new) {
        abort();
    }
    return new;
}

static void read_watch_file(void)
{
    char name[TEXT + 16], line[TEXT + 16];
    snprintf(name, sizeof name, "%s/watch", session);
    FILE *f = fopen(name, "re");
    char *own = NULL;
    while (f && fgets(line, sizeof line, f)) {
        struct watch w = { 0 };
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "program ", 8)) {
            program = strdup(line + 8);
        } else if (!strncmp(line, "library ", 8)) {
            own = strdup(line + 8);
        } else if (sscanf(line, "at %lx %u", &w.offset, &w.kind) == 2
                   || sscanf(line, "between %lx %lx", &w.offset, &w.bytes) == 2) {
            w.path = own;
            w.kind = w.bytes ? BETWEEN : w.kind;
            watches = grown(watches, watches_count, sizeof w);
            watches[watches_count++] = w;
        }
    }
    if (f) {
        fclose(f);
    }
}

static int by_address(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static char *maps_now(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    size_t n = 0, room = 1 << 16;
    char *text = malloc(room);
    while (f && text && n + 1 < room) {
        size_t got = fread(text + n, 1, room - 1 - n, f);
        n += got;
        if (!got) {
            break;
        }
    }
    if (f) {
        fclose(f);
    }
    if (text) {
        text[n] = 0;
    }
    return text;
}

typedef void (*mapping_fn)(uint64_t lo, uint64_t hi, uint64_t offset, const char *path, void *data);

static void each_mapping(mapping_fn fn, void *data)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;
    while (f && getline(&line, &room, f) > 0) {
        uint64_t lo, hi, offset;
        int at = 0;
        if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %n", &lo, &hi, &offset, &at) == 3 && at) {
            line[strcspn(line, "\n")] = 0;
            fn(lo, hi, offset, line + at, data);
        }
    }
    free(line);
    if (f) {
        fclose(f);
    }
}

struct found { struct place *places; size_t count; uint64_t *between; size_t between_count; };

static void watch_mapping(uint64_t lo, uint64_t hi, uint64_t offset, const char *path, void *data)
{
    struct found *found = data;
    for (size_t i = 0; i < watches_count; i++) {
        struct watch *w = &watches[i];
        if (w->offset < offset || w->offset - offset >= hi - lo || !w->path || strcmp(w->path, path)) {
            continue;
        }
        uint64_t at = lo + (w->offset - offset);
        if (w->kind == BETWEEN) {
            found->between = grown(found->between, found->between_count, 2 * sizeof(uint64_t));
            found->between[2 * found->between_count] = at;
            found->between[2 * found->between_count++ + 1] = at + w->bytes;
        } else {
            found->places = grown(found->places, found->count, sizeof(struct place));
            found->places[found->count++] = (struct place){ at, w->kind };
        }
    }
}

/* Looks again where watched files are mapped. The caller holds the lock. Lists that others may read stay for ever. */
static void look(void)
{
    struct found found = { 0 };
    stale = false;
    each_mapping(watch_mapping, &found);
    if (found.count) {
        qsort(found.places, found.count, sizeof(struct place), by_address);
    }
    free(places);
    places = found.places;
    places_count = found.count;
    if (found.between_count) {
        qsort(found.between, found.between_count, 2 * sizeof(uint64_t), by_address);
        tussle_emulated_between(found.between, found.between_count);
    }
}

static unsigned kind_at(uint64_t at)
{
    unsigned kind = 0;
    pthread_mutex_lock(&lock);
    if (stale) {
        look();
    }
    struct place *p = places_count ? bsearch(&at, places, places_count, sizeof *p, by_address) : NULL;
    if (p) {
        kind = p->kind;
    }
    pthread_mutex_unlock(&lock);
    return kind;
}

struct within { uint64_t at, lo, hi; };

static void within_mapping(uint64_t lo, uint64_t hi, uint64_t offset, const char *path, void *data)
{
    struct within *w = data;
    if (lo <= w->at && w->at < hi && !*path) {
        w->lo = lo;
        w->hi = hi;
    }
}

/* The mapping of a stack that holds the byte before `top`. */
static struct within stack_below(uint64_t top)
{
    struct within w = { .at = top - 1 };
    if (top) {
        each_mapping(within_mapping, &w);
    }
    return w;
}

/* ---- registers: at the start of a translated block all of them are in memory ---- */

static uint64_t reg(int number)
{
    static __thread GByteArray *to;
    if (!to) {
        to = g_byte_array_new();
    }
    g_byte_array_set_size(to, 0);
    uint64_t value = 0;
    int bytes = 0;
    if (x86) {
        bytes = x86_cpu_gdb_read_register(thread_cpu, to, number);
    } else if (arm) {
        bytes = aarch64_cpu_gdb_read_register(thread_cpu, to, number);
    } else {
        bytes = riscv_cpu_gdb_read_register(thread_cpu, to, number);
    }
    if (bytes == 8 && to->len >= 8) {
        memcpy(&value, to->data, 8);
    }
    return value;
}

/* GDB's numbers of the registers with the first four arguments, the result, the stack pointer. */
enum { RAX = 0, RBX = 1, RCX = 2, RDX = 3, RSI = 4, RDI = 5, RBP = 6, RSP = 7 };
static const int X86_ARGS[ARGS] = { RDI, RSI, RDX, RCX }, X86_GO_ARGS[ARGS] = { RAX, RBX, RCX, RDI };
static const int ARM_ARGS[ARGS] = { 0, 1, 2, 3 }, RISCV_ARGS[ARGS] = { 10, 11, 12, 13 };

static uint64_t stack_pointer(void)
{
    return reg(x86 ? RSP : arm ? 31 : 2);
}

static uint64_t result(void)
{
    return reg(x86 ? RAX : arm ? 0 : 10);
}

/* What a store of an x86-64 register or constant stores: 88, 89, C6 and C7 of Intel SDM volume 2, appendix A. */
static bool stored_by_x86(const uint8_t *b, uint64_t bytes, uint64_t *to)
{
    static const int NUMBERS[8] = { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };
    unsigned rex = 0;
    while (*b == 0x66 || *b == 0x67 || *b == 0xf2 || *b == 0xf3 || *b == 0x64 || *b == 0x65 || *b == 0x3e) {
        b++;
    }
    if ((*b & 0xf0) == 0x40) {
        rex = *b++;
    }
    unsigned op = b[0], mod = b[1] >> 6, rm = b[1] & 7, number = (b[1] >> 3 & 7) | (rex & 4 ? 8 : 0);
    if (op == 0x88 && !rex && number >= 4) {
        *to = reg(NUMBERS[number - 4]) >> 8;
        return true;
    }
    if (op == 0x88 || op == 0x89) {
        *to = reg(number < 8 ? NUMBERS[number] : (int)number);
        return true;
    }
    if (op != 0xc6 && op != 0xc7) {
        return false;
    }
    bool sib = rm == 4, wide = mod == 0 && (rm == 5 || (sib && (b[2] & 7) == 5));
    const uint8_t *number_at = b + 2 + sib + (mod == 1 ? 1 : mod == 2 || wide ? 4 : 0);
    int32_t constant = 0;
    memcpy(&constant, number_at, bytes < 4 ? bytes : 4);
    *to = (uint64_t)(int64_t)constant;
    return true;
}

/* Arm Architecture Reference Manual for A-profile, C4.1.66: stores of one register but for the vector ones. */
static bool stored_by_arm(const uint8_t *b, uint64_t *to)
{
    uint32_t word;
    memcpy(&word, b, 4);
    bool one = (word & 0x0e000000u) == 0x08000000u && (word & 0x38000000u) != 0x28000000u;
    *to = one && (word & 31) != 31 ? reg(word & 31) : 0;
    return one;
}

/* RISC-V unprivileged specification: SB to SD, C.SW, C.SD, C.SWSP, C.SDSP. */
static bool stored_by_riscv(const uint8_t *b, uint64_t *to)
{
    unsigned low = b[0] | b[1] << 8, source;
    if ((low & 0x7f) == 0x23) {
        source = (b[2] | b[3] << 8) >> 4 & 31;
    } else if ((low & 3) == 0 && low >> 14 == 3) {
        source = 8 + (low >> 2 & 7);
    } else if ((low & 3) == 2 && low >> 14 == 3) {
        source = low >> 2 & 31;
    } else {
        return false;
    }
    *to = source ? reg(source) : 0;
    return true;
}

/* Registers are in memory while an access is told: before it QEMU writes them back, as it may fault. */
bool tussle_emulator_stored(uint64_t pc, uint64_t bytes, uint64_t *to)
{
    const uint8_t *b = (const uint8_t *)(uintptr_t)(pc - 1);
    if (bytes > 8 || !(x86 ? stored_by_x86(b, bytes, to) : arm ? stored_by_arm(b, to) : stored_by_riscv(b, to))) {
        return false;
    }
    if (bytes < 8) {
        *to &= (1ull << 8 * bytes) - 1;
    }
    return true;
}

static bool gos(unsigned kind)
{
    return kind == GO_MALLOC || (kind >= GO_READY && kind <= GO_SWITCH);
}

static bool is_address(unsigned kind, int arg)
{
    return kind >= 10 || (arg == 0 && (kind == 3 || kind == 4 || kind == 7));
}

/* ---- while the program runs ---- */

static void entered(unsigned vcpu, void *udata)
{
    tussle_emulated_self = (int)vcpu;
    unsigned kind = (uintptr_t)udata;
    const int *from = x86 ? gos(kind) ? X86_GO_ARGS : X86_ARGS : arm ? ARM_ARGS : RISCV_ARGS;
    uint64_t args[ARGS];
    for (int i = 0; i < ARGS; i++) {
        args[i] = reg(from[i]);
        if (guest_base && args[i] && is_address(kind, i)) {
            args[i] += guest_base;
        }
    }
    tussle_emulated_function(vcpu, kind, args);
}

static void landed(unsigned vcpu, void *pc)
{
    tussle_emulated_self = (int)vcpu;
    if (tussle_emulated_landed(vcpu, pc)) {
        tussle_emulated_result(vcpu, result());
    }
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* The program's first instruction: it is mapped now. */
static void begin(unsigned vcpu, void *udata)
{
    if (begun || !*session) {
        return;
    }
    begun = true;
    struct within stack = stack_below(stack_pointer() + guest_base + 1);
    tussle_emulated_begin(session, program, own_maps, number_of("TUSSLE_MEM_MAX", 1ull << 30),
                          number_of("TUSSLE_OPERATIONS", 1) != 0, stack.lo, stack.hi);
}

static __thread uint64_t args[6];
static __thread int creating = -1; /* the thread that this one creates has the next number that begins */

static void system_call(qemu_plugin_id_t id, unsigned vcpu, int64_t num, uint64_t a1, uint64_t a2, uint64_t a3,
                        uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    args[0] = a1, args[1] = a2, args[2] = a3, args[3] = a4, args[4] = a5, args[5] = a6;
    tussle_emulated_self = creating = (int)vcpu;
    tussle_emulated_system(vcpu, !x86, num, args, guest_base);
}

static void system_call_end(qemu_plugin_id_t id, unsigned vcpu, int64_t num, int64_t ret)
{
    enum { PROT_EXECUTE = 4 };
    if (num == mmap_number && (args[2] & PROT_EXECUTE)) {
        pthread_mutex_lock(&lock);
        stale = true;
        pthread_mutex_unlock(&lock);
    }
    creating = -1;
    tussle_emulated_system_end(vcpu, ret, args, guest_base);
}

/* A thread gets its number: its creator runs this, within the system call. */
static void vcpu_begins(qemu_plugin_id_t id, unsigned vcpu)
{
    if (creating < 0) {
        return;
    }
    /* What lies above is the thread library's, and thread-local variables. */
    uint64_t top = tussle_emulated_child_stack(creating);
    struct within stack = stack_below(top);
    tussle_emulated_created(creating, vcpu, stack.lo, stack.hi ? top : 0);
}

static void vcpu_ends(qemu_plugin_id_t id, unsigned vcpu)
{
    tussle_emulated_ended(vcpu);
}

/* ---- translation ---- */

/* An x86-64 instruction by its bytes: Intel SDM volume 2, chapter 2 and appendix A. */
static int look_at_x86(const uint8_t *b, size_t n)
{
    size_t i = 0;
    while (i + 1 < n && (b[i] == 0x66 || b[i] == 0x67 || b[i] == 0xf2 || b[i] == 0xf3 || b[i] == 0x2e || b[i] == 0x3e
                         || b[i] == 0x64 || b[i] == 0x65)) {
        i++;
    }
    if (i + 1 < n && (b[i] & 0xf0) == 0x40) {
        i++;
    }
    uint8_t op = b[i];
    if (op == 0xe8) {
        return CALL;
    }
    if (op == 0xff && i + 1 < n && (b[i + 1] >> 3 & 7) == 2) {
        return CALL;
    }
    /* jumps through tables that do not change, most of them the linker's */
    if (op == 0xff && i + 1 < n && (b[i + 1] >> 3 & 7) == 4) {
        return SKIP;
    }
    /* push and pop of registers and constants, leave, ret: what only the compiler knows of */
    if ((op & 0xf0) == 0x50 || op == 0x68 || op == 0x6a || op == 0xc9 || op == 0xc3 || op == 0xc2) {
        return SKIP;
    }
    return PLAIN;
}

/*
 * Arm Architecture Reference Manual for A-profile, C4.1: BL, BLR and BLRA*; the linker's LDR X17, [X16, #n] ahead of a
 * jump (ABI for the Arm 64-bit architecture, procedure linkage table); STP and LDP of X29 and X30 that move SP.
 */
static int look_at_arm(const uint8_t *b)
{
    uint32_t word;
    memcpy(&word, b, 4);
    if ((word & 0xffc003ffu) == 0xf9400211u || (word & 0xffc07fffu) == 0xa9807bfdu
        || (word & 0xffc07fffu) == 0xa8c07bfdu) {
        return SKIP;
    }
    bool link = (word & 0xfc000000u) == 0x94000000u || (word & 0xfffffc1fu) == 0xd63f0000u
                || (word & 0xfefff800u) == 0xd63f0800u;
    return link ? LINK : PLAIN;
}

/*
 * RISC-V unprivileged specification, volume 1: JAL and JALR that link to x1, and their compressed forms; the linker's
 * LD t3, n(t3) ahead of a jump (RISC-V ELF psABI, procedure linkage table).
 */
static int look_at_riscv(const uint8_t *b, size_t n)
{
    uint32_t word = b[0] | b[1] << 8 | (n == 4 ? (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24 : 0);
    if (n == 4 && (word & 0xfffff) == 0xe3e03) {
        return SKIP;
    }
    bool jal = n == 4 && ((word & 0x7f) == 0x6f || (word & 0x707f) == 0x67) && (word >> 7 & 31) == 1;
    bool compressed = n == 2 && (word & 0xf07f) == 0x9002 && (word >> 7 & 31) != 0;
    return jal || compressed ? LINK : PLAIN;
}

/* True if a call may end right before these bytes. */
static bool behind_call(const uint8_t *b, uint64_t at)
{
    if (at % PAGE < CALL_BYTES_MAX) {
        return true;
    }
    if (arm) {
        return look_at_arm(b - 4) == LINK;
    }
    if (!x86) {
        return look_at_riscv(b - 4, 4) == LINK || look_at_riscv(b - 2, 2) == LINK;
    }
    if (b[-5] == 0xe8) {
        return true;
    }
    for (int back = 2; back <= CALL_BYTES_MAX; back++) {
        if (b[-back] == 0xff && (b[1 - back] >> 3 & 7) == 2) {
            return true;
        }
    }
    return false;
}

static int look_at(const uint8_t *b, size_t n)
{
    return x86 ? look_at_x86(b, n) : arm ? look_at_arm(b) : look_at_riscv(b, n);
}

static void reserves(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t addr, void *pc)
{
    tussle_emulated_reserved = addr;
}

/* Arm Architecture Reference Manual for A-profile, C4.1.94: LDXR, LDAXR and those of pairs. */
static bool is_reserving(const uint8_t *b)
{
    uint32_t word;
    memcpy(&word, b, 4);
    return arm && (word & 0x3fc00000u) == 0x08400000u;
}

static void watch_insn(struct qemu_plugin_insn *insn)
{
    uint64_t at = qemu_plugin_insn_vaddr(insn) + guest_base;
    size_t bytes = qemu_plugin_insn_size(insn);
    void *pc = (void *)(uintptr_t)(at + 1), *next = (void *)(uintptr_t)(at + bytes);
    vcpu_mem_cb_t memory = (vcpu_mem_cb_t)tussle_emulated_memory;
    switch (look_at((const uint8_t *)(uintptr_t)at, bytes)) {
    case SKIP:
        return;
    case CALL:
        /* of both kinds: QEMU 7.2 takes reads for stores when only one of them is asked for */
        qemu_plugin_register_vcpu_mem_cb(insn, (vcpu_mem_cb_t)tussle_emulated_call, CB_NO_REGS, MEM_RW, next);
        return;
    case LINK:
        qemu_plugin_register_vcpu_insn_exec_cb(insn, (vcpu_udata_cb_t)tussle_emulated_linked, CB_NO_REGS, next);
        return;
    default:
        qemu_plugin_register_vcpu_mem_cb(insn, memory, CB_NO_REGS, MEM_RW, pc);
    }
    if (is_reserving((const uint8_t *)(uintptr_t)at)) {
        qemu_plugin_register_vcpu_mem_cb(insn, reserves, CB_NO_REGS, MEM_RW, NULL);
    }
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    uint64_t at = qemu_plugin_tb_vaddr(tb) + guest_base;
    if (!begun) {
        qemu_plugin_register_vcpu_tb_exec_cb(tb, begin, CB_R_REGS, NULL);
    }
    if (behind_call((const uint8_t *)(uintptr_t)at, at)) {
        qemu_plugin_register_vcpu_tb_exec_cb(tb, landed, CB_R_REGS, (void *)(uintptr_t)at);
    }
    unsigned kind = kind_at(at);
    if (kind) {
        qemu_plugin_register_vcpu_tb_exec_cb(tb, entered, CB_R_REGS, (void *)(uintptr_t)kind);
    }
    size_t n = qemu_plugin_tb_n_insns(tb);
    for (size_t i = 0; i < n; i++) {
        watch_insn(qemu_plugin_tb_get_insn(tb, i));
    }
}

/* The recorder reads sizes and kinds from the bits that QEMU's functions read them from. */
static bool bits_are_known(void)
{
    for (unsigned shift = 0; shift < 5; shift++) {
        for (unsigned rw = MEM_R; rw <= MEM_RW; rw++) {
            qemu_plugin_meminfo_t info = shift << 4 | rw << 16;
            if (qemu_plugin_mem_size_shift(info) != shift || qemu_plugin_mem_is_store(info) != (rw > MEM_R)) {
                return false;
            }
        }
    }
    return true;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    x86 = !strcmp(info->target_name, "x86_64");
    arm = !strcmp(info->target_name, "aarch64");
    bool riscv = !strcmp(info->target_name, "riscv64");
    if (info->system_emulation || !(x86 || arm || riscv) || !bits_are_known() || !tussle_emulated_hear_atomics()) {
        fprintf(stderr, "tussle: this emulator cannot be used for recording programs\n");
        return 1;
    }
    mmap_number = x86 ? 9 : 222;
    tussle_emulated_halves = x86 ? NO_HALVES : arm ? RESERVED_HALVES : ALL_HALVES;
    snprintf(session, sizeof session, "%s", getenv("TUSSLE_SESSION") ? getenv("TUSSLE_SESSION") : "");
    read_watch_file();
    own_maps = maps_now();
    qemu_plugin_register_vcpu_init_cb(id, vcpu_begins);
    qemu_plugin_register_vcpu_exit_cb(id, vcpu_ends);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, system_call);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, system_call_end);
    return 0;
}
