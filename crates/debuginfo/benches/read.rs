//! Reading types: all of them and one, from BTF and from DWARF.
//!
//! Uses the running kernel's BTF and, when `TUSSLE_VMLINUX` names one, a kernel with DWARF; otherwise an executable of
//! many units that is compiled here.

use std::path::{Path, PathBuf};
use std::process::Command;

use criterion::{Criterion, criterion_group, criterion_main};
use tussle_debuginfo::dwarf::Want;
use tussle_debuginfo::{NoCompanions, open};

/// Units of the executable, each with the same and with its own structs.
const UNITS: usize = 60;

fn bench_file(c: &mut Criterion, name: &str, bytes: &[u8], one: &str) {
    let names = [one.to_string()];
    let mut group = c.benchmark_group(name);
    group.sample_size(10);
    group.bench_function("all", |b| b.iter(|| open(bytes, &Want::All, &mut NoCompanions).expect("readable")));
    group.bench_function("one", |b| {
        b.iter(|| open(bytes, &Want::Names(&names), &mut NoCompanions).expect("readable"))
    });
    group.finish();
}

fn btf(c: &mut Criterion) {
    match std::fs::read("/sys/kernel/btf/vmlinux") {
        Ok(bytes) => bench_file(c, "btf", &bytes, "mm_struct"),
        Err(e) => eprintln!("skipped: /sys/kernel/btf/vmlinux: {e}"),
    }
}

fn dwarf(c: &mut Criterion) {
    if let Some(path) = std::env::var_os("TUSSLE_VMLINUX") {
        let bytes = std::fs::read(path).expect("the kernel named by TUSSLE_VMLINUX");
        return bench_file(c, "vmlinux", &bytes, "mm_struct");
    }
    let dir = std::env::temp_dir().join(format!("tussle-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary folder");
    match compile(&dir) {
        Some(path) => bench_file(c, "dwarf", &std::fs::read(path).expect("compiled"), "own_59"),
        None => eprintln!("skipped: gcc"),
    }
    let _ = std::fs::remove_dir_all(&dir);
}

fn compile(dir: &Path) -> Option<PathBuf> {
    let mut command = Command::new("gcc");
    command.args(["-g", "-c"]).current_dir(dir);
    let shared: String = (0..200)
        .map(|i| format!("struct shared_{i} {{ int a, b; long c[{i} + 1]; struct shared_{i} *next; }};\n"))
        .collect();
    std::fs::write(dir.join("shared.h"), shared).ok()?;
    for unit in 0..UNITS {
        let uses: String = (0..200).map(|i| format!("struct shared_{i} v{unit}_{i};\n")).collect();
        let text =
            format!("#include \"shared.h\"\nstruct own_{unit} {{ char c[{unit} + 1]; }} o{unit};\n{uses}");
        std::fs::write(dir.join(format!("u{unit}.c")), text).ok()?;
        command.arg(format!("u{unit}.c"));
    }
    let compiled = command.status().ok()?.success();
    let objects = (0..UNITS).map(|u| format!("u{u}.o"));
    let linked =
        Command::new("ld").args(["-shared", "-o", "all.so"]).args(objects).current_dir(dir).status().ok()?;
    (compiled && linked.success()).then(|| dir.join("all.so"))
}

criterion_group!(benches, btf, dwarf);
criterion_main!(benches);
