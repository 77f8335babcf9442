/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU plugin of `tussle record-kernel`: watches the memory accesses of a guest kernel between two marker
 * instructions, keeps a MESI model with an infinite cache per vCPU, and writes what it saw as a stream (stream.md).
 *
 * Needs one thread for all vCPUs (-accel tcg,thread=single) and -icount: then there is one order of all accesses, and
 * it is the same in every run. vCPUs change every `quantum` instructions, with recording and without.
 *
 * Arguments: out=FILE, quantum=N, window=N, record=on|off, chains=N, bytes=N (of the stream, at most), hooks=FILE, hold=on,
 * disk=on, order=N (entries of the ordered log, at most), sections=N (sampled per octave of a lock's sections; 0 for none),
 * feedback=N (instructions of a vCPU's turns that a transfer costs it; 0 for none, then watching changes nothing).
 */
#define _GNU_SOURCE
#include "tussle-plugin.h"

#include <dirent.h>
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
extern int vm_stop(int state) __attribute__((weak));

enum { VCPUS_MAX = 64, REG_RAX = 0, REG_RCX = 2, REG_RDX = 3, REG_RSI = 4, REG_RDI = 5, REG_RBP = 6, REG_RSP = 7, STACK_BYTES = 768, CHAINS_PER_CELL = 2 };
/* Marks of tussle.h, of any program. */
enum { REGION_BEGIN = 1, REGION_END = 2 };
enum { MARK_START = 1, MARK_STOP = 2, MARK_FAIL = 3, MARK_UP = 4, MARK_QUIET = 5 };
enum {
    HOOK_ALLOC = 'a', /* allocator; its size is not known */
    HOOK_SIZED = 'b', /* allocator, the size is its first argument */
    HOOK_CACHED = 'c', /* allocator, the size is its third argument */
    HOOK_CACHED_NODE = 'h', /* its fourth */
    HOOK_SLAB_FREE = 'f',
    HOOK_BORN = 'n', /* object of a cache */
    HOOK_BORN_BULK = 'N',
    HOOK_DIED = 'd', /* first argument */
    HOOK_DIED_OF = 'e', /* second argument */
    HOOK_DIED_BULK = 'D',
    HOOK_SWITCH = 's', /* runs on the next task's stack */
    HOOK_ACQUIRE = 'l',
    HOOK_KILLABLE = 'k', /* 0 is success */
    HOOK_TRY = 't', /* 0 is failure */
    HOOK_TAIL = 'r', /* the acquiring functions jump here */
    HOOK_RELEASE = 'u',
    HOOK_DEVICE = 'i', /* tells a device what to do by writing to its registers */
    HOOK_TICK = 'w', /* a timer's interrupt */
};
enum { READ, WRITE, RMW };
enum { STATE_PAUSED = 4 }; /* RunState in QEMU's qapi/run-state.json */

/* Linux's x86-64 memory map without KASLR and with four-level page tables (Documentation/arch/x86/x86_64/mm.rst). */
#define KERNEL_START 0xffff800000000000ull
#define VMALLOC_START 0xffffc90000000000ull
#define CHUNKS_START 0xffffe80000000000ull /* per-CPU chunks come from the end of the vmalloc area, stacks do not */
#define VMALLOC_END 0xffffe90000000000ull
#define ENTRY_START 0xfffffe0000000000ull
#define ENTRY_END 0xffffff0000000000ull
#define IMAGE_START 0xffffffff80000000ull
#define FIXMAP_START 0xffffffffff000000ull /* interrupt controllers and other device registers */

static qemu_plugin_id_t self;
static FILE *out;
static uint64_t out_bytes, out_max = 4ull << 30, lost;
static uint32_t quantum = 1000, window_accesses = 65536, chains_max = 200, octave_sections = 16, feedback;
static uint64_t debt[VCPUS_MAX]; /* of turns, instructions */
static uint64_t order_left = 16 << 20, order_lost, sections, sections_lost;
static bool record = true, hold, disk, running;
static uint64_t left, instructions, switches, accesses, window, left_user, left_stack, left_entry, transfers;
static bool by_region; /* only what happens while a program has a region open (tussle.h) is looked at */
static uint64_t regions_open, regions_begun, outside;
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
    uint64_t order_lost, sections, sections_lost, regions, outside;
};

static void summarise(uint8_t tag)
{
    struct summary s = { 2, quantum, window_accesses, window + 1, instructions, switches, accesses, left_user,
                         left_stack, left_entry, transfers, lost, started_ns, ended_ns,
                         order_lost, sections, sections_lost, regions_begun, outside };
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

struct line {
    uint64_t key, zero, present, ever;
    uint8_t owner, modified, shared, pad[5];
    uint32_t *born; /* which life of a slab's slot each 8 bytes are in; NULL: that before the start marker */
};
struct cell {
    uint64_t vaddr, who; /* instruction, kind, size, vCPU */
    uint32_t window, count, dirty, clean, invalidated, sampled, born, logged;
};
static struct table lines, cells;

struct __attribute__((packed)) access_record {
    uint64_t vaddr;
    uint32_t insn, window, count, dirty, clean, invalidated, born;
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
                                    c->born, c->who & 15, c->who >> 4 & 15, c->who >> 8 & 0xffff };
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
    struct __attribute__((packed)) { uint64_t vaddr, rsp, rbp; uint32_t id, window, born; uint8_t stack[STACK_BYTES]; } r;
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
    r.born = c->born;
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

/* ---- the ordered log ---- */

/*
 * While one vCPU alone uses a region, repeating an access changes nothing in any model with infinite caches, wherever
 * in the region the bytes lie: only the first is written. Slabs do not cross regions.
 */
enum { REGION_SHIFT = 15, LOG_ENTRIES = 4096 };
struct region { uint64_t key, one; uint32_t turn, vcpu; };
static struct table regions;
struct __attribute__((packed)) order_entry { uint64_t what; uint32_t born; };
static struct __attribute__((packed)) { uint32_t window; struct order_entry at[LOG_ENTRIES]; } order_log;
static uint32_t order_used;

static void flush_order(void)
{
    if (order_used)
        emit('L', &order_log, 4 + order_used * sizeof order_log.at[0]);
    order_used = 0;
}

static void log_access(struct cell *c, uint64_t vaddr, unsigned cpu, unsigned shift, unsigned kind)
{
    struct region *r = entry(&regions, vaddr >> REGION_SHIFT, 1);
    if (r->vcpu != cpu + 1) {
        r->vcpu = cpu + 1;
        r->turn++;
    }
    if (c->logged == r->turn)
        return;
    c->logged = r->turn;
    if (!order_left) {
        order_lost++;
        return;
    }
    order_left--;
    if (order_log.window != window)
        flush_order();
    order_log.window = window;
    order_log.at[order_used].what = (vaddr & 0xffffffffffffull) | (uint64_t)cpu << 48 | (uint64_t)kind << 56 |
                                    (uint64_t)shift << 60;
    order_log.at[order_used++].born = c->born;
    if (order_used == LOG_ENTRIES)
        flush_order();
}

/* ---- one access ---- */

static void visit(uint64_t vaddr, uint32_t born, unsigned shift, int kind);
static uint32_t sections_open;

static void access_memory(struct insn *i, uint64_t vaddr, unsigned shift, int kind)
{
    unsigned cpu = vcpu();
    uint64_t me = 1ull << cpu;
    struct line *l = entry(&lines, vaddr >> 6, 0);
    uint32_t born = l->born ? l->born[vaddr >> 3 & 7] : 0;
    struct cell *c;
    if (++accesses % window_accesses == 0)
        window++;
    l->ever |= me;
    if (!l->shared && (l->ever & (l->ever - 1)))
        l->shared = 1;
    c = entry(&cells, vaddr, (uint64_t)i->id << 24 | (uint64_t)cpu << 8 | shift << 4 | kind);
    if (c->window != window || c->born != born) {
        flush_cell(c);
        c->window = window;
        c->born = born;
    }
    c->count++;
    log_access(c, vaddr, cpu, shift, kind);
    if (sections_open)
        visit(vaddr, born, shift, kind);
    if (!i->known)
        announce(i);
    if (coherence(l, cpu, kind, c)) {
        transfers++;
        debt[cpu] += feedback;
        sample_chain(i, c, vaddr);
    }
}

static void left_out(uint64_t *count)
{
    ++*count;
    if (sections_open)
        visit(0, 0, 0, READ);
}

static void on_access(unsigned index, qemu_plugin_meminfo_t info, uint64_t vaddr, void *udata)
{
    struct insn *i = udata;
    int kind = qemu_plugin_mem_is_store(info) ? WRITE : READ;
    unsigned shift = qemu_plugin_mem_size_shift(info);
    (void)index;
    if (by_region && !regions_open) {
        outside++;
        return;
    }
    if (vaddr < KERNEL_START) {
        left_out(&left_user);
        return;
    }
    if (vaddr >= VMALLOC_START && vaddr < CHUNKS_START) {
        left_out(&left_stack);
        return;
    }
    if ((vaddr >= ENTRY_START && vaddr < ENTRY_END) || vaddr >= FIXMAP_START) {
        left_out(&left_entry);
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

static uint64_t instructions_of[VCPUS_MAX];

static void on_block(unsigned index, void *udata)
{
    uint64_t n = (uintptr_t)udata;
    unsigned cpu = vcpu();
    (void)index;
    instructions += n;
    instructions_of[cpu] += n;
    if (debt[cpu]) {
        uint64_t paid = debt[cpu] < left ? debt[cpu] : left;
        debt[cpu] -= paid;
        left -= paid;
    }
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
static uint64_t return_thunk;
static size_t hooks_used;

/* Calls of watched functions by the stack pointer at their entry, which is that at their return. */
struct call { uint64_t rsp, one, argument; const struct hook *hook; };
static struct table calls;

struct __attribute__((packed)) hook_record {
    uint64_t a, b, accesses;
    uint32_t id, bytes;
    uint16_t vcpu;
    char kind;
    uint8_t pad;
};

static void emit_hook(const struct hook *h, char kind, uint64_t a, uint64_t b, uint32_t size)
{
    struct hook_record r = { a, b, running ? accesses : 0, h->id, size, vcpu(), kind, 0 };
    emit('H', &r, sizeof r);
}

/* ---- lives of slab objects ---- */

/* Where the kernel keeps what is needed to find an object's size; from the hooks file. */
static struct { uint64_t direct_map, page_array, page_bytes, compound_head, slab_cache, size; } geometry;
struct life { uint64_t object, one; uint32_t number, alive; };
static struct table lives;
static uint32_t births;

/* In a variable of the kernel's image, or given as it is. */
static uint64_t base(uint64_t x)
{
    return x >= IMAGE_START ? load(x) : x;
}

static bool find_geometry(void)
{
    static bool known;
    if (!known && geometry.page_bytes) {
        geometry.direct_map = base(geometry.direct_map);
        geometry.page_array = base(geometry.page_array);
        known = true;
    }
    return known;
}

static uint64_t head_of(uint64_t page)
{
    uint64_t word = load(page + geometry.compound_head), head = word & ~1ull;
    if (!(word & 1))
        return page;
    return head > page ? page & head : head; /* a mask since 7.3: above every page */
}

/* Bytes of the slot that begins here; 0 when none does. */
static uint64_t object_bytes(uint64_t x)
{
    uint64_t page, cache, size, first;
    if (!find_geometry() || x < geometry.direct_map || x >= VMALLOC_START)
        return 0;
    page = head_of(geometry.page_array + (x - geometry.direct_map) / 4096 * geometry.page_bytes);
    cache = load(page + geometry.slab_cache);
    if (cache < geometry.direct_map)
        return 0;
    size = load(cache + geometry.size) & 0xffffffff;
    first = geometry.direct_map + (page - geometry.page_array) / geometry.page_bytes * 4096;
    return size >= 8 && size <= 65536 && x >= first && (x - first) % size == 0 ? size : 0;
}

static void mark(uint64_t from, uint64_t size, uint32_t number)
{
    for (uint64_t a = from; a < from + size; a += 8) {
        struct line *l = number ? entry(&lines, a >> 6, 0) : slot(&lines, a >> 6, 0);
        if (!l->born && !number)
            continue;
        if (!l->born)
            l->born = allocate(8, sizeof *l->born);
        l->born[a >> 3 & 7] = number;
    }
}

/* A slot's next life begins when it is freed: its link in the free list and its clearing are part of it. */
static void live(uint64_t object, bool alive)
{
    struct __attribute__((packed)) { uint64_t object, accesses; uint32_t number, bytes; uint16_t vcpu; uint8_t kind, pad; } r;
    struct life *l;
    uint64_t size = running && record ? object_bytes(object) : 0;
    if (!size)
        return;
    l = entry(&lives, object, 1);
    if (alive ? l->alive : l->number && !l->alive)
        return; /* one function inside of another one */
    if (!alive || !l->number) {
        l->number = ++births;
        mark(object, size, l->number);
    }
    l->alive = alive;
    r.object = object;
    r.accesses = accesses;
    r.number = l->number;
    r.bytes = size;
    r.vcpu = vcpu();
    r.kind = alive;
    r.pad = 0;
    emit('B', &r, sizeof r);
}

static void live_all(uint64_t array, uint64_t n, bool alive)
{
    for (uint64_t i = 0; i < n && i < 65536; i++)
        live(load(array + 8 * i), alive);
}

/* The pages of a slab go back: what lies there next has no life that we know. */
static void forget(uint64_t slab)
{
    uint64_t at, pages = 1;
    if (!running || !record || !find_geometry())
        return;
    while (pages < 64 && head_of(slab + pages * geometry.page_bytes) == slab)
        pages++;
    at = geometry.direct_map + (slab - geometry.page_array) / geometry.page_bytes * 4096;
    mark(at, pages * 4096, 0);
    for (uint64_t a = at; a < at + pages * 4096; a += 8) {
        struct life *l = slot(&lives, a, 1);
        if (l->object)
            l->number = l->alive = 0;
    }
}

/* ---- critical sections ---- */

/*
 * What a task does between taking a lock and releasing it. A lock counts once HOT_TAKEN acquisitions by two vCPUs were
 * seen; a section is that of the outermost such lock, and locks inside of it are marked in it. A task is told by its
 * stack, so that neither interrupts nor other tasks on the same vCPU add to its section while it sleeps.
 */
enum { HELD_MAX = 16, VISITS_MAX = 1024, HOT_TAKEN = 16, STACK_SIZE = 16384 };
enum { VISIT_ACQUIRED = 3, VISIT_RELEASED = 4 };
enum { SECTION_THINK = 1, SECTION_CUT = 2 };

struct __attribute__((packed)) visited { uint64_t vaddr; uint32_t born; uint16_t gap; uint8_t kind, size; };
struct __attribute__((packed)) section {
    uint64_t lock, began, ended, think, instructions;
    uint32_t function, stands_for, total, born;
    uint16_t vcpu;
    uint8_t flags, pad;
    struct visited visits[VISITS_MAX];
};
struct context {
    uint64_t held[HELD_MAX];
    unsigned depth;
    uint64_t call, back; /* stack pointer at the entry of a lock function and where it returns to */
    uint64_t inside; /* the same while a section is open: visits further down are left out */
    uint64_t ran, left; /* its instructions up to its last switch; those at the end of its last section */
    uint32_t gap, used;
    struct section *open;
};
struct context_slot { uint64_t base, one; struct context *context; };
struct lock { uint64_t address, one, cpus; uint32_t taken, sections; struct context *holder; };
static struct table contexts, locks;
static struct context *on_cpu[VCPUS_MAX];
static uint64_t since[VCPUS_MAX];

static struct context *context_at(uint64_t rsp)
{
    static uint64_t last_base;
    static struct context *last;
    uint64_t base = rsp & ~(uint64_t)(STACK_SIZE - 1);
    struct context_slot *s;
    if (base == last_base && last)
        return last;
    s = entry(&contexts, base | 1, 1);
    if (!s->context)
        s->context = allocate(1, sizeof *s->context);
    last_base = base;
    return last = s->context;
}

/* The context's own instructions; only of a task that runs, not of an interrupt on top of it. */
static bool clock_of(struct context *x, unsigned cpu, uint64_t *now)
{
    if (!on_cpu[cpu])
        on_cpu[cpu] = x;
    *now = x->ran + instructions_of[cpu] - since[cpu];
    return on_cpu[cpu] == x;
}

/* Inside of another lock function: what that takes and releases is its own business. */
static bool is_nested(struct context *x, uint64_t rsp)
{
    if (rsp < x->call && load(x->call) == x->back)
        return true;
    if (rsp != x->call)
        x->call = 0;
    return false;
}

static void enter(struct context *x, uint64_t rsp)
{
    x->call = rsp;
    x->back = load(rsp);
}

static void on_switch(void)
{
    unsigned cpu = vcpu();
    struct context *next = context_at(reg(REG_RSP));
    if (on_cpu[cpu])
        on_cpu[cpu]->ran += instructions_of[cpu] - since[cpu];
    since[cpu] = instructions_of[cpu];
    on_cpu[cpu] = next;
}

static void put_visit(struct context *x, uint64_t vaddr, uint32_t born, unsigned size, int kind)
{
    struct section *s = x->open;
    struct visited *v;
    s->total++;
    if (x->used == VISITS_MAX) {
        s->flags |= SECTION_CUT;
        return;
    }
    v = &s->visits[x->used++];
    *v = (struct visited){ vaddr, born, 0, kind, size };
    if (kind > RMW)
        return;
    v->gap = x->gap < 65535 ? x->gap : 65535;
    x->gap = 0;
}

/* An access while some section is open; vaddr 0: one that is left out. */
static void visit(uint64_t vaddr, uint32_t born, unsigned shift, int kind)
{
    uint64_t rsp = reg(REG_RSP);
    struct context *x = context_at(rsp);
    if (!x->open)
        return;
    /* the lock's own words are the lock's business */
    if (x->inside && rsp <= x->inside)
        return;
    x->inside = 0;
    if (vaddr)
        put_visit(x, vaddr, born, 1 << shift, kind);
    else
        x->gap++;
}

static uint32_t life_at(uint64_t address)
{
    struct line *l = slot(&lines, address >> 6, 0);
    return l->key && l->born ? l->born[address >> 3 & 7] : 0;
}

static bool is_hot(const struct lock *l)
{
    return l->taken >= HOT_TAKEN && (l->cpus & (l->cpus - 1));
}

/* The first sections of a lock, then as many of each power of two: 1 when this one is sampled, or how many it is of. */
static uint32_t stands_for(uint32_t n)
{
    uint32_t stride = 1;
    if (!octave_sections)
        return 0;
    while (n / stride >= 2 * octave_sections)
        stride *= 2;
    return n % stride ? 0 : stride;
}

static void drop(struct context *x)
{
    if (!x->open)
        return;
    free(x->open);
    x->open = NULL;
    sections_open--;
    sections_lost++;
}

static void open_section(struct context *x, const struct hook *h, struct lock *l, unsigned cpu)
{
    uint64_t now;
    if (by_region && !regions_open)
        return;
    uint32_t weight = stands_for(l->sections++);
    if (!weight)
        return;
    x->open = allocate(1, sizeof *x->open);
    x->open->lock = l->address;
    x->open->began = accesses;
    x->open->function = h->id;
    x->open->stands_for = weight;
    x->open->born = life_at(l->address);
    x->open->vcpu = cpu;
    if (clock_of(x, cpu, &now)) {
        x->open->instructions = now;
        if (x->left) {
            x->open->think = now - x->left;
            x->open->flags |= SECTION_THINK;
        }
    }
    x->used = x->gap = x->inside = 0;
    sections_open++;
}

static void taken(const struct hook *h, uint64_t address, uint64_t rsp)
{
    unsigned cpu = vcpu();
    struct context *x = context_at(rsp);
    struct lock *l = entry(&locks, address, 1);
    if (is_nested(x, rsp))
        return;
    x->call = 0;
    l->taken++;
    l->cpus |= 1ull << cpu;
    if (!is_hot(l) || x->depth == HELD_MAX)
        return;
    l->holder = x;
    if (!x->depth)
        open_section(x, h, l, cpu);
    else if (x->open)
        put_visit(x, address, life_at(address), h->id & 255, VISIT_ACQUIRED);
    x->held[x->depth++] = address;
}

/* Takes a lock off a context's list; where it was, or -1. */
static int give(struct context *x, uint64_t address)
{
    for (int i = (int)x->depth - 1; i >= 0; i--) {
        if (x->held[i] == address) {
            x->depth--;
            memmove(x->held + i, x->held + i + 1, (x->depth - i) * sizeof x->held[0]);
            return i;
        }
    }
    return -1;
}

static void close_section(struct context *x, unsigned cpu)
{
    struct section *s = x->open;
    uint64_t now;
    if (clock_of(x, cpu, &now)) {
        x->left = now;
        if (s)
            s->instructions = s->instructions ? now - s->instructions : 0;
    } else if (s) {
        s->instructions = 0;
    }
    if (!s)
        return;
    s->ended = accesses;
    emit('O', s, offsetof(struct section, visits) + x->used * sizeof s->visits[0]);
    sections++;
    sections_open--;
    free(s);
    x->open = NULL;
}

static void released(uint64_t address, uint64_t rsp)
{
    struct lock *l = slot(&locks, address, 1);
    struct context *x;
    int at;
    if (!l->address || !is_hot(l))
        return;
    x = context_at(rsp);
    if (is_nested(x, rsp))
        return;
    enter(x, rsp);
    at = give(x, address);
    if (at < 0) {
        /* another task releases it, as with run queues */
        if (l->holder && !give(l->holder, address))
            drop(l->holder);
    } else if (at == 0) {
        close_section(x, vcpu());
    } else if (x->open) {
        put_visit(x, address, 0, 0, VISIT_RELEASED);
        if (!x->inside)
            x->inside = rsp;
    }
}

static void calling(const struct hook *h, uint64_t address)
{
    uint64_t rsp = reg(REG_RSP);
    struct call *e = entry(&calls, rsp, 1);
    struct context *x = context_at(rsp);
    e->argument = address;
    e->hook = h;
    if (!is_nested(x, rsp))
        enter(x, rsp);
    if (x->open && !x->inside && is_hot(slot(&locks, address, 1)))
        x->inside = rsp;
}

static void returning(uint64_t rsp)
{
    struct context *x = context_at(rsp);
    if (x->call == rsp)
        x->call = 0;
}

/* ---- entries and returns of watched functions ---- */

static bool is_stack(uint64_t address)
{
    return address >= VMALLOC_START && address < CHUNKS_START;
}

static void on_entry(unsigned index, void *udata)
{
    const struct hook *h = udata;
    struct call *e;
    (void)index;
    switch (h->kind) {
    case HOOK_SLAB_FREE:
        forget(reg(REG_RSI));
        emit_hook(h, 'f', reg(REG_RDI), reg(REG_RSI), 0);
        break;
    case HOOK_DIED:
        live(reg(REG_RDI), false);
        break;
    case HOOK_DIED_OF:
        live(reg(REG_RSI), false);
        break;
    case HOOK_DIED_BULK:
        live_all(reg(REG_RDX), reg(REG_RSI), false);
        break;
    case HOOK_SWITCH:
        on_switch();
        break;
    case HOOK_RELEASE:
        e = slot(&calls, reg(REG_RSP), 1);
        e->argument = 0;
        released(reg(REG_RDI), reg(REG_RSP));
        break;
    case HOOK_SIZED:
    case HOOK_CACHED:
    case HOOK_CACHED_NODE:
    case HOOK_BORN_BULK:
        e = entry(&calls, reg(REG_RSP), 1);
        e->argument = reg(h->kind == HOOK_SIZED ? REG_RDI : h->kind == HOOK_CACHED ? REG_RDX : REG_RCX);
        e->hook = h;
        break;
    default:
        calling(h, reg(REG_RDI));
    }
}

static void on_return(unsigned index, void *udata)
{
    const struct hook *h = udata;
    uint64_t rsp = reg(REG_RSP), rax = reg(REG_RAX);
    struct call *e = slot(&calls, rsp, 1);
    (void)index;
    switch (h->kind) {
    case HOOK_ALLOC:
    case HOOK_SIZED:
    case HOOK_CACHED:
    case HOOK_CACHED_NODE:
        if (rax) {
            live(rax, true);
            emit_hook(h, 'a', rax, load(rsp), e->rsp && e->hook == h && e->argument < 1u << 31 ? e->argument : 0);
        }
        return;
    case HOOK_BORN:
        if (rax)
            live(rax, true);
        return;
    case HOOK_BORN_BULK:
        if (e->rsp && e->hook == h)
            live_all(e->argument, (uint32_t)rax, true);
        return;
    default:
        break;
    }
    if (h->kind == HOOK_RELEASE || !e->rsp || !e->argument || !e->hook) {
        returning(rsp);
        return;
    }
    h = e->hook;
    if (h->kind != HOOK_ACQUIRE && h->kind != HOOK_KILLABLE && h->kind != HOOK_TRY)
        return;
    if (!is_stack(e->argument) && (h->kind == HOOK_ACQUIRE || (h->kind == HOOK_KILLABLE) == !(uint32_t)rax))
        taken(h, e->argument, rsp);
    e->argument = 0;
    returning(rsp);
}

/* ---- devices ---- */

enum { THREADS_MAX = 256, QUIET_TRIES = 20000 };

/* State and number of sleeps of all threads of the emulator but this one; how many, 0 when that cannot be read. */
static int threads(char *states, unsigned long *sleeps)
{
    char path[320], line[128];
    int n = 0, me = (int)gettid();
    DIR *all = opendir("/proc/self/task");
    struct dirent *one;
    while (all && n < THREADS_MAX && (one = readdir(all))) {
        if (one->d_name[0] == '.' || atoi(one->d_name) == me)
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", one->d_name);
        FILE *f = fopen(path, "r");
        states[n] = '?';
        sleeps[n] = 0;
        while (f && fgets(line, sizeof line, f))
            if (sscanf(line, "State: %c", &states[n]) || sscanf(line, "voluntary_ctxt_switches: %lu", &sleeps[n]))
                continue;
        if (f)
            fclose(f);
        n++;
    }
    if (all)
        closedir(all);
    return n;
}

/* All threads sleep, and slept between two looks: so there was a moment at which all of them did. */
static bool all_asleep(void)
{
    static char states[2][THREADS_MAX + 1];
    static unsigned long slept[2][THREADS_MAX];
    int n = threads(states[0], slept[0]);
    for (int i = 0; i < n; i++)
        if (states[0][i] != 'S')
            return false;
    return threads(states[1], slept[1]) == n && !memcmp(states[0], states[1], n) &&
           !memcmp(slept[0], slept[1], n * sizeof slept[0][0]);
}

static void await_others(void)
{
    for (int tries = 0; !all_asleep() && tries < QUIET_TRIES; tries++)
        usleep(50);
}

/*
 * A disk works in other threads of the emulator, for as long as this machine takes. The guest stands still until it is
 * done: so it takes no time, and its interrupt comes at the same instruction in every run.
 */
static void on_device(unsigned index, qemu_plugin_meminfo_t info, uint64_t vaddr, void *udata)
{
    struct qemu_plugin_hwaddr *at = qemu_plugin_get_hwaddr(info, vaddr);
    (void)index;
    (void)udata;
    if (at && qemu_plugin_hwaddr_is_io(at))
        await_others();
}

/* A timer that ran out has woken the main thread, too: were it late, it would run the next one instead of this thread,
   and vCPUs would change at another place. */
static void on_tick(unsigned index, void *udata)
{
    (void)index;
    (void)udata;
    await_others();
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

/* Before the start marker allocations and slabs alone matter. */
static bool is_early(char kind)
{
    return kind && strchr("abchf", kind);
}

static bool has_entry(char kind)
{
    return kind != HOOK_ALLOC && kind != HOOK_BORN && kind != HOOK_TAIL;
}

static bool has_return(char kind)
{
    return !strchr("fdeDs", kind);
}

/* Early in the boot returns are still jumps to one place, which the kernel replaces later. */
static bool is_return(uint64_t pc, const uint8_t *code)
{
    int32_t relative;
    memcpy(&relative, code + 1, 4);
    return code[0] == 0xc3 || (code[0] == 0xe9 && return_thunk && pc + 5 + relative == return_thunk);
}

static void hook_insn(struct qemu_plugin_insn *insn, uint64_t pc, const uint8_t *code)
{
    const struct hook *h = hook_at(pc);
    if (h && (h->kind == HOOK_DEVICE || h->kind == HOOK_TICK)) {
        if (disk && h->kind == HOOK_DEVICE)
            qemu_plugin_register_vcpu_mem_cb(insn, on_device, CB_NO_REGS, MEM_W, NULL);
        else if (disk && pc == h->start)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_tick, CB_NO_REGS, NULL);
        return;
    }
    if (!h || (!(running && record) && !is_early(h->kind)))
        return;
    if (pc == h->start && has_entry(h->kind))
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_entry, CB_R_REGS, (void *)h);
    if (is_return(pc, code) && has_return(h->kind))
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_return, CB_R_REGS, (void *)h);
}

/* Lines `kind start end number`; `g` with the addresses and offsets of `geometry`; `x` with `return_thunk`. */
static bool read_hooks(const char *path)
{
    FILE *f = fopen(path, "r");
    struct hook h = { 0 };
    size_t room = 0;
    if (!f)
        return false;
    while (fscanf(f, " %c", &h.kind) == 1) {
        if (h.kind == 'g') {
            if (fscanf(f, "%lx %lx %lx %lx %lx %lx", &geometry.direct_map, &geometry.page_array, &geometry.page_bytes,
                       &geometry.compound_head, &geometry.slab_cache, &geometry.size) != 6)
                return false;
            continue;
        }
        if (h.kind == 'x') {
            if (fscanf(f, "%lx", &return_thunk) != 1)
                return false;
            continue;
        }
        if (fscanf(f, "%lx %lx %u", &h.start, &h.end, &h.id) != 3)
            return false;
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

static bool firmware = true; /* until the kernel begins; it looks at disks, too */

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
        flush_order();
    }
    summarise('E');
    if (out && fclose(out))
        cannot_write();
    _exit(status);
}

/* How often the emulator's main thread went to sleep of itself; 0 when that cannot be read. */
static unsigned long sleeps(void)
{
    char path[64], line[128];
    unsigned long n = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)getpid());
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
            break;
    if (f)
        fclose(f);
    return n;
}

/* Waits until the main thread has been asleep for a while; the guest's time stands still meanwhile. Whatever the main
   thread does after a snapshot was restored makes vCPUs change at places that differ from run to run. */
static void await_quiet(void)
{
    unsigned long before = sleeps();
    for (int tries = 0, still = 0; tries < 400 && still < 10; tries++) {
        usleep(5000);
        unsigned long now = sleeps();
        still = now == before ? still + 1 : 0;
        before = now;
    }
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
    case MARK_UP:
        if (!hold)
            break;
        /* The main thread is in the middle of stopping, waiting for this vCPU alone, when it is quiet: so a snapshot
           is always of the same place. */
        if (out && fflush(out))
            cannot_write();
        vm_stop(STATE_PAUSED);
        await_quiet();
        break;
    case MARK_QUIET:
        await_quiet();
        break;
    default:
        finish(66);
    }
}

static void on_region(unsigned index, void *udata)
{
    (void)index;
    if ((uintptr_t)udata == REGION_BEGIN) {
        regions_open++;
        regions_begun++;
    } else if (regions_open) {
        regions_open--;
    }
}

/* A mark of tussle.h for a region, or 0. */
static unsigned region_mark(const uint8_t *code)
{
    static const uint8_t mark[] = { 0x0f, 0x1f, 0x80 };
    bool is = !memcmp(code, mark, 3) && code[4] == 0x53 && code[5] == 0x55 && code[6] == 0x54;
    return is && (code[3] == REGION_BEGIN || code[3] == REGION_END) ? code[3] : 0;
}

static void user_insn(struct qemu_plugin_insn *insn, const uint8_t *code, size_t size)
{
    static const uint8_t marker[] = { 0x0f, 0x1f, 0x84, 0x00 };
    if (size == 8 && !memcmp(code, marker, 4) && code[5] == 0x55 && code[6] == 0x73 && code[7] == 0x74)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_marker, CB_R_REGS, (void *)(uintptr_t)code[4]);
    unsigned region = size == 7 && by_region && running ? region_mark(code) : 0;
    if (region)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_region, CB_NO_REGS, (void *)(uintptr_t)region);
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t n = qemu_plugin_tb_n_insns(tb);
    bool kernel = qemu_plugin_tb_vaddr(tb) >= KERNEL_START;
    (void)id;
    firmware &= !kernel;
    if (running)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, CB_NO_REGS, (void *)(uintptr_t)n);
    for (size_t k = 0; k < n; k++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);
        size_t size = qemu_plugin_insn_size(insn);
        uint8_t code[16] = { 0 };
        if (firmware && disk)
            qemu_plugin_register_vcpu_mem_cb(insn, on_device, CB_NO_REGS, MEM_W, NULL);
        if (!kernel && size != 7 && size != 8)
            continue;
        qemu_plugin_insn_data(insn, code, sizeof code);
        if (!kernel) {
            user_insn(insn, code, size);
            continue;
        }
        uint64_t pc = qemu_plugin_insn_vaddr(insn);
        if (hooks_used)
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
            out = fopen(value, "ab"); /* behind the records of the boot, in a run from a snapshot */
            if (!out) {
                perror(value);
                return 1;
            }
            setvbuf(out, NULL, _IOFBF, 1 << 20);
            long there = fseek(out, 0, SEEK_END) ? -1 : ftell(out);
            if (there < 0) {
                perror(value);
                return 1;
            }
            out_bytes = (uint64_t)there; /* the limit is of the whole stream */
        } else if (!strcmp(argv[i], "quantum")) {
            quantum = strtoul(value, NULL, 10);
        } else if (!strcmp(argv[i], "window")) {
            window_accesses = strtoul(value, NULL, 10);
        } else if (!strcmp(argv[i], "chains")) {
            chains_max = strtoul(value, NULL, 10);
        } else if (!strcmp(argv[i], "order")) {
            order_left = strtoull(value, NULL, 10);
        } else if (!strcmp(argv[i], "sections")) {
            octave_sections = strtoul(value, NULL, 10);
        } else if (!strcmp(argv[i], "feedback")) {
            feedback = strtoul(value, NULL, 10);
        } else if (!strcmp(argv[i], "bytes")) {
            out_max = strtoull(value, NULL, 10);
        } else if (!strcmp(argv[i], "record")) {
            record = !strcmp(value, "on");
        } else if (!strcmp(argv[i], "regions")) {
            by_region = !strcmp(value, "on");
        } else if (!strcmp(argv[i], "hold")) {
            hold = !strcmp(value, "on");
            if (hold && !vm_stop) {
                fprintf(stderr, "tussle: this emulator does not export vm_stop, so no snapshot can be taken (--no-snapshot)\n");
                return 1;
            }
        } else if (!strcmp(argv[i], "disk")) {
            disk = !strcmp(value, "on");
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
    calls = table(sizeof(struct call), 1 << 12);
    regions = table(sizeof(struct region), 1 << 14);
    lives = table(sizeof(struct life), 1 << 14);
    contexts = table(sizeof(struct context_slot), 1 << 10);
    locks = table(sizeof(struct lock), 1 << 12);
    if (!out_bytes)
        emit('V', "tussle02", 8);
    restart(id);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
    return 0;
}
