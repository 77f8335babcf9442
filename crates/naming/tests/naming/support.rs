//! Compiles small programs and builds raw evidence about them by hand, as a recorder would write it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tussle_debuginfo::symbols::Symbols;
use tussle_debuginfo::{Bytes, CompanionRequest};
use tussle_evidence::*;
use tussle_naming::{Images, Unnamed};

/// Where the "kernel" put the program.
pub const BIAS: u64 = 0x5555_5555_4000;

/// A compiled program and the evidence about one run of it.
pub struct Program {
    dir: tempfile::TempDir,
    pub source: String,
    file: String,
    symbols: Symbols,
    pub evidence: Evidence,
    pub images: Disk,
}

/// Reads files, unless a test hides them.
#[derive(Default)]
pub struct Disk {
    pub hide_sources: bool,
    pub hide_modules: bool,
    pub instead: Option<String>,
}

impl Images for Disk {
    fn module(&mut self, path: &str, _: Option<&str>) -> Result<Bytes, String> {
        match self.hide_modules {
            true => Err("cannot be read (hidden)".into()),
            false => std::fs::read(path).map(|b| Arc::new(b) as Bytes).map_err(|e| e.to_string()),
        }
    }

    fn companion(&mut self, _: &str, _: &CompanionRequest) -> Option<Bytes> {
        None
    }

    fn source(&mut self, path: &str) -> Option<Arc<str>> {
        match (&self.instead, self.hide_sources) {
            (_, true) => None,
            (Some(text), _) => Some(text.as_str().into()),
            _ => std::fs::read_to_string(path).ok().map(Into::into),
        }
    }
}

/// `None` (and a note) when the compiler cannot link a program with these flags.
#[track_caller]
pub fn compile(compiler: &str, flags: &[&str], source: &str) -> Option<Program> {
    if !tussle_testkit::need(&[&[compiler, "-pthread"], flags].concat().join(" ")) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let cpp = compiler.ends_with("++");
    let file = dir.path().join(if cpp { "prog.cc" } else { "prog.c" });
    std::fs::write(&file, source).unwrap();
    let exe = dir.path().join("prog");
    let out =
        Command::new(compiler).args(["-g", "-pthread"]).args(flags).arg(&file).arg("-o").arg(&exe).output();
    let out = out.unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(Program::new(dir, file, exe, source))
}

impl Program {
    fn new(dir: tempfile::TempDir, file: PathBuf, exe: PathBuf, source: &str) -> Program {
        let (symbols, _) = Symbols::read(&std::fs::read(&exe).unwrap(), None).unwrap();
        let mut evidence = empty();
        let end = symbols.segments.iter().map(|s| s.svma + s.size).max().unwrap();
        let path = exe.to_string_lossy().into_owned();
        evidence.processes.push(Process {
            pid: 1,
            parent: None,
            exe: path.clone(),
            build_id: symbols.build_id.clone(),
            end: "exited".into(),
        });
        evidence.modules.push(Module {
            process: 0,
            path,
            build_id: symbols.build_id.clone(),
            start: BIAS,
            end: BIAS + end,
            bias: BIAS,
        });
        Program {
            dir,
            source: source.into(),
            file: file.to_string_lossy().into_owned(),
            symbols,
            evidence,
            images: Disk::default(),
        }
    }

    pub fn exe(&self) -> PathBuf {
        self.dir.path().join("prog")
    }

    /// There is a variable of this name.
    pub fn has_variable(&self, name: &str) -> bool {
        self.symbols.static_variables().iter().any(|v| v.name == name)
    }

    /// Run-time address of a variable.
    pub fn variable(&self, name: &str) -> u64 {
        let v = self.symbols.static_variables().iter().find(|v| v.name == name);
        v.unwrap_or_else(|| panic!("no variable {name}")).svma + BIAS
    }

    /// A code row whose innermost frame is on the line that contains `line`, at the column where `token` (a part of
    /// it) begins.
    pub fn code(&mut self, line: &str, token: &str, chain: &[u32]) -> u32 {
        let number = self.source.lines().position(|l| l.contains(line));
        let number = number.unwrap_or_else(|| panic!("no line with {line}")) as u32 + 1;
        let text = self.source.lines().nth(number as usize - 1).unwrap();
        let start = text.find(line).unwrap();
        let column = (start + line.find(token).unwrap()) as u32 + 1;
        let code: Vec<u64> = self
            .symbols
            .segments
            .iter()
            .filter(|s| !s.writable)
            .flat_map(|s| s.svma..s.svma + s.size)
            .collect();
        let mut seen = Vec::new();
        for svma in code {
            let frames = self.symbols.frames(svma);
            let Some(f) = frames.first() else { continue };
            if f.line == number && f.file == self.file {
                if f.column == column {
                    return self.row(svma + BIAS, chain);
                }
                seen.push(f.column);
            }
        }
        seen.dedup();
        panic!("{line}: no code at {number}:{column}, but at columns {seen:?}");
    }

    /// A code row.
    pub fn row(&mut self, address: u64, chain: &[u32]) -> u32 {
        self.evidence.code.push(Code {
            process: 0,
            module: Some(0),
            address,
            frames: vec![],
            chain: chain.to_vec(),
        });
        self.evidence.code.len() as u32 - 1
    }

    /// A raw object.
    pub fn object(&mut self, kind: ObjectKind, base: u64, size: u64, alloc: Option<u32>) -> u32 {
        self.evidence.objects.push(Object {
            align: 16,
            allocator: alloc.map(|_| "malloc".into()),
            alloc_code: alloc,
            ..Object::unnamed(0, kind, base, size)
        });
        self.evidence.objects.len() as u32 - 1
    }

    /// An access and the touch that goes with it.
    pub fn touch(&mut self, object: u32, offset: u64, size: u32, code: u32, kind: TouchKind) {
        let (reads, writes) = if kind == TouchKind::Read { (1, 0) } else { (0, 1) };
        self.evidence.accesses.push(Access {
            object,
            offset,
            size,
            actor: 0,
            vt0: 0,
            vt1: 1,
            reads,
            writes,
            rmws: 0,
            held: None,
        });
        self.evidence.touches.push(Touch {
            object,
            offset,
            size,
            code,
            actor: None,
            kind,
            samples: 1,
            field: None,
            role: None,
        });
    }

    /// Names everything; returns the problems.
    pub fn name(&mut self) -> Vec<Unnamed> {
        tussle_naming::name(&mut self.evidence, &mut self.images)
    }

    /// The names of all touches in order, for a snapshot.
    pub fn touched(&self) -> Vec<String> {
        let namer = tussle_contention::fields::Namer::new(&self.evidence);
        self.evidence.touches.iter().map(|t| namer.name(t.object, t.offset, u64::from(t.size)).path).collect()
    }
}

/// An evidence without rows.
pub fn empty() -> Evidence {
    Evidence::empty(Run::new(Source::Recorder, 1, Sees::ACCESSES))
}

/// Removes debug information or symbols.
pub fn strip(path: &Path, flag: &str) -> bool {
    Command::new("strip").arg(flag).arg(path).status().is_ok_and(|s| s.success())
}
