//! The processor itself says which address an operand has: `lea` with the same bytes, run under known registers. And
//! instructions that were run under known registers give back what they accessed.
#![cfg(target_arch = "x86_64")]

use iced_x86::{Decoder, DecoderOptions, Instruction};
use proptest::prelude::*;
use tussle_evidence::TouchKind;
use tussle_live::address::{after_it_ran, before_it_runs};
use tussle_live::registers::Registers;

/// Memory for code and for what it accesses.
struct Page(*mut u8);

impl Page {
    fn new() -> Page {
        let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: asks for memory at a place of the kernel's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 1 << 16, access, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Page(at.cast())
    }

    /// Code in the first half.
    fn write(&self, code: &[u8]) -> u64 {
        assert!(code.len() < 1 << 15);
        // SAFETY: the page is larger, ours, and nothing else.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), self.0, code.len()) };
        self.0 as u64
    }

    /// Memory in the middle of the second half.
    fn data(&self) -> u64 {
        self.0 as u64 + (3 << 14)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: what `new` mapped; nobody keeps a pointer to it.
        unsafe { libc::munmap(self.0.cast(), 1 << 16) };
    }
}

/// Runs one instruction between loading all registers but rsp from `before` and storing them to `after`.
///
/// The frame: rdi points to `[before; 16][after; 16]`; it is kept in the red zone of a stack of our own.
fn run(page: &Page, instruction: &[u8], before: &[u64; 16]) -> ([u64; 16], u64) {
    let mut frame = [0u64; 34];
    frame[..16].copy_from_slice(before);
    let mut code: Vec<u8> = Vec::new();
    // push rbx, rbp, r12..r15
    code.extend([0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57]);
    // mov rax, imm64 (frame)
    let at = frame.as_mut_ptr() as u64;
    code.extend([0x48, 0xb8]);
    code.extend(at.to_le_bytes());
    // mov [rax + 8 * 32], rsp
    code.extend([0x48, 0x89, 0xa0]);
    code.extend((8 * 32u32).to_le_bytes());
    for n in (1..16u8).filter(|n| *n != 4).chain([4]) {
        // mov reg, [rax + 8 n]
        code.extend([0x48 | if n >= 8 { 4 } else { 0 }, 0x8b, 0x80 | (n & 7) << 3]);
        code.extend((8 * u32::from(n)).to_le_bytes());
    }
    // mov rax, imm64
    code.extend([0x48, 0xb8]);
    code.extend(before[0].to_le_bytes());
    let ip = page.0 as u64 + code.len() as u64;
    code.extend(instruction);
    // mov [abs64], rax: the only store without another register
    code.extend([0x48, 0xa3]);
    code.extend((at + 8 * 16).to_le_bytes());
    // mov rax, imm64 (frame)
    code.extend([0x48, 0xb8]);
    code.extend(at.to_le_bytes());
    for n in 1..16u8 {
        code.extend([0x48 | if n >= 8 { 4 } else { 0 }, 0x89, 0x80 | (n & 7) << 3]);
        code.extend((8 * (16 + u32::from(n))).to_le_bytes());
    }
    // mov rsp, [rax + 8 * 32]; cld
    code.extend([0x48, 0x8b, 0xa0]);
    code.extend((8 * 32u32).to_le_bytes());
    code.push(0xfc);
    // pop r15..r12, rbp, rbx; ret
    code.extend([0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3]);
    let entry = page.write(&code);
    // SAFETY: the page holds a whole function that keeps to the calling convention.
    let f: extern "C" fn() = unsafe { std::mem::transmute(entry) };
    f();
    let mut after = [0; 16];
    after.copy_from_slice(&frame[16..32]);
    (after, ip)
}

fn decode(bytes: &[u8], ip: u64) -> Instruction {
    Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode()
}

/// Flags as a program has them: nothing set but what always is.
const FLAGS: u64 = 0x202;

/// A stack of its own inside of the page: rsp must be usable if a signal comes.
fn usable(page: &Page, mut registers: [u64; 16]) -> [u64; 16] {
    registers[4] = page.data() + (registers[4] & 0xff8);
    registers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// `mov [operand], ecx` for any ModRM, SIB and displacement goes where `lea` says.
    #[test]
    fn addresses_are_those_of_lea(
        registers: [u64; 16],
        rex in 0x40u8..0x50,
        modrm: u8,
        sib: u8,
        displacement: [u8; 4],
    ) {
        let page = Page::new();
        let registers = usable(&page, registers);
        // A memory operand whose register is rcx: lea must not lose the frame.
        let (rex, modrm) = (rex & !4 | 8, modrm & 0xc7 | 8);
        prop_assume!(modrm >> 6 != 3);
        let tail = |opcode: u8| {
            let mut bytes = vec![rex, opcode, modrm];
            if modrm & 7 == 4 {
                bytes.push(sib);
            }
            bytes.extend(displacement);
            let length = decode(&bytes, 0).len();
            bytes.truncate(length);
            bytes
        };
        let (lea, mov) = (tail(0x8d), tail(0x89));
        let (after, ip) = run(&page, &lea, &registers);
        let store = decode(&mov, ip);
        let found = before_it_runs(&store, &Registers::new(registers, ip, FLAGS));
        prop_assert_eq!(found.known.len(), 1);
        prop_assert_eq!(found.known[0].address, after[1]);
        prop_assert_eq!((found.known[0].size, found.known[0].kind), (8, TouchKind::Write));
    }

    /// What an instruction did is rebuilt as it was, or not at all.
    #[test]
    fn rebuilt_addresses_are_those_before(which in 0usize..INSTRUCTIONS.len(), noise: [u64; 16], place in 0u64..200) {
        let page = Page::new();
        let (bytes, rebuilt) = INSTRUCTIONS[which];
        let mut registers = usable(&page, noise);
        // Whatever register the operand has points into the page, indices are small.
        for n in [0, 3, 5, 6, 7, 8, 13] {
            registers[n] = page.data() + 8 * place;
        }
        (registers[1], registers[2]) = (noise[1] % 64, noise[2] % 64);
        let (after, ip) = run(&page, bytes, &registers);
        let i = decode(bytes, ip);
        prop_assert_eq!(i.len(), bytes.len());
        let exact = before_it_runs(&i, &Registers::new(registers, ip, FLAGS));
        let found = after_it_ran(&i, &Registers::new(after, ip + bytes.len() as u64, FLAGS));
        prop_assert_eq!(exact.unknown, 0);
        prop_assert!(!exact.known.is_empty());
        if rebuilt {
            let place = |a: &tussle_live::address::Access| (a.address, a.size, a.kind, a.locked);
            prop_assert_eq!(
                found.known.iter().map(place).collect::<Vec<_>>(),
                exact.known.iter().map(place).collect::<Vec<_>>()
            );
        } else {
            prop_assert_eq!((found.known.len(), found.unknown > 0), (0, true));
        }
    }
}

/// Instructions with the answer to: can their operand be rebuilt? Registers: rax 0, rcx 1, rdx 2, rbx 3.
const INSTRUCTIONS: &[(&[u8], bool)] = &[
    (&[0x48, 0x89, 0x4b, 0x08], true),                      // mov [rbx+8], rcx
    (&[0x48, 0x01, 0x0c, 0xd3], true),                      // add [rbx+rdx*8], rcx
    (&[0xf0, 0x48, 0xff, 0x03], true),                      // lock inc qword [rbx]
    (&[0xf0, 0x48, 0x0f, 0xc1, 0x0b], true),                // lock xadd [rbx], rcx
    (&[0x48, 0x87, 0x0b], true),                            // xchg [rbx], rcx
    (&[0xf0, 0x48, 0x0f, 0xb1, 0x0b], true),                // lock cmpxchg [rbx], rcx
    (&[0xf0, 0x48, 0x0f, 0xb1, 0x08], false),               // lock cmpxchg [rax], rcx: rax is overwritten
    (&[0x48, 0x8b, 0x03], true),                            // mov rax, [rbx]
    (&[0x48, 0x8b, 0x1b], false),                           // mov rbx, [rbx]
    (&[0x8b, 0x04, 0x13], true),                            // mov eax, [rbx+rdx]
    (&[0x48, 0x0f, 0x44, 0x0b], true),                      // cmove rcx, [rbx]
    (&[0x0f, 0x11, 0x03], true),                            // movups [rbx], xmm0
    (&[0xf3, 0x0f, 0x6f, 0x43, 0x10], true),                // movdqu xmm0, [rbx+16]
    (&[0x48, 0xab], true),                                  // stosq
    (&[0xaa], true),                                        // stosb
    (&[0x48, 0xa5], true),                                  // movsq
    (&[0xad], true),                                        // lodsd
    (&[0x50], true),                                        // push rax
    (&[0x59], true),                                        // pop rcx
    (&[0x80, 0x03, 0x01], true),                            // add byte [rbx], 1
    (&[0xc4, 0xe2, 0x71, 0xf7, 0x03], true),                // shlx eax, [rbx], ecx
    (&[0x48, 0x83, 0x05, 0x00, 0x40, 0x00, 0x00, 1], true), // add qword [rip+0x4000], 1
];

/// `rep` accesses nothing when nothing is left, and its next element when something is.
#[test]
fn repeated_string_instructions() {
    let bytes = [0xf3, 0x48, 0xab]; // rep stosq
    let mut values = [0; 16];
    (values[7], values[1]) = (0x5000, 3);
    let i = decode(&bytes, 0x1000);
    let found = before_it_runs(&i, &Registers::new(values, 0x1000, FLAGS));
    assert_eq!(
        (found.known[0].address, found.known[0].size, found.known[0].kind),
        (0x5000, 8, TouchKind::Write)
    );
    values[1] = 0;
    let found = before_it_runs(&i, &Registers::new(values, 0x1000, FLAGS));
    assert_eq!((found.known.len(), found.unknown), (0, 0));
    let after = after_it_ran(&i, &Registers::new(values, 0x1003, FLAGS));
    assert_eq!((after.known.len(), after.unknown), (0, 1));
}

/// Thread-local memory needs the segment's base; gathers and masked moves are unknown, never zero.
#[test]
fn what_cannot_be_known_is_counted() {
    let tls = decode(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x10, 0, 0, 0], 0); // mov rax, fs:[0x10]
    let mut registers = Registers::new([0; 16], 0, FLAGS);
    assert_eq!(before_it_runs(&tls, &registers).unknown, 1);
    registers.fs_base = Some(0x7000);
    assert_eq!(before_it_runs(&tls, &registers).known[0].address, 0x7010);
    let gather = decode(&[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x8b], 0); // vpgatherdd ymm0, [rbx+ymm1*4], ymm2
    let found = before_it_runs(&gather, &registers);
    assert!(found.known.is_empty() && found.unknown > 0, "{found:?}");
    let masked = decode(&[0xc4, 0xe2, 0x75, 0x8e, 0x03], 0); // vpmaskmovd [rbx], ymm1, ymm0
    let found = before_it_runs(&masked, &registers);
    assert!(found.known.is_empty() && found.unknown > 0, "{found:?}");
    for nothing in [&[0x48, 0x8d, 0x03][..], &[0x0f, 0x1f, 0x00], &[0x0f, 0x18, 0x0b]] {
        // lea, nop, prefetch
        let found = before_it_runs(&decode(nothing, 0), &registers);
        assert_eq!((found.known.len(), found.unknown), (0, 0));
    }
}

/// A jump to the address, an indirect jump, or data in between: what ran before is not sure.
#[test]
fn the_instruction_before() {
    use tussle_live::code::before;
    let add = [0x48, 0x83, 0x03, 0x01]; // add qword [rbx], 1
    let check = |function: &[u8], ip: u64| before(function, 0x1000, ip).map(|i| i.ip());
    let straight = [&add[..], &add, &[0xc3]].concat();
    assert_eq!(check(&straight, 0x1004), Some(0x1000));
    assert_eq!(check(&straight, 0x1005), None, "in the middle of an instruction");
    assert_eq!(check(&straight, 0x1000), None, "the first one");
    let looped = [&add[..], &add, &[0x75, 0xfa, 0xc3]].concat(); // jne to the second
    assert_eq!(check(&looped, 0x1004), None);
    assert_eq!(check(&looped, 0x1008), Some(0x1004));
    let switched = [&add[..], &add, &[0xff, 0xe0]].concat(); // jmp rax
    assert_eq!(check(&switched, 0x1004), None);
    let called = [&[0xe8, 0, 0, 0, 0][..], &add, &[0xc3]].concat();
    assert_eq!(check(&called, 0x1005), None, "the called function ran last");
    let data = [&add[..], &add, &[0xc3, 0x06, 0x06]].concat();
    assert_eq!(check(&data, 0x1004), None, "a jump behind what is no code may be missed");
}

/// `n++` is a load, on which a thread waits, and a store soon after.
#[test]
fn stores_that_follow_without_a_choice() {
    use tussle_live::code::ahead;
    // mov rax,[rbx]; add rax,1; mov [rbx],rax; mov rbx,rcx; mov [rbx],rax; jne; mov [rbx],rax
    let code = [
        &[0x48, 0x8b, 0x03, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x89, 0x03][..],
        &[0x48, 0x89, 0xcb, 0x48, 0x89, 0x03, 0x75, 0x00, 0x48, 0x89, 0x03],
    ]
    .concat();
    let found = ahead(&code, 0x1000);
    assert_eq!(found.iter().map(|f| f.instruction.ip()).collect::<Vec<_>>(), [0x1007, 0x100d]);
    let mut values = [0; 16];
    values[3] = 0x5000;
    let place = |n: usize| {
        let mut registers = Registers::new(values, 0x1000, FLAGS);
        found[n].overwritten.iter().for_each(|r| registers.forget(*r));
        before_it_runs(&found[n].instruction, &registers).known.first().map(|a| (a.address, a.kind))
    };
    assert_eq!(place(0), Some((0x5000, TouchKind::Write)));
    assert_eq!(place(1), None, "rbx has changed by then");
}
