/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The part of QEMU's plugin interface (version 1, QEMU 4.2 to 8.2) that the plugin for programs uses, what it takes from
 * QEMU itself beside that, and the recorder's functions. No distribution packages the header.
 */
#ifndef TUSSLE_EMULATE_H
#define TUSSLE_EMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;

typedef struct {
    const char *target_name;
    struct { int min, cur; } version;
    bool system_emulation;
    struct { int smp_vcpus, max_vcpus; } system;
} qemu_info_t;

enum { CB_NO_REGS, CB_R_REGS, CB_RW_REGS };
enum { MEM_R = 1, MEM_W, MEM_RW };

typedef void (*vcpu_cb_t)(qemu_plugin_id_t id, unsigned vcpu);
typedef void (*tb_trans_cb_t)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*vcpu_udata_cb_t)(unsigned vcpu, void *udata);
typedef void (*vcpu_mem_cb_t)(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *udata);
typedef void (*syscall_cb_t)(qemu_plugin_id_t id, unsigned vcpu, int64_t num, uint64_t a1, uint64_t a2, uint64_t a3,
                             uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8);
typedef void (*syscall_ret_cb_t)(qemu_plugin_id_t id, unsigned vcpu, int64_t num, int64_t ret);

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, vcpu_cb_t cb);
void qemu_plugin_register_vcpu_exit_cb(qemu_plugin_id_t id, vcpu_cb_t cb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb_t cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, vcpu_udata_cb_t cb, int flags, void *udata);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, vcpu_udata_cb_t cb, int flags, void *udata);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, vcpu_mem_cb_t cb, int flags, int rw, void *udata);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, syscall_cb_t cb);
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t id, syscall_ret_cb_t cb);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);

/* From QEMU itself, not from the plugin interface: `tussle record` checks that they are there before it starts one. */
typedef struct CPUState CPUState;
typedef struct { uint8_t *data; unsigned len; } GByteArray;
extern __thread CPUState *thread_cpu;
extern uintptr_t guest_base;
extern int x86_cpu_gdb_read_register(CPUState *cpu, GByteArray *to, int reg) __attribute__((weak));
extern int aarch64_cpu_gdb_read_register(CPUState *cpu, GByteArray *to, int reg) __attribute__((weak));
extern int riscv_cpu_gdb_read_register(CPUState *cpu, GByteArray *to, int reg) __attribute__((weak));
GByteArray *g_byte_array_new(void);
GByteArray *g_byte_array_set_size(GByteArray *array, unsigned length);

/* atomics.c */
extern __thread int tussle_emulated_self; /* the calling thread's number; -1 while it is not known */
extern __thread uint64_t tussle_emulated_reserved; /* where the thread's last load that reserves was; 0 for nowhere */
/* Whether comparisons are stores of loops: none, those of what was reserved, all. */
extern enum halves { NO_HALVES, RESERVED_HALVES, ALL_HALVES } tussle_emulated_halves;
bool tussle_emulated_hear_atomics(void);

/* The recorder, crates/rt/emulated, and what it asks. */
bool tussle_emulator_stored(uint64_t pc, uint64_t bytes, uint64_t *to);
bool tussle_emulated_begin(const char *dir, const char *program, const char *maps, uint64_t mem_max, bool operations,
                           uint64_t stack_lo, uint64_t stack_hi);
void tussle_emulated_created(unsigned creator, unsigned vcpu, uint64_t lo, uint64_t hi);
uint64_t tussle_emulated_child_stack(unsigned vcpu);
void tussle_emulated_ended(unsigned vcpu);
void tussle_emulated_memory(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t addr, void *pc);
bool tussle_emulated_may_change(unsigned vcpu, uint64_t addr);
void tussle_emulated_changing(unsigned vcpu, uint64_t addr, uint64_t from, uint64_t to);
void tussle_emulated_changed(unsigned vcpu, uint64_t addr, uint64_t bytes, uint64_t from, uint64_t to, bool counts);
void tussle_emulated_compared(unsigned vcpu, uint64_t addr, uint64_t bytes, uint64_t from, uint64_t wanted, uint64_t to,
                              bool half);
void tussle_emulated_call(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t sp, void *ret);
void tussle_emulated_linked(unsigned vcpu, void *ret);
bool tussle_emulated_landed(unsigned vcpu, void *pc);
void tussle_emulated_function(unsigned vcpu, unsigned kind, const uint64_t *args);
void tussle_emulated_result(unsigned vcpu, uint64_t result);
void tussle_emulated_between(const uint64_t *ranges, size_t count);
void tussle_emulated_system(unsigned vcpu, bool generic, int64_t number, const uint64_t *args, uint64_t base);
void tussle_emulated_system_end(unsigned vcpu, int64_t result, const uint64_t *args, uint64_t base);

#endif
