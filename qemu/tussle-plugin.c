/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU plugin of `tussle record-kernel`: watches the memory accesses of a guest kernel between two marker
 * instructions, keeps a MESI model with an infinite cache per vCPU, and writes what it saw as a stream (stream.md).
 *
 * Needs one thread for all vCPUs (-accel tcg,thread=single) and -icount: then there is one order of all accesses, and
 * it is the same in every run. vCPUs change every `quantum` instructions, with recording and without.
 *
 * Arguments: out=FILE, quantum=N, window=N, record=on|off, chains=N, bytes=N (of the stream, at most), hooks=FILE.
 */
#include "tussle-plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

EXPORT int qemu_plugin_version = 4;

/* From QEMU itself, not from the plugin interface: checked before use. */
typedef struct CPUState CPUState;
extern __thread CPUState *current_cpu __attribute__((weak));
extern CPUState *qemu_get_cpu(int index) __attribute__((weak));
extern void cpu_exit(CPUState *cpu) __attribute__((weak));

enum { VCPUS_MAX = 64, REG_RAX = 0, REG_RSI = 4, REG_RDI = 5, REG_RBP = 6, REG_RSP = 7, STACK_BYTES = 768, CHAINS_PER_CELL = 2 };
enum { MARK_START = 1, MARK_STOP = 2, MARK_FAIL = 3 };
enum { HOOK_ALLOC = 'a', HOOK_FREE = 'f', HOOK_ACQUIRE = 'l', HOOK_KILLABLE = 'k', HOOK_TRY = 't', HOOK_RELEASE = 'u' };
enum { READ, WRITE, RMW };

/* Linux's x86-64 memory map without KASLR and with four-level page tables (Documentation/arch/x86/x86_64/mm.rst). */
#define KERNEL_START 0xffff800000000000ull
#define VMALLOC_START 0xffffc90000000000ull
#define CHUNKS_START 0xffffe80000000000ull /* per-CPU chunks come from the end of the vmalloc area, stacks do not */
#define VMALLOC_END 0xffffe90000000000ull
#define ENTRY_START 0xfffffe0000000000ull
#define ENTRY_END 0xffffff0000000000ull
#define FIXMAP_START 0xffffffffff000000ull /* interrupt controllers and other device registers */

static qemu_plugin_id_t self;
static FILE *out;
static uint64_t out_bytes, out_max = 4ull << 30, lost;
static uint32_t quantum = 1000, window_accesses = 65536, chains_max = 200;
static bool record = true, running;
static uint64_t left, instructions, switches, accesses, window, left_user, left_stack, left_entry, transfers;
static int64_t started_ns, ended_ns; /* the guest's own monotonic clock, from the marker's register */

/* ---- the stream ---- */

static void cannot_write(void)
{
    fprintf(stderr, "tussle: cannot write the stream: %s\n", strerror(errno));
    _exit(74);
}

/* One record: tag, payload length, payload; all fields little endian and packed by hand. */
static void emit(uint8_t tag, const void *payload, uint32_t length)
{
    uint32_t head = (uint32_t)tag << 24 | length;
    if (!out)
        return;
    if (out_bytes + length + 4 > out_max && tag != 'S' && tag != 'E') {
        lost++;
        return;
    }
    out_bytes += length + 4;
    if (fwrite(&head, 4, 1, out) != 1 || (length && fwrite(payload, length, 1, out) != 1))
        cannot_write();
}

struct __attribute__((packed)) summary {
    uint64_t version, quantum, window, windows, instructions, switches, accesses, user, stack, entry, transfers, lost;
    int64_t started_ns, ended_ns;
};

static void summarise(uint8_t tag)
{
    struct summary s = { 1, quantum, window_accesses, window + 1, instructions, switches, accesses, left_user,
                         left_stack, left_entry, transfers, lost, started_ns, ended_ns };
    emit(tag, &s, sizeof s);
}

/* ---- hash tables: linear probing, grown at half full ---- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9e3779b97f4a7c15ull;
    return x ^ x >> 29;
}

struct table { uint8_t *at; uint64_t mask, used; uint32_t bytes; };

static void *allocate(size_t n, size_t bytes)
{
    void *p = calloc(n, bytes);
    if (!p) {
        fprintf(stderr, "tussle: out of memory\n");
        _exit(71);
    }
    return p;
}

/* Entries begin with two 64-bit keys; the first is never 0. */
static void *slot(struct table *t, uint64_t a, uint64_t b)
{
    uint64_t i = mix(a + mix(b)) & t->mask;
    for (;; i = (i + 1) & t->mask) {
        uint64_t *e = (uint64_t *)(t->at + i * t->bytes);
        if (!e[0] || (e[0] == a && e[1] == b))
            return e;
    }
}

static void *entry(struct table *t, uint64_t a, uint64_t b)
{
    if (2 * (t->used + 1) > t->mask + 1) {
        struct table old = *t;
        t->mask = 2 * old.mask + 1;
        t->at = allocate(t->mask + 1, t->bytes);
        for (uint64_t i = 0; i <= old.mask; i++) {
            uint64_t *e = (uint64_t *)(old.at + i * t->bytes);
            if (e[0])
                memcpy(slot(t, e[0], e[1]), e, t->bytes);
        }
        free(old.at);
    }
    uint64_t *e = slot(t, a, b);
    if (!e[0]) {
        e[0] = a;
        e[1] = b;
        t->used++;
    }
    return e;
}

static struct table table(uint32_t bytes, uint64_t slots)
{
    struct table t = { allocate(slots, bytes), slots - 1, 0, bytes };
    return t;
}

/* ---- vCPUs, registers, guest memory ---- */

static CPUState *cpus[VCPUS_MAX], *last_cpu;
static unsigned last_index;
static GArray *registers;
static GByteArray *bytes;

/* The index that plugins are given is that of the translating vCPU when one thread runs all of them. */
static unsigned vcpu(void)
{
    if (current_cpu == last_cpu)
        return last_index;
    for (unsigned i = 0; i < VCPUS_MAX; i++) {
        if (!cpus[i])
            cpus[i] = qemu_get_cpu(i);
        if (cpus[i] == current_cpu) {
            last_cpu = current_cpu;
            return last_index = i;
        }
        if (!cpus[i])
            break;
    }
    return 0;
}

static uint64_t reg(unsigned number)
{
    uint64_t value = 0;
    if (!registers)
        registers = qemu_plugin_get_registers();
    if (number >= registers->len)
        return 0;
    g_byte_array_set_size(bytes, 0);
    qemu_plugin_read_register(((qemu_plugin_reg_descriptor *)registers->data)[number].handle, bytes);
    memcpy(&value, bytes->data, bytes->len < 8 ? bytes->len : 8);
    return value;
}

static uint64_t load(uint64_t address)
{
    uint64_t value = 0;
    if (qemu_plugin_read_memory_vaddr(address, bytes, 8) && bytes->len >= 8)
        memcpy(&value, bytes->data, 8);
    return value;
}

/* ---- instructions ---- */

struct insn { uint64_t pc, one; uint32_t id; uint8_t rmw, known; uint16_t sampled; };
static struct table insns; /* pc, 1 -> struct insn * */
struct insn_slot { uint64_t pc, one; struct insn *insn; };
static uint32_t insns_used;

static struct insn *insn_of(uint64_t pc, const uint8_t *code, size_t n)
{
    struct insn_slot *s = entry(&insns, pc, 1);
    if (!s->insn) {
        s->insn = allocate(1, sizeof *s->insn);
        s->insn->pc = pc;
        s->insn->id = insns_used++;
        size_t i = 0;
        while (i < n && (code[i] == 0xf0 || code[i] == 0xf2 || code[i] == 0xf3 || code[i] == 0x66 ||
                         (code[i] >= 0x40 && code[i] <= 0x4f) || code[i] == 0x65 || code[i] == 0x2e || code[i] == 0x3e))
            s->insn->rmw |= code[i++] == 0xf0;
        /* xchg with memory locks by itself */
        if (i + 1 < n && (code[i] == 0x86 || code[i] == 0x87) && code[i + 1] < 0xc0)
            s->insn->rmw = 1;
    }
    return s->insn;
}

/* ---- coherence ---- */

struct line { uint64_t key, zero, present, ever; uint8_t owner, modified, shared, pad[5]; };
struct cell {
    uint64_t vaddr, who; /* instruction, kind, size, vCPU */
    uint32_t window, count, dirty, clean, invalidated, sampled;
};
static struct table lines, cells;

struct __attribute__((packed)) access_record {
    uint64_t vaddr;
    uint32_t insn, window, count, dirty, clean, invalidated;
    uint8_t kind, size;
    uint16_t vcpu;
};

static void flush_cell(struct cell *c)
{
    struct line *l;
    struct access_record r;
    if (!c->count)
        return;
    l = slot(&lines, c->vaddr >> 6, 0);
    if (l->key && l->shared) {
        r = (struct access_record){ c->vaddr, c->who >> 24, c->window, c->count, c->dirty, c->clean, c->invalidated,
                                    c->who & 15, c->who >> 4 & 15, c->who >> 8 & 0xffff };
        r.size = 1 << r.size;
        emit('A', &r, sizeof r);
    }
    c->count = c->dirty = c->clean = c->invalidated = 0;
}

static void announce(struct insn *i)
{
    struct __attribute__((packed)) { uint32_t id; uint64_t pc; } r = { i->id, i->pc };
    i->known = 1;
    emit('I', &r, sizeof r);
}

/* The stack above the accessing instruction, from which the reader unwinds callers by the kernel's own tables. */
static void sample_chain(struct insn *i, struct cell *c, uint64_t vaddr)
{
    struct __attribute__((packed)) { uint64_t vaddr, rsp, rbp; uint32_t id, window; uint8_t stack[STACK_BYTES]; } r;
    uint32_t n = STACK_BYTES;
    if (i->sampled >= chains_max || c->sampled >= CHAINS_PER_CELL)
        return;
    i->sampled++;
    c->sampled++;
    r.vaddr = vaddr;
    r.rsp = reg(REG_RSP);
    r.rbp = reg(REG_RBP);
    r.id = i->id;
    r.window = window;
    /* the stack may end before the page does */
    while (n && !qemu_plugin_read_memory_vaddr(r.rsp, bytes, n))
        n /= 2;
    memcpy(r.stack, bytes->data, n);
    emit('C', &r, sizeof r - STACK_BYTES + n);
}

/* One access in the model: what it cost. Sets exactly one of the cell's counts, or none on a hit. */
static bool coherence(struct line *l, unsigned cpu, int kind, struct cell *c)
{
    uint64_t me = 1ull << cpu, others = l->present & ~me;
    if (kind == READ) {
        if (l->present & me)
            return false;
        l->present |= me;
        if (l->modified) {
            l->modified = 0;
            c->dirty++;
            return true;
        }
        c->clean += others != 0;
        return others != 0;
    }
    if (l->modified && l->owner == cpu)
        return false;
    l->present = me;
    l->owner = cpu;
    if (l->modified) {
        c->dirty++;
        return true;
    }
    l->modified = 1;
    c->invalidated += others != 0;
    return others != 0;
}

static void access_memory(struct insn *i, uint64_t vaddr, unsigned shift, int kind)
{
    unsigned cpu = vcpu();
    uint64_t me = 1ull << cpu;
    struct line *l = entry(&lines, vaddr >> 6, 0);
    struct cell *c;
    if (++accesses % window_accesses == 0)
        window++;
    l->ever |= me;
    if (!l->shared && (l->ever & (l->ever - 1)))
        l->shared = 1;
    c = entry(&cells, vaddr, (uint64_t)i->id << 24 | (uint64_t)cpu << 8 | shift << 4 | kind);
    if (c->window != window) {
        flush_cell(c);
        c->window = window;
    }
    c->count++;
    if (!i->known)
        announce(i);
    if (coherence(l, cpu, kind, c)) {
        transfers++;
        sample_chain(i, c, vaddr);
    }
}

static void on_access(unsigned index, qemu_plugin_meminfo_t info, uint64_t vaddr, void *udata)
{
    struct insn *i = udata;
    int kind = qemu_plugin_mem_is_store(info) ? WRITE : READ;
    unsigned shift = qemu_plugin_mem_size_shift(info);
    (void)index;
    if (vaddr < KERNEL_START) {
        left_user++;
        return;
    }
    if (vaddr >= VMALLOC_START && vaddr < CHUNKS_START) {
        left_stack++;
        return;
    }
    if ((vaddr >= ENTRY_START && vaddr < ENTRY_END) || vaddr >= FIXMAP_START) {
        left_entry++;
        return;
    }
    if (i->rmw) {
        /* seen as a load and a store: the load stands for both */
        if (kind == WRITE)
            return;
        kind = RMW;
    }
    access_memory(i, vaddr, shift, kind);
    if ((vaddr & 63) + (1u << shift) > 64) {
        /* the rest lies on the next line */
        access_memory(i, (vaddr | 63) + 1, 0, kind);
    }
}

/* ---- switching ---- */

static void on_block(unsigned index, void *udata)
{
    uint64_t n = (uintptr_t)udata;
    (void)index;
    instructions += n;
    if (left > n) {
        left -= n;
        return;
    }
    left = quantum;
    switches++;
    cpu_exit(current_cpu);
}

/* ---- hooks ---- */

struct hook { uint64_t start, end; uint32_t id; char kind; };
static struct hook *hooks;
static size_t hooks_used;

struct __attribute__((packed)) hook_record { uint64_t a, b, accesses; uint32_t id; uint16_t vcpu; char kind; uint8_t pad; };
struct held { uint64_t rsp, one, lock; };
static struct table held;

static void emit_hook(const struct hook *h, uint64_t a, uint64_t b)
{
    struct hook_record r = { a, b, running ? accesses : 0, h->id, vcpu(), h->kind, 0 };
    emit('H', &r, sizeof r);
}

static void on_entry(unsigned index, void *udata)
{
    const struct hook *h = udata;
    (void)index;
    if (h->kind == HOOK_FREE || h->kind == HOOK_RELEASE) {
        emit_hook(h, reg(REG_RDI), reg(REG_RSI));
    } else {
        struct held *e = entry(&held, reg(REG_RSP), 1);
        e->lock = reg(REG_RDI);
    }
}

static void on_return(unsigned index, void *udata)
{
    const struct hook *h = udata;
    uint64_t rsp = reg(REG_RSP), rax = reg(REG_RAX);
    (void)index;
    if (h->kind == HOOK_ALLOC) {
        if (rax)
            emit_hook(h, rax, load(rsp));
        return;
    }
    struct held *e = slot(&held, rsp, 1);
    if (!e->rsp || !e->lock)
        return;
    if (h->kind == HOOK_ACQUIRE || (h->kind == HOOK_KILLABLE) == !(uint32_t)rax)
        emit_hook(h, e->lock, load(rsp));
    e->lock = 0;
}

static const struct hook *hook_at(uint64_t pc)
{
    size_t low = 0, high = hooks_used;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (hooks[middle].end <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low < hooks_used && hooks[low].start <= pc ? &hooks[low] : NULL;
}

static void hook_insn(struct qemu_plugin_insn *insn, uint64_t pc, const uint8_t *code)
{
    const struct hook *h = hook_at(pc);
    if (!h || (!running && h->kind != HOOK_ALLOC && h->kind != HOOK_FREE))
        return;
    if (pc == h->start && h->kind != HOOK_ALLOC)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_entry, CB_R_REGS, (void *)h);
    if (code[0] == 0xc3 && h->kind != HOOK_FREE && h->kind != HOOK_RELEASE)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_return, CB_R_REGS, (void *)h);
}

static bool read_hooks(const char *path)
{
    FILE *f = fopen(path, "r");
    struct hook h = { 0 };
    size_t room = 0;
    if (!f)
        return false;
    while (fscanf(f, " %c %lx %lx %u", &h.kind, &h.start, &h.end, &h.id) == 4) {
        if (hooks_used == room) {
            room = room ? 2 * room : 64;
            hooks = realloc(hooks, room * sizeof *hooks);
            if (!hooks)
                return false;
        }
        hooks[hooks_used++] = h;
    }
    fclose(f);
    return true;
}

/* ---- translation ---- */

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);

static void restart(qemu_plugin_id_t id)
{
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
}

/* Ends the emulator where it stands: guest memory is a shared file and stays as it is. */
static void finish(int status)
{
    if (running && record) {
        for (uint64_t i = 0; i <= cells.mask; i++) {
            struct cell *c = (struct cell *)(cells.at + i * cells.bytes);
            if (c->vaddr)
                flush_cell(c);
        }
    }
    summarise('E');
    if (out && fclose(out))
        cannot_write();
    _exit(status);
}

static void on_marker(unsigned index, void *udata)
{
    (void)index;
    switch ((uintptr_t)udata) {
    case MARK_START:
        if (running)
            return;
        running = true;
        left = quantum;
        started_ns = reg(REG_RDI);
        summarise('S');
        qemu_plugin_reset(self, restart);
        break;
    case MARK_STOP:
        ended_ns = reg(REG_RDI);
        finish(running ? 0 : 65);
        break;
    default:
        finish(66);
    }
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t n = qemu_plugin_tb_n_insns(tb);
    bool kernel = qemu_plugin_tb_vaddr(tb) >= KERNEL_START;
    (void)id;
    if (running)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, CB_NO_REGS, (void *)(uintptr_t)n);
    for (size_t k = 0; k < n; k++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);
        size_t size = qemu_plugin_insn_size(insn);
        uint8_t code[16] = { 0 };
        if (!kernel && size != 8)
            continue;
        qemu_plugin_insn_data(insn, code, sizeof code);
        if (!kernel) {
            static const uint8_t marker[] = { 0x0f, 0x1f, 0x84, 0x00 };
            if (!memcmp(code, marker, 4) && code[5] == 0x55 && code[6] == 0x73 && code[7] == 0x74)
                qemu_plugin_register_vcpu_insn_exec_cb(insn, on_marker, CB_R_REGS, (void *)(uintptr_t)code[4]);
            continue;
        }
        uint64_t pc = qemu_plugin_insn_vaddr(insn);
        if (hooks_used && (running || hooks_used))
            hook_insn(insn, pc, code);
        if (running && record)
            qemu_plugin_register_vcpu_mem_cb(insn, on_access, CB_R_REGS, MEM_RW, insn_of(pc, code, size));
    }
}

static void at_exit(qemu_plugin_id_t id, void *udata)
{
    (void)id;
    (void)udata;
    /* The guest ended by itself, without the stop marker: the stream has no end, which the reader sees. */
    if (out)
        fflush(out);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    self = id;
    if (!current_cpu && (!qemu_get_cpu || !cpu_exit)) {
        fprintf(stderr, "tussle: this emulator does not export cpu_exit and qemu_get_cpu\n");
        return 1;
    }
    if (!info->system_emulation || info->system.max_vcpus > VCPUS_MAX)
        return 1;
    for (int i = 0; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            return 1;
        *value++ = 0;
        if (!strcmp(argv[i], "out")) {
            out = fopen(value, "wb");
            if (!out) {
                perror(value);
                return 1;
            }
            setvbuf(out, NULL, _IOFBF, 1 << 20);
        } else if (!strcmp(argv[i], "quantum")) {
            quantum = strtoul(value, NULL, 10);
        } else if (!strcmp(argv[i], "window")) {
            window_accesses = strtoul(value, NULL, 10);
        } else if (!strcmp(argv[i], "chains")) {
            chains_max = strtoul(value, NULL, 10);
        } else if (!strcmp(argv[i], "bytes")) {
            out_max = strtoull(value, NULL, 10);
        } else if (!strcmp(argv[i], "record")) {
            record = !strcmp(value, "on");
        } else if (!strcmp(argv[i], "hooks")) {
            if (!read_hooks(value))
                return 1;
        } else {
            fprintf(stderr, "tussle: unknown argument %s\n", argv[i]);
            return 1;
        }
    }
    if (!quantum || !window_accesses)
        return 1;
    bytes = g_byte_array_new();
    insns = table(sizeof(struct insn_slot), 1 << 14);
    lines = table(sizeof(struct line), 1 << 16);
    cells = table(sizeof(struct cell), 1 << 18);
    held = table(sizeof(struct held), 1 << 12);
    emit('V', "tussle01", 8);
    restart(id);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
    return 0;
}
