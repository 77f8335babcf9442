/* tussle.h: tells tussle what matters in a program. C, C++ and the Linux kernel; needs no library.
 *
 * Where nothing is recorded each mark costs one instruction that does nothing and the test of an address that is 0;
 * with -DTUSSLE_NO_MARKS nothing at all. `tussle cc` finds this file by itself; `tussle cc --print-include` prints its
 * folder for other compilers. docs/marks.md describes it.
 *
 *     tussle_region_begin("serving");       only what happens in regions is counted, whichever thread does it;
 *     tussle_region_end("serving");         they may nest, and threads may have them at the same time
 *
 *     tussle_operation_begin("request");    one unit of the program's work, in one thread
 *     tussle_operation_end("request");
 *
 *     TUSSLE_TYPE(p, struct conn);          the allocation that begins at p is a struct conn, or an array of them
 *     TUSSLE_PART(p, struct conn);          p is a struct conn that an allocator of the program's own handed out,
 *     TUSSLE_PART_END(p);                   and takes back
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef TUSSLE_H
#define TUSSLE_H

#if !defined(TUSSLE_NO_MARKS) && defined(__ELF__) && (defined(__GNUC__) || defined(__clang__))
#define TUSSLE_MARKS 1
#else
#define TUSSLE_MARKS 0
#endif

#define TUSSLE_INLINE_ static __inline__ __attribute__((__always_inline__, __unused__))

/* What an emulator sees: an instruction that does nothing, with a number in it, and operands in fixed registers.
 * x86: nopl 0x545553NN(%rax). */
#define TUSSLE_REGION_BEGIN_ 1
#define TUSSLE_REGION_END_ 2
#define TUSSLE_OPERATION_BEGIN_ 3
#define TUSSLE_OPERATION_END_ 4
#define TUSSLE_TYPE_ 5
#define TUSSLE_PART_END_ 6

#if TUSSLE_MARKS && defined(__x86_64__)
#define TUSSLE_SEEN_(number, name, at, bytes)                                                                          \
	__asm__ __volatile__(".byte 0x0f, 0x1f, 0x80, %c0, 0x53, 0x55, 0x54"                                            \
			     :                                                                                         \
			     : "i"(number), "a"(name), "D"(at), "S"((unsigned long)(bytes))                                             \
			     : "memory")
#elif TUSSLE_MARKS
#define TUSSLE_SEEN_(number, name, at, bytes) __asm__ __volatile__("" : : : "memory")
#endif

#if TUSSLE_MARKS && !defined(__KERNEL__)

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
/* The recorder defines them where it is inside; elsewhere their addresses are 0. */
void tussle_mark_region_begin(const char *name) __attribute__((__weak__));
void tussle_mark_region_end(const char *name) __attribute__((__weak__));
void tussle_mark_operation_begin(const char *name) __attribute__((__weak__));
void tussle_mark_operation_end(const char *name) __attribute__((__weak__));
void tussle_mark_type(const void *at, size_t bytes, const char *name) __attribute__((__weak__));
void tussle_mark_part_end(const void *at) __attribute__((__weak__));
#ifdef __cplusplus
}
#endif

#if defined(__x86_64__) && defined(__LP64__)
/* By way of the global offset table: otherwise a program that is not position-independent, and whose recorder comes
 * in a library, has its address as 0 for ever. */
#define TUSSLE_TELL_(function, arguments)                                                                              \
	do {                                                                                                           \
		__typeof__(&function) tell_;                                                                           \
		__asm__(".weak " #function "\n\tmovq " #function "@GOTPCREL(%%rip), %0" : "=r"(tell_));                \
		if (tell_)                                                                                             \
			tell_ arguments;                                                                               \
	} while (0)
#else
#define TUSSLE_TELL_(function, arguments)                                                                              \
	do {                                                                                                           \
		if (function)                                                                                          \
			function arguments;                                                                            \
	} while (0)
#endif

/* By this note a recorder knows that regions are marked before the first one begins. */
#define TUSSLE_REGIONS_ARE_MARKED_                                                                                     \
	__asm__ __volatile__(".pushsection .note.tussle.marks,\"a\",%note\n\t.balign 4\n\t.long 13, 0, 1\n\t"          \
			     ".asciz \"marks.tussle\"\n\t.balign 4\n\t.popsection")

#elif TUSSLE_MARKS

#define TUSSLE_TELL_(function, arguments) ((void)0)
#define TUSSLE_REGIONS_ARE_MARKED_ ((void)0)

#endif

#if TUSSLE_MARKS

TUSSLE_INLINE_ void tussle_region_begin(const char *name)
{
	TUSSLE_REGIONS_ARE_MARKED_;
	TUSSLE_TELL_(tussle_mark_region_begin, (name));
	TUSSLE_SEEN_(TUSSLE_REGION_BEGIN_, name, 0, 0);
}

TUSSLE_INLINE_ void tussle_region_end(const char *name)
{
	TUSSLE_SEEN_(TUSSLE_REGION_END_, name, 0, 0);
	TUSSLE_TELL_(tussle_mark_region_end, (name));
}

TUSSLE_INLINE_ void tussle_operation_begin(const char *name)
{
	TUSSLE_TELL_(tussle_mark_operation_begin, (name));
	TUSSLE_SEEN_(TUSSLE_OPERATION_BEGIN_, name, 0, 0);
}

TUSSLE_INLINE_ void tussle_operation_end(const char *name)
{
	TUSSLE_SEEN_(TUSSLE_OPERATION_END_, name, 0, 0);
	TUSSLE_TELL_(tussle_mark_operation_end, (name));
}

TUSSLE_INLINE_ void tussle_type(const void *at, unsigned long bytes, const char *name)
{
	TUSSLE_SEEN_(TUSSLE_TYPE_, name, at, bytes);
	TUSSLE_TELL_(tussle_mark_type, (at, bytes, name));
}

TUSSLE_INLINE_ void tussle_part_end(const void *at)
{
	TUSSLE_SEEN_(TUSSLE_PART_END_, 0, at, 0);
	TUSSLE_TELL_(tussle_mark_part_end, (at));
}

#else

#define tussle_region_begin(name) ((void)(name))
#define tussle_region_end(name) ((void)(name))
#define tussle_operation_begin(name) ((void)(name))
#define tussle_operation_end(name) ((void)(name))
#define tussle_type(at, bytes, name) ((void)(at), (void)(bytes), (void)(name))
#define tussle_part_end(at) ((void)(at))

#endif

#if (defined(__cplusplus) && __cplusplus >= 201103L) || (!defined(__cplusplus) && __STDC_VERSION__ + 0 >= 199901L)
/* A template's name may hold commas. */
#define TUSSLE_TYPE(at, ...) tussle_type((at), 0, #__VA_ARGS__)
#define TUSSLE_PART(at, ...) tussle_type((at), sizeof(__VA_ARGS__), #__VA_ARGS__)
#else
#define TUSSLE_TYPE(at, type) tussle_type((at), 0, #type)
#define TUSSLE_PART(at, type) tussle_type((at), sizeof(type), #type)
#endif
#define TUSSLE_PART_END(at) tussle_part_end(at)

#ifdef __cplusplus
namespace tussle {
/* A region or an operation as long as the object lives. */
class region {
	const char *name_;
	region(const region &);
	region &operator=(const region &);

public:
	explicit region(const char *name) : name_(name) { tussle_region_begin(name); }
	~region() { tussle_region_end(name_); }
};
class operation {
	const char *name_;
	operation(const operation &);
	operation &operator=(const operation &);

public:
	explicit operation(const char *name) : name_(name) { tussle_operation_begin(name); }
	~operation() { tussle_operation_end(name_); }
};
} // namespace tussle
#endif

#endif
