//! The kernel's own code, sampled on every CPU.
//!
//! What runs is a CPU: tasks and interrupts come and go on it. A timer cannot interrupt code that runs with interrupts
//! off. Its samples are taken where they are switched on again, and tell of that place only: such samples give no
//! address, and who stands there is listed as not seen.

use crate::code::{self, AHEAD_BYTES_MAX, FUNCTION_BYTES_MAX, Site};
use crate::kallsyms::{Named, Symbols};
use crate::registers::Registers;
use crate::session::{KERNEL_START, Session, Target};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};
use std::collections::BTreeMap;
use tussle_evidence::Loss;
use tussle_perf::Sample;

/// Number under which the kernel is a process: no process has it.
pub const KERNEL_PID: u32 = 0;

/// `THREAD_SIZE` of x86-64: kernel stacks have this size and alignment.
const STACK_BYTES: u64 = 16 << 10;

/// Replaced pieces of code looked at before an address: they are short and hardly overlap.
const REPLACED_NEAR: usize = 8;

/// Functions listed of what cannot be seen, or cannot be told; the rest is summed up.
const LISTED_MAX: usize = 20;

/// Where the bytes of the kernel's code come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Text {
    /// There are none.
    #[default]
    Missing,
    /// Of the file as it was linked. The running kernel has patched some of them: of an address only the instruction
    /// itself can be told, where it is not one of those.
    AsLinked,
    /// Of the running kernel.
    Running,
}

/// The kernel's file with debug information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it lies.
    pub path: String,
    /// Hex.
    pub build_id: Option<String>,
    /// First address at run time, and one past the last.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// Address at run time minus address in the file.
    pub bias: u64,
}

/// What is known of the kernel.
#[derive(Debug, Default)]
pub struct Known {
    /// Its symbols.
    pub symbols: Symbols,
    /// Where each CPU's own variables begin; empty when that is not known.
    pub per_cpu: Vec<u64>,
    /// Where bytes of code come from.
    pub text: Text,
    /// Code that the kernel replaces when it boots, first and one past the last, in order; for [`Text::AsLinked`].
    pub replaced: Vec<(u64, u64)>,
    /// With debug information.
    pub file: Option<File>,
    /// The running kernel's own description of its types (BTF), where there is no such file.
    pub types: Option<Vec<u8>>,
}

/// The kernel, and what was seen of it beside its lines.
#[derive(Debug, Default)]
pub struct Kernel {
    /// What is known of it.
    pub known: Known,
    /// What runs on the CPU of the sample that is looked at, and the stack that it uses.
    pub(crate) task: u32,
    stack: u64,
    /// Samples of CPUs that had nothing to do.
    pub idle: u64,
    /// On the running task's own stack.
    pub(crate) own_stack: u64,
    /// On memory of programs.
    of_programs: u64,
    /// By function that switches interrupts on, and its caller.
    unseen: BTreeMap<(String, String), u64>,
    /// By function.
    untold: BTreeMap<String, u64>,
}

impl Kernel {
    /// Nothing seen yet.
    pub fn new(known: Known) -> Kernel {
        Kernel { known, ..Kernel::default() }
    }

    /// Registers of a sample, with its CPU's `gs`.
    pub(crate) fn registers(&self, s: &Sample) -> Registers {
        let mut out = Registers::of_sample(s.regs_intr.each());
        out.gs_base = s.cpu.and_then(|cpu| self.known.per_cpu.get(cpu as usize)).copied();
        out
    }

    /// Whether an accessed address is one that CPUs may fight for.
    pub(crate) fn wants(&mut self, address: u64) -> bool {
        let own = address.wrapping_sub(self.stack) < STACK_BYTES;
        self.of_programs += u64::from(address < KERNEL_START);
        self.own_stack += u64::from(own);
        address >= KERNEL_START && !own
    }

    /// Decodes the code at an address.
    pub(crate) fn site(&self, ip: u64, target: &mut dyn Target) -> Site {
        match self.known.text {
            Text::Missing => Site::default(),
            Text::AsLinked => Site { at: self.as_linked(ip, target), ..Site::default() },
            Text::Running => self.running(ip, target),
        }
    }

    /// The instruction of the file, if the running kernel has the same one there.
    fn as_linked(&self, ip: u64, target: &mut dyn Target) -> Option<Instruction> {
        let f = self.known.symbols.function(ip).filter(|f| f.end - f.start <= FUNCTION_BYTES_MAX)?;
        let mut all = vec![0; (f.end - f.start) as usize];
        let n = target.memory(KERNEL_PID, f.start, &mut all);
        // In the middle of an instruction something else has been put over it.
        let mut code = Decoder::with_ip(64, &all[..n], f.start, DecoderOptions::NONE).into_iter();
        let i = code.find(|i| i.ip() >= ip).filter(|i| i.ip() == ip && is_never_patched(i))?;
        let over = |r: &(u64, u64)| r.0 < i.next_ip() && i.ip() < r.1;
        let before = self.known.replaced.partition_point(|r| r.0 < i.next_ip());
        let near = self.known.replaced[..before].iter().rev().take(REPLACED_NEAR);
        (!near.into_iter().any(over)).then_some(i)
    }

    fn running(&self, ip: u64, target: &mut dyn Target) -> Site {
        let mut bytes = [0; AHEAD_BYTES_MAX];
        let n = target.memory(KERNEL_PID, ip, &mut bytes);
        let (at, ahead) = (code::one(&bytes[..n], ip), code::ahead(&bytes[..n], ip));
        let Some(f) = self.known.symbols.function(ip).filter(|f| f.end - f.start <= FUNCTION_BYTES_MAX)
        else {
            return Site { at, ahead, ..Site::default() };
        };
        let mut all = vec![0; (f.end - f.start) as usize];
        let n = target.memory(KERNEL_PID, f.start, &mut all);
        all.truncate(n);
        Site {
            at,
            ahead,
            before: code::before(&all, f.start, ip),
            interrupts_were_off: code::interrupts_were_off(&all, f.start, ip),
        }
    }

    /// The variable that holds an address by the list of symbols, with the begin of the CPU's area if it is one's own.
    pub(crate) fn variable(&self, address: u64) -> Option<(Named<'_>, Option<u64>)> {
        let own = self.known.symbols.per_cpu();
        let area = own.as_ref().and_then(|r| {
            self.known.per_cpu.iter().copied().find(|base| r.contains(&address.wrapping_sub(*base)))
        });
        let v = self.known.symbols.variable(address.wrapping_sub(area.unwrap_or(0)))?;
        Some((v, area))
    }

    fn name(&self, ip: u64) -> String {
        self.known.symbols.function(ip).map_or_else(|| "code without a name".into(), |f| f.name.to_string())
    }

    /// Takes note of a sample that tells of no code that runs; `true` if it is one.
    fn is_blind(&mut self, s: &Sample, ip: u64, site: &Site) -> bool {
        let name = self.name(ip);
        if s.tid == Some(0) && is_idle(&name) {
            self.idle += 1;
            return true;
        }
        // Without the running bytes the names of those that do nothing else have to tell.
        let off = site.interrupts_were_off || (self.known.text != Text::Running && switches_on(&name));
        if off {
            let caller = s.callers().next().map_or_else(String::new, |c| self.name(c));
            *self.unseen.entry((name, caller)).or_default() += 1;
        }
        off
    }

    /// What was not seen, for the evidence; the most frequent first.
    pub fn losses(&self) -> Vec<Loss> {
        let unseen = self.unseen.iter().map(|((f, caller), n)| {
            let by = if caller.is_empty() { String::new() } else { format!(" ← {caller}") };
            (format!("cannot be seen: interrupts off up to {f}{by}"), *n)
        });
        let mut out = listed(
            unseen.collect(),
            "cannot be seen: interrupts off, other functions",
            "a timer does not reach it: neither contended nor clean",
        );
        let untold = self.untold.iter().map(|(f, n)| (format!("address cannot be told: code in {f}"), *n));
        out.extend(listed(
            untold.collect(),
            "address cannot be told: code in other functions",
            "the bytes of the running code cannot be read",
        ));
        out.extend(listed(
            vec![("samples of programs' memory".into(), self.of_programs)],
            "",
            "the kernel copies from and to programs: watch these with -p",
        ));
        out
    }
}

/// The first of them by count, the rest as one.
fn listed(mut all: Vec<(String, u64)>, others: &str, note: &str) -> Vec<Loss> {
    all.retain(|x| x.1 > 0);
    all.sort_by_key(|x| std::cmp::Reverse(x.1));
    let rest: u64 = all.iter().skip(LISTED_MAX).map(|x| x.1).sum();
    all.truncate(LISTED_MAX);
    if rest > 0 {
        all.push((others.into(), rest));
    }
    let loss = |(what, count)| Loss { process: None, what, count, note: note.into() };
    all.into_iter().map(loss).collect()
}

/// A kernel patches calls, jumps, returns and no-operations when it boots and as its switches are set.
fn is_never_patched(i: &Instruction) -> bool {
    i.code() != Code::INVALID && i.flow_control() == FlowControl::Next && i.mnemonic() != Mnemonic::Nop
}

/// What `.altinstructions`, these bytes at this address, says is replaced in code between two addresses. Its rows have
/// 12 bytes until Linux 6.2 and 14 since; `None` if neither makes sense.
pub fn replaced(table: &[u8], address: u64, code: std::ops::Range<u64>) -> Option<Vec<(u64, u64)>> {
    let of_size = |row: usize| -> Option<Vec<(u64, u64)>> {
        let one = |(n, r): (usize, &[u8])| {
            let from = i32::from_le_bytes(r.get(..4)?.try_into().ok()?);
            let start = address.wrapping_add((n * row) as u64).wrapping_add_signed(i64::from(from));
            let (length, new) = (r[row - 2], r[row - 1]);
            (code.contains(&start) && length > 0 && new <= length)
                .then_some((start, start + u64::from(length)))
        };
        let mut out = table.chunks(row).enumerate().map(one).collect::<Option<Vec<_>>>()?;
        out.sort_unstable();
        Some(out)
    };
    [12, 14].into_iter().filter(|row| !table.is_empty() && table.len().is_multiple_of(*row)).find_map(of_size)
}

fn is_idle(function: &str) -> bool {
    ["idle", "halt", "mwait"].iter().any(|w| function.contains(w))
}

fn switches_on(function: &str) -> bool {
    let known = ["finish_task_switch", "__do_softirq", "handle_softirqs", "__local_bh_enable_ip", "do_idle"];
    function.contains("unlock_irq") || known.iter().any(|k| function.starts_with(k))
}

impl Session {
    /// A sample of a CPU that ran the kernel's code.
    pub(crate) fn kernel_sample(&mut self, s: &Sample, target: &mut dyn Target) {
        let (Some(cpu), Some(ip), Some(kernel)) = (s.cpu, s.ip, &self.kernel) else { return };
        let registers = kernel.registers(s);
        if registers.ip != ip || ip < KERNEL_START {
            return;
        }
        self.counts.samples += 1;
        let thread = self.thread(KERNEL_PID, cpu, target);
        self.threads[thread as usize].samples += 1;
        let process = self.threads[thread as usize].process;
        let site = self.site(process, ip, target);
        let Some(kernel) = &mut self.kernel else { return };
        kernel.task = s.tid.unwrap_or(u32::MAX);
        kernel.stack = registers.get(Register::RSP).unwrap_or(0) / STACK_BYTES * STACK_BYTES;
        if kernel.is_blind(s, ip, &site) {
            return;
        }
        let Some(at) = &site.at else {
            self.counts.no_code += 1;
            let name = kernel.name(ip);
            *kernel.untold.entry(name).or_default() += 1;
            return;
        };
        self.sampled(thread, at, &site, &registers, target);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Rows: offset to the code, to the new code, two or four bytes, both lengths.
    fn rows(size: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for (n, (at, length)) in [(0x1010i64, 3u8), (0x1000, 5)].into_iter().enumerate() {
            out.extend(((at - 0x9000 - (n * size) as i64) as i32).to_le_bytes());
            out.resize(n * size + size - 2, 0xee);
            out.extend([length, length]);
        }
        out
    }

    #[test]
    fn tables_of_replaced_code_are_read_in_both_formats() {
        for size in [12, 14] {
            assert_eq!(
                replaced(&rows(size), 0x9000, 0x1000..0x2000),
                Some(vec![(0x1000, 0x1005), (0x1010, 0x1013)]),
                "{size}"
            );
        }
        assert_eq!(replaced(&rows(12), 0x9000, 0x1000..0x1008), None, "outside of the code");
        assert_eq!(replaced(&[], 0x9000, 0..1), None);
    }

    struct Memory(Vec<u8>);

    impl Target for Memory {
        fn maps(&mut self, _: u32) -> Option<String> {
            None
        }
        fn program(&mut self, _: u32) -> Option<crate::session::Program> {
            None
        }
        fn thread_name(&mut self, _: u32, _: u32) -> Option<String> {
            None
        }
        fn file(&mut self, _: u32, _: &crate::maps::Mapping) -> Option<tussle_debuginfo::Bytes> {
            None
        }
        fn memory(&mut self, _: u32, address: u64, buffer: &mut [u8]) -> usize {
            let from = &self.0[(address - START) as usize..];
            let n = from.len().min(buffer.len());
            buffer[..n].copy_from_slice(&from[..n]);
            n
        }
        fn jit_names(&mut self, _: u32) -> Option<String> {
            None
        }
        fn jit_dump(&mut self, _: u32, _: &str) -> Option<Vec<u8>> {
            None
        }
        fn now_ns(&mut self) -> u64 {
            0
        }
    }

    const START: u64 = 0xffff_ffff_8100_0000;

    /// `sti; nop; mov [rbx], rax; inc qword gs:[0x100]; mov [rsp], rax; ret`.
    fn code() -> Vec<u8> {
        let mut out = vec![0xfb, 0x90, 0x48, 0x89, 0x03];
        out.extend([0x65, 0x48, 0xff, 0x04, 0x25, 0, 1, 0, 0]);
        out.extend([0x48, 0x89, 0x04, 0x24, 0xc3]);
        out
    }

    fn session(text: Text) -> Session {
        let list = format!("{START:x} t work\n{:x} t next\n", START + code().len() as u64);
        let per_cpu = vec![0xffff_8880_0000_0000, 0xffff_8880_0010_0000];
        let symbols = Symbols::read(&list);
        Session::of_kernel(Kernel::new(Known { symbols, per_cpu, text, ..Known::default() }))
    }

    /// A sample as perf writes it.
    fn sample(session: &mut Session, cpu: u32, task: u32, at: u64) {
        sampled(session, &code(), cpu, task, at);
    }

    fn sampled(session: &mut Session, code: &[u8], cpu: u32, task: u32, at: u64) {
        const RBX: u64 = 0xffff_8881_0000_0040;
        let ip = START + at;
        let mut words = vec![ip, u64::from(task) << 32 | u64::from(task), 1, u64::from(cpu), 2];
        words.extend([0xffff_ffff_ffff_ff80, ip, 2]);
        // ax, bx, cx, dx, si, di, bp, sp, ip, flags, r8 to r15
        words.extend([0, RBX, 0, 0, 0, 0, 0, 0xffff_c900_0000_3f00, ip, 0]);
        words.extend([0; 8]);
        let mut bytes = 9u32.to_le_bytes().to_vec();
        bytes.extend([1, 0]);
        bytes.extend((8 + 8 * words.len() as u16).to_le_bytes());
        bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        let events = crate::decode::events(&bytes, &crate::decode::kernel_attr());
        assert_eq!(events.len(), 1);
        session.take(&events[0], &mut Memory(code.to_vec()));
    }

    fn lines(session: &Session) -> Vec<u64> {
        let mut out: Vec<u64> = session.lines.all().map(|l| l.0.address).collect();
        out.sort_unstable();
        out
    }

    #[test]
    fn each_cpu_has_variables_of_its_own_and_stacks_are_nobody_elses() {
        let mut s = session(Text::Running);
        // The store before is rebuilt from the same sample.
        sample(&mut s, 0, 7, 5);
        sample(&mut s, 1, 8, 5);
        assert_eq!(lines(&s), [0xffff_8880_0000_0100, 0xffff_8880_0010_0100, 0xffff_8881_0000_0040]);
        let shared: Vec<u64> = s.lines.ranked().map(|l| l.0.address).collect();
        assert_eq!(shared, [0xffff_8881_0000_0040]);
        sample(&mut s, 0, 7, 14);
        assert_eq!(s.kernel.as_ref().unwrap().own_stack, 1);
    }

    /// BTF of `struct pair { long left; struct pair *next; } counters`, of another variable of that name where `twice`,
    /// and of `work(struct pair *)`.
    pub(crate) fn types(twice: bool) -> Vec<u8> {
        let mut types: Vec<u32> = Vec::new();
        let strings = b"\0long\0pair\0left\0counters\0next\0work\0\0\0";
        types.extend([1, 1 << 24, 8, 1 << 24 | 64]);
        types.extend([6, 4 << 24 | 2, 16, 11, 1, 0, 25, 3, 64]);
        types.extend([0, 2 << 24, 2]);
        types.extend([0, 13 << 24 | 1, 1, 0, 3]);
        types.extend([30, 12 << 24, 4]);
        (0..1 + u32::from(twice)).for_each(|_| types.extend([16, 14 << 24, 2, 1]));
        let mut out = vec![0x9f, 0xeb, 1, 0];
        let size = 4 * types.len() as u32;
        out.extend([24, 0, size, size, strings.len() as u32].iter().flat_map(|w| w.to_le_bytes()));
        out.extend(types.iter().flat_map(|w| w.to_le_bytes()));
        out.extend(strings);
        out
    }

    #[test]
    fn variables_have_the_types_that_the_kernel_describes_itself() {
        let name = |btf: Option<Vec<u8>>, end: u64| {
            let mut s = session(Text::Running);
            let list = format!("{START:x} t work\n{:x} t next\n", START + code().len() as u64);
            let variables = format!("ffff888100000040 D counters\nffff8881000000{end:x} D other\n");
            let known = &mut s.kernel.as_mut().unwrap().known;
            (known.symbols, known.types) = (Symbols::read(&(list + &variables)), btf);
            sample(&mut s, 0, 7, 5);
            sample(&mut s, 1, 8, 5);
            let e = crate::convert::evidence(&mut s, &Default::default(), &mut Memory(code())).0;
            let o = e.objects.iter().find(|o| o.name.as_deref() == Some("counters")).unwrap();
            o.ty.map(|ty| (e.types.name(ty), o.size))
        };
        assert_eq!(name(Some(types(false)), 0x80), Some(("struct pair".into(), 16)));
        assert_eq!(name(None, 0x80), None);
        assert_eq!(name(Some(types(true)), 0x80), None, "two of one name");
        assert_eq!(name(Some(types(false)), 0x44), None, "larger than its place");
    }

    /// `mov rbx, rdi; mov [rbx+8], rax; ret`, called with a pointer to the struct, or with something unknown.
    #[test]
    fn what_a_parameter_points_to_has_its_type() {
        let code = [0x48, 0x89, 0xfb, 0x48, 0x89, 0x43, 0x08, 0xc3];
        let names = |function: &str| {
            let mut s = session(Text::Running);
            let list = format!("{START:x} t {function}\n{:x} t next\n", START + code.len() as u64);
            let known = &mut s.kernel.as_mut().unwrap().known;
            (known.symbols, known.types) = (Symbols::read(&list), Some(types(false)));
            sampled(&mut s, &code, 0, 7, 3);
            sampled(&mut s, &code, 1, 8, 3);
            let e = crate::convert::evidence(&mut s, &Default::default(), &mut Memory(code.to_vec())).0;
            let of = |object: u32| &e.objects[object as usize];
            let row = e.samples.as_ref().unwrap()[0].clone();
            assert!(e.accesses.iter().all(|a| (a.object, a.offset) == (row.object, row.offset)));
            (of(row.object).ty.map(|ty| e.types.name(ty)), of(row.object).base, row.offset)
        };
        assert_eq!(names("work"), (Some("struct pair".into()), 0xffff_8881_0000_0040, 8));
        assert_eq!(names("other"), (None, 0xffff_8881_0000_0000, 0x48));
    }

    #[test]
    fn where_interrupts_come_on_again_nothing_is_attributed() {
        let mut s = session(Text::Running);
        sample(&mut s, 0, 7, 2);
        assert!(lines(&s).is_empty());
        let losses = s.kernel.as_ref().unwrap().losses();
        assert_eq!(losses[0].what, "cannot be seen: interrupts off up to work");
    }

    #[test]
    fn without_the_running_bytes_only_what_is_never_patched_is_told() {
        let mut s = session(Text::AsLinked);
        s.kernel.as_mut().unwrap().known.replaced = vec![(START + 5, START + 14)];
        sample(&mut s, 0, 7, 2);
        sample(&mut s, 0, 7, 5);
        sample(&mut s, 0, 7, 6);
        assert_eq!((lines(&s), s.counts.no_code), (vec![0xffff_8881_0000_0040], 2));
        let mut s = session(Text::Missing);
        sample(&mut s, 0, 7, 2);
        assert!(lines(&s).is_empty());
    }
}
