# The exported names that the runtime's own code must not reach: compilers call these functions wherever a value is
# copied or zeroed, and what the recorder does itself is not the program's. `build.rs` adds them after it has renamed
# what the runtime refers to (`__wrap_*`, x86_64.rs).
	.intel_syntax noprefix
	.macro stub name, target
	.weak \name
	.type \name, @function
	.hidden \target
	.p2align 4
\name:
	mov rcx, qword ptr [rsp]
	jmp \target
	.endm
	.text
	stub memcpy, tussle_memcpy
	stub memmove, tussle_memmove
	stub memset, tussle_memset
	.section .note.GNU-stack, "", @progbits
