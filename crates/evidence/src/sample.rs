//! Hand-made evidences for tests of everything that reads one.

use crate::tables::*;
use tussle_model::TypeId;
use tussle_model::types::{Aggregate, AggregateKind, Base, Encoding, Member, SourceLoc, Type};

/// Builds an evidence row by row; ids are handed out in order.
#[derive(Clone, Debug)]
pub struct Sample {
    evidence: Evidence,
}

impl Sample {
    /// One process on an x86-64 machine with 64-byte lines; `window_vt` accesses per window.
    pub fn new(window_vt: u64) -> Sample {
        let run = Run {
            command: vec!["./server".into(), "--threads".into(), "2".into()],
            duration_s: Some(1.25),
            cpu_model: "Example CPU".into(),
            cpus: 2,
            ..Run::new(Source::Recorder, window_vt, Sees::ACCESSES)
        };
        let process =
            Process { pid: 100, parent: None, exe: "./server".into(), build_id: None, end: "exited".into() };
        let evidence = Evidence { processes: vec![process], ..Evidence::empty(run) };
        Sample { evidence }
    }

    /// `struct stats { long hits; long misses; }` in one line, each field incremented by one of two threads.
    pub fn two_counters() -> Sample {
        let mut s = Sample::new(1000);
        let main = s.thread("server", None);
        let start = s.code("worker", "server.c", 40, &[]);
        let one = s.worker(main, start);
        let two = s.worker(main, start);
        let long = s.long();
        let stats = s.structure("stats", 16, &[("hits", long, 0), ("misses", long, 8)]);
        let site = s.code("make_stats", "server.c", 12, &[]);
        let o = s.heap(0x1000, 16, Some(stats), 1, 16, Some(site));
        s.access(o, 0, 8, one, (0, 100_000), [0, 50_000, 0]);
        s.access(o, 8, 8, two, (0, 100_000), [0, 50_000, 0]);
        let hit = s.code("count_hit", "server.c", 21, &[start]);
        let miss = s.code("count_miss", "server.c", 25, &[start]);
        s.touch(o, 0, 8, hit, one, TouchKind::Write);
        s.touch(o, 8, 8, miss, two, TouchKind::Write);
        s
    }

    /// The finished evidence.
    pub fn evidence(self) -> Evidence {
        self.evidence
    }

    /// The evidence so far, for what the other methods cannot say.
    pub fn tables(&mut self) -> &mut Evidence {
        &mut self.evidence
    }

    /// A thread named `name`.
    pub fn thread(&mut self, name: &str, creator: Option<u32>) -> u32 {
        let number = 100 + self.evidence.actors.len() as u32;
        self.evidence.actors.push(Actor {
            process: Some(0),
            kind: ActorKind::Thread,
            number,
            name: Some(name.into()),
            creator,
            start: None,
            vt0: 0,
            vt1: 0,
        });
        number - 100
    }

    /// A thread that `creator` started with routine `start`.
    pub fn worker(&mut self, creator: u32, start: u32) -> u32 {
        let id = self.thread("server", Some(creator));
        self.evidence.actors[id as usize].start = Some(start);
        id
    }

    /// `long`.
    pub fn long(&mut self) -> TypeId {
        let base = Base { name: "long".into(), size: 8, encoding: Encoding::Signed };
        self.evidence.types.push(Type::Base(base))
    }

    /// A struct of `size` bytes with members `(name, type, offset in bytes)`.
    pub fn structure(&mut self, name: &str, size: u64, members: &[(&str, TypeId, u64)]) -> TypeId {
        let members = members.iter().zip(2u32..).map(|(&(name, ty, offset), decl_line)| Member {
            decl_line,
            ..Member::field(Some(name), ty, offset)
        });
        let aggregate = Aggregate {
            decl: Some(SourceLoc { file: "server.h".into(), line: 1 }),
            ..Aggregate::new(AggregateKind::Struct, Some(name), size, members.collect())
        };
        self.evidence.types.push(Type::Aggregate(aggregate))
    }

    /// Another name of a type.
    pub fn typedef(&mut self, name: &str, to: TypeId) -> TypeId {
        self.evidence.types.push(Type::Typedef { name: name.into(), to })
    }

    /// A heap object of `count` elements of `ty`, from `malloc` at `site`.
    pub fn heap(
        &mut self,
        base: u64,
        size: u64,
        ty: Option<TypeId>,
        count: u64,
        align: u64,
        site: Option<u32>,
    ) -> u32 {
        self.evidence.objects.push(Object {
            process: 0,
            kind: ObjectKind::Heap,
            base,
            size,
            name: None,
            ty,
            count,
            confidence: if ty.is_some() { 0.9 } else { 0.0 },
            basis: ty.map(|_| Basis::Sizeof),
            why: if ty.is_some() { "sizeof at the allocation".into() } else { String::new() },
            align,
            allocator: Some("malloc".into()),
            alloc_code: site,
            alloc_actor: Some(0),
            vt0: 0,
            vt1: None,
            live_max: 1,
            region: None,
        });
        self.evidence.objects.len() as u32 - 1
    }

    /// A global variable.
    pub fn global(&mut self, name: &str, base: u64, size: u64, ty: Option<TypeId>, align: u64) -> u32 {
        let id = self.heap(base, size, ty, 1, align, None);
        let o = &mut self.evidence.objects[id as usize];
        o.kind = ObjectKind::Global;
        o.name = Some(name.into());
        o.allocator = None;
        o.alloc_actor = None;
        o.confidence = 1.0;
        o.basis = Some(Basis::Variable);
        o.why = "variable's type".into();
        id
    }

    /// A code address in `function` at `file:line`, called from `chain`.
    pub fn code(&mut self, function: &str, file: &str, line: u32, chain: &[u32]) -> u32 {
        let frame = Frame { function: function.into(), file: file.into(), line, column: 1 };
        let address = 0x40_0000 + 16 * self.evidence.code.len() as u64;
        self.evidence.code.push(Code {
            process: 0,
            module: None,
            address,
            frames: vec![frame],
            chain: chain.to_vec(),
        });
        self.evidence.code.len() as u32 - 1
    }

    /// Accesses of `actor` to `size` bytes at `offset` during `vt`: `[reads, writes, rmws]`.
    pub fn access(
        &mut self,
        object: u32,
        offset: u64,
        size: u32,
        actor: u32,
        vt: (u64, u64),
        counts: [u64; 3],
    ) {
        let [reads, writes, rmws] = counts;
        let row =
            Access { object, offset, size, actor, vt0: vt.0, vt1: vt.1, reads, writes, rmws, held: None };
        self.evidence.accesses.push(row);
        if let Some(a) = self.evidence.actors.get_mut(actor as usize) {
            a.vt1 = a.vt1.max(vt.1);
        }
    }

    /// `code` touched `size` bytes at `offset`.
    pub fn touch(&mut self, object: u32, offset: u64, size: u32, code: u32, actor: u32, kind: TouchKind) {
        let row = Touch {
            object,
            offset,
            size,
            code,
            actor: Some(actor),
            kind,
            samples: 1,
            field: None,
            role: None,
        };
        self.evidence.touches.push(row);
    }
}
