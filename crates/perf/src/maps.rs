//! What is mapped where, by process and time.

use crate::record::{Comm, Fork, Ksymbol, Mmap};
use std::collections::HashMap;

/// Addresses from here on are the kernel's (x86-64, arm64, riscv64).
pub(crate) const KERNEL_START: u64 = 1 << 63;

/// Mappings looked at per address: memory that is mapped anew again and again overlaps itself.
const LOOK_BACK: usize = 64;

/// Generations of fork that are followed.
const PARENTS_MAX: usize = 8;

/// What is mapped where.
#[derive(Default)]
pub(crate) struct Maps {
    by_pid: HashMap<u32, Vec<Mmap>>,
    /// When a process began to run another program.
    execs: HashMap<u32, Vec<u64>>,
    parents: HashMap<u32, Fork>,
    ksymbols: Vec<Ksymbol>,
}

impl Maps {
    /// Process that stands for the kernel.
    pub(crate) const KERNEL: u32 = u32::MAX;
    /// Process that stands for everything in guests.
    pub(crate) const GUEST: u32 = u32::MAX - 1;

    pub(crate) fn add(&mut self, map: Mmap) {
        let pid = match (map.guest, map.kernel || map.start >= KERNEL_START) {
            (true, _) => Maps::GUEST,
            (_, true) => Maps::KERNEL,
            _ => map.pid,
        };
        self.by_pid.entry(pid).or_default().push(map);
    }

    pub(crate) fn exec(&mut self, comm: &Comm) {
        if comm.exec {
            self.execs.entry(comm.pid).or_default().push(comm.time_ns);
        }
    }

    pub(crate) fn fork(&mut self, fork: Fork) {
        if fork.pid != fork.parent {
            self.parents.entry(fork.pid).or_insert(fork);
        }
    }

    pub(crate) fn ksymbol(&mut self, symbol: Ksymbol) {
        if !symbol.gone {
            self.ksymbols.push(symbol);
        }
    }

    /// Call once all are known.
    pub(crate) fn sort(&mut self) {
        self.by_pid.values_mut().for_each(|list| list.sort_by_key(|m| (m.start, m.time_ns)));
        self.execs.values_mut().for_each(|list| list.sort_unstable());
        self.ksymbols.sort_by_key(|k| k.start);
    }

    /// All mappings of a process, by address.
    pub(crate) fn of(&self, pid: u32) -> &[Mmap] {
        self.by_pid.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// The mapping, of the process or of the parent that forked it, that held an address at a time.
    pub(crate) fn find(&self, pid: u32, address: u64, time_ns: u64) -> Option<&Mmap> {
        self.search(pid, address, time_ns, true)
    }

    /// perf's answer to whether something was mapped there: it keeps what a process had before it ran another program,
    /// and knows the kernel's own code.
    pub(crate) fn mapped_by_perf(&self, pid: u32, address: u64, time_ns: u64) -> bool {
        let made = pid != Maps::GUEST && self.made(address).is_some();
        made || self.search(pid, address, time_ns, false).is_some()
    }

    fn search(&self, pid: u32, address: u64, time_ns: u64, forgets: bool) -> Option<&Mmap> {
        if pid == Maps::GUEST {
            return None;
        }
        let (mut pid, mut until) = (if address >= KERNEL_START { Maps::KERNEL } else { pid }, time_ns);
        for _ in 0..PARENTS_MAX {
            let execs = self.execs.get(&pid).map_or(&[][..], Vec::as_slice);
            let since = execs[..execs.partition_point(|e| *e <= until)].last().copied().filter(|_| forgets);
            if let Some(m) = self.newest(pid, address, since.unwrap_or(0), until) {
                return Some(m);
            }
            let fork = self.parents.get(&pid).filter(|f| since.is_none() && f.time_ns <= until)?;
            (pid, until) = (fork.parent, fork.time_ns);
        }
        None
    }

    fn newest(&self, pid: u32, address: u64, since: u64, until: u64) -> Option<&Mmap> {
        let list = self.of(pid);
        let end = list.partition_point(|m| m.start <= address);
        let near = list[..end].iter().rev().take(LOOK_BACK);
        near.filter(|m| address - m.start < m.len && (since..=until.max(since)).contains(&m.time_ns))
            .max_by_key(|m| m.time_ns)
    }

    /// Code that the kernel made at run time.
    pub(crate) fn made(&self, address: u64) -> Option<&Ksymbol> {
        let end = self.ksymbols.partition_point(|k| k.start <= address);
        self.ksymbols[..end].iter().rev().take(LOOK_BACK).find(|k| address - k.start < k.len)
    }
}
