//! Programs drawn from a seed, of a shape that the loop's own do not have: other locks, types, places, work and times,
//! and two threads that are not each other's mirror. A seed that nobody has run is a set that nobody has seen.

use super::cases::{Case, folder};
use std::fmt::Write;
use std::path::Path;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Between both, their ratio evenly.
    fn log(&mut self, low: f64, high: f64) -> u32 {
        let share = self.next() as f64 / u64::MAX as f64;
        (low * (high / low).powf(share)).round() as u32
    }
}

/// What keeps the threads of one part out of each other's way.
#[derive(Clone, Copy, PartialEq)]
enum Guard {
    Mutex,
    Adaptive,
    Recursive,
    C11,
    Spin,
    Read,
    Write,
    Atomic,
    Plain,
}

const GUARDS: [Guard; 9] = [
    Guard::Mutex,
    Guard::Adaptive,
    Guard::Recursive,
    Guard::C11,
    Guard::Spin,
    Guard::Read,
    Guard::Write,
    Guard::Atomic,
    Guard::Plain,
];

impl Guard {
    fn name(self) -> &'static str {
        match self {
            Guard::Mutex => "mutex",
            Guard::Adaptive => "adaptive",
            Guard::Recursive => "recursive",
            Guard::C11 => "c11",
            Guard::Spin => "spin",
            Guard::Read => "read",
            Guard::Write => "write",
            Guard::Atomic => "atomic",
            Guard::Plain => "plain",
        }
    }

    /// Type of the lock; none without one.
    fn ty(self) -> Option<&'static str> {
        match self {
            Guard::Mutex | Guard::Adaptive | Guard::Recursive => Some("pthread_mutex_t"),
            Guard::C11 => Some("mtx_t"),
            Guard::Spin => Some("pthread_spinlock_t"),
            Guard::Read | Guard::Write => Some("pthread_rwlock_t"),
            Guard::Atomic | Guard::Plain => None,
        }
    }

    /// What makes, takes and gives up the lock `l`.
    fn verbs(self, l: &str) -> [String; 3] {
        let mutex = |kind: &str| {
            let text = format!(
                "pthread_mutexattr_t a; pthread_mutexattr_init(&a); \
                 pthread_mutexattr_settype(&a, PTHREAD_MUTEX_{kind}); pthread_mutex_init(&s->{l}, &a);"
            );
            [
                format!("{{ {text} }}"),
                format!("pthread_mutex_lock(&s->{l});"),
                format!("pthread_mutex_unlock(&s->{l});"),
            ]
        };
        let rwlock = |verb: &str| {
            let [make, free] = ["init", "unlock"].map(|v| format!("pthread_rwlock_{v}(&s->{l}"));
            [format!("{make}, 0);"), format!("pthread_rwlock_{verb}(&s->{l});"), format!("{free});")]
        };
        match self {
            Guard::Mutex => mutex("NORMAL"),
            Guard::Adaptive => mutex("ADAPTIVE_NP"),
            Guard::Recursive => mutex("RECURSIVE"),
            Guard::C11 => [
                format!("mtx_init(&s->{l}, mtx_plain);"),
                format!("mtx_lock(&s->{l});"),
                format!("mtx_unlock(&s->{l});"),
            ],
            Guard::Spin => [
                format!("pthread_spin_init(&s->{l}, 0);"),
                format!("pthread_spin_lock(&s->{l});"),
                format!("pthread_spin_unlock(&s->{l});"),
            ],
            Guard::Read => rwlock("rdlock"),
            Guard::Write => rwlock("wrlock"),
            Guard::Atomic | Guard::Plain => [(); 3].map(|()| String::new()),
        }
    }
}

/// What one thread has and does.
struct Part {
    guard: Guard,
    /// Where its lock is: beside its fields, or on a line of its own in front.
    beside: bool,
    /// Types of its fields.
    fields: Vec<&'static str>,
    think_ns: u32,
}

/// A drawn program.
struct Program {
    parts: [Part; 2],
    /// Both threads take the lock of the first and use the fields of both.
    one_lock: bool,
    filler: usize,
    heap: bool,
    work: &'static str,
    section_ns: u32,
}

const WORK: [&str; 5] = ["DIVIDE", "MULTIPLY", "CHASE", "GATHER", "WANDER"];
const TYPES: [&str; 4] = ["unsigned char", "unsigned short", "unsigned", "unsigned long"];

fn part(d: &mut Draw, think_ns: u32) -> Part {
    let fields = (0..=d.below(3)).map(|_| d.one(&TYPES)).collect();
    Part { guard: d.one(&GUARDS), beside: d.below(2) == 0, fields, think_ns }
}

fn draw(d: &mut Draw) -> Program {
    // Long ones, where there is nothing to gain, are a sixth.
    let think = if d.below(6) > 0 { d.log(5.0, 250.0) } else { d.log(250.0, 2_000.0) };
    let other = think * d.one(&[2, 2, 2, 3, 5]) / 2;
    let mut parts = [part(d, think), part(d, other)];
    let one_lock = parts[0].guard.ty().is_some() && parts[0].guard != Guard::Read && d.below(7) == 0;
    if !one_lock && d.below(2) == 0 {
        parts[1].guard = parts[0].guard;
    }
    // Two that only read have nothing to fight about.
    if parts.iter().all(|p| p.guard == Guard::Read) {
        parts[1].guard = Guard::Write;
    }
    let section_ns = if d.below(4) < 3 { 0 } else { d.log(20.0, 1_000.0) };
    Program {
        parts,
        one_lock,
        filler: d.one(&[0, 0, 0, 4, 8, 12]),
        heap: d.below(2) == 0,
        work: d.one(&WORK),
        section_ns,
    }
}

impl Program {
    fn lock_of(&self, i: usize) -> (Guard, &'static str) {
        if self.one_lock || i == 0 {
            (self.parts[0].guard, "lock_a")
        } else {
            (self.parts[1].guard, "lock_b")
        }
    }

    fn members(&self, i: usize) -> String {
        let (part, letter) = (&self.parts[i], ["a", "b"][i]);
        let mut out = String::new();
        let lock = part.guard.ty().filter(|_| i == 0 || !self.one_lock);
        let fields = part.fields.iter().enumerate();
        let atomic = if part.guard == Guard::Atomic { "_Atomic " } else { "volatile " };
        let fields: Vec<String> = fields.map(|(n, t)| format!("{atomic}{t} {letter}{n};")).collect();
        let lock = lock.filter(|_| part.beside).map(|t| format!("{t} lock_{letter};"));
        for (n, member) in lock.into_iter().chain(fields).enumerate() {
            let _ = writeln!(out, "    {}{member}", if i == 1 && n == 0 { "APART " } else { "" });
        }
        out
    }

    /// Locks that lie on lines of their own.
    fn far(&self) -> String {
        let all = self.parts.iter().zip(["a", "b"]).take(if self.one_lock { 1 } else { 2 });
        let far = all.filter(|(p, _)| !p.beside).filter_map(|(p, l)| Some((p.guard.ty()?, l)));
        far.map(|(t, l)| format!("    _Alignas(64) {t} lock_{l};\n")).collect()
    }

    fn accesses(&self, i: usize) -> String {
        let used = if self.one_lock { 0..2 } else { i..i + 1 };
        let mut out = String::new();
        for part in used {
            let reads = self.lock_of(i).0 == Guard::Read;
            for n in 0..self.parts[part].fields.len() {
                let field = format!("s->{}{n}", ["a", "b"][part]);
                let access = if reads { format!("o.x += {field};") } else { format!("{field} += 1;") };
                let _ = writeln!(out, "        {access}");
            }
        }
        out
    }

    fn thread(&self, i: usize) -> String {
        let (guard, name) = self.lock_of(i);
        let [_, take, give] = guard.verbs(name);
        let (work, think, section) = (self.work, self.parts[i].think_ns, self.section_ns);
        let section = if section > 0 { format!("        {work}({section});\n") } else { String::new() };
        format!(
            "static void *{}(void *arg) {{\n    struct shared *s = arg;\n    struct own o;\n    begin(&o);\n    \
             for (long i = operations[{i}]; i; i--) {{\n        {work}({think});\n        {take}\n{}{section}        \
             {give}\n    }}\n    return (void *)(uintptr_t)(o.x + (uint64_t)o.y);\n}}\n",
            ["first", "second"][i],
            self.accesses(i)
        )
    }

    /// The program in C.
    fn text(&self) -> String {
        let make: String =
            [0, 1].map(|i| self.lock_of(i)).iter().map(|(g, l)| g.verbs(l)[0].clone() + "\n    ").collect();
        let filler =
            if self.filler > 0 { format!("    char filler[{}];\n", self.filler) } else { String::new() };
        let object = if self.heap {
            "struct shared *s = aligned_alloc(128, (sizeof *s + 127) / 128 * 128);\n    *s = (struct shared){0};"
        } else {
            "static _Alignas(128) struct shared object;\n    struct shared *s = &object;"
        };
        format!(
            "#include \"common.h\"\nstruct shared {{\n{}    _Alignas(64) char begin;\n{filler}{}{}}};\n{}{}\
             int main(int argc, char **argv) {{\n    {object}\n    {make}two(first, second, s, argc, argv);\n}}\n",
            self.far(),
            self.members(0),
            self.members(1),
            self.thread(0),
            self.thread(1)
        )
    }

    fn name(&self, number: usize) -> String {
        let guards = match (self.one_lock, &self.parts) {
            (true, [a, _]) => format!("one {}", a.guard.name()),
            (false, [a, b]) => format!("{} {}", a.guard.name(), b.guard.name()),
        };
        let [a, b] = &self.parts;
        format!(
            "{number} {guards} think {} {} section {} {}",
            a.think_ns,
            b.think_ns,
            self.section_ns,
            self.work.to_lowercase()
        )
    }

    /// Operations of both threads: about 0.3 s of each.
    fn operations(&self) -> String {
        let one = |p: &Part| 300_000_000 / u64::from(p.think_ns + self.section_ns + 60);
        format!("{} {}", one(&self.parts[0]), one(&self.parts[1]))
    }
}

/// So many cases of a seed, written to `to`.
pub fn draw_all(seed: u64, count: usize, to: &Path) -> std::io::Result<Vec<Case>> {
    std::fs::copy(folder().join("unseen/common.h"), to.join("common.h"))?;
    let mut d = Draw(seed);
    let mut out = Vec::with_capacity(count);
    for number in 1..=count {
        let program = draw(&mut d);
        let source = to.join(format!("unseen{number}.c"));
        std::fs::write(&source, program.text())?;
        out.push(Case {
            source,
            name: program.name(number),
            operations: program.operations(),
            defines: Vec::new(),
        });
    }
    Ok(out)
}
