//! Five gigabytes of debug information (64-bit DWARF, 5,120 units): bounded memory, and a first struct in seconds.
//!
//! `TUSSLE_SLOW=huge` runs it. The file is sparse, in a temporary folder, and removed afterwards.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tussle_testkit::slow;

const UNIT_BYTES: u64 = 1 << 20;
const UNITS: u64 = 5120;
const MEMORY_MAX: u64 = 1536 << 20;
const FIRST_MAX: Duration = Duration::from_secs(10);

/// Compile unit; struct with name and size; member with name, type and place; base type. All names inline.
const ABBREV: &[u8] = &[
    1, 0x11, 1, 0x03, 0x08, 0, 0, // compile unit, name
    2, 0x13, 1, 0x03, 0x08, 0x0b, 0x06, 0, 0, // structure, name, byte_size
    3, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x06, 0, 0, // member, name, type, data_member_location
    4, 0x24, 0, 0x03, 0x08, 0x0b, 0x0b, 0x3e, 0x0b, 0, 0, // base type, name, byte_size, encoding
    0,
];

/// One unit with `struct s_N { int f0, .. f7; }`, or with many of them (`s_N_0`, ..); the rest of it are null entries.
fn unit(n: u64, full: bool) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(u32::MAX.to_le_bytes());
    out.extend((UNIT_BYTES - 12).to_le_bytes());
    out.extend(5u16.to_le_bytes());
    out.extend([1, 8]);
    out.extend(0u64.to_le_bytes());
    out.extend(format!("\u{1}unit{n}.c\0").bytes());
    let int = out.len() as u32;
    out.extend(b"\x04int\0\x04\x05");
    structure(&mut out, &format!("s_{n}"), int);
    for k in (0..if full { 8000 } else { 0 }).map(|k| format!("s_{n}_{k}")) {
        structure(&mut out, &k, int);
    }
    out.push(0);
    out
}

fn structure(out: &mut Vec<u8>, name: &str, int: u32) {
    out.extend(format!("\u{2}{name}\0").bytes());
    out.extend(32u32.to_le_bytes());
    for f in 0..8u32 {
        out.extend(format!("\u{3}f{f}\0").bytes());
        out.extend(int.to_le_bytes());
        out.extend((4 * f).to_le_bytes());
    }
    out.push(0);
}

fn section(name: u32, kind: u32, offset: u64, size: u64) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(name.to_le_bytes());
    out.extend(kind.to_le_bytes());
    [0, 0, offset, size, 0, 1, 0].iter().for_each(|n: &u64| out.extend(n.to_le_bytes()));
    // link and info stand between size and alignment
    out.truncate(40);
    out.extend([0; 8]);
    [1u64, 0].iter().for_each(|n| out.extend(n.to_le_bytes()));
    out
}

fn generate(path: &Path, units: u64, full: bool) {
    let names = b"\0.debug_info\0.debug_abbrev\0.shstrtab\0";
    let info = 4096u64;
    let abbrev = info + units * UNIT_BYTES;
    let strings = abbrev + ABBREV.len() as u64;
    let headers = (strings + names.len() as u64).next_multiple_of(8);
    let mut file = File::create(path).unwrap();
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    elf.extend(2u16.to_le_bytes());
    elf.extend(62u16.to_le_bytes());
    elf.extend(1u32.to_le_bytes());
    [0u64, 0, headers].iter().for_each(|n| elf.extend(n.to_le_bytes()));
    elf.extend(0u32.to_le_bytes());
    [64u16, 0, 0, 64, 4, 3].iter().for_each(|n| elf.extend(n.to_le_bytes()));
    file.write_all(&elf).unwrap();
    for n in 0..units {
        file.seek(SeekFrom::Start(info + n * UNIT_BYTES)).unwrap();
        file.write_all(&unit(n, full)).unwrap();
    }
    file.seek(SeekFrom::Start(abbrev)).unwrap();
    file.write_all(ABBREV).unwrap();
    file.write_all(names).unwrap();
    file.seek(SeekFrom::Start(headers)).unwrap();
    let parts = [(0, 0, 0, 0), (1, 1, info, abbrev - info), (13, 1, abbrev, ABBREV.len() as u64)];
    parts.iter().for_each(|p| file.write_all(&section(p.0, p.1, p.2, p.3)).unwrap());
    file.write_all(&section(27, 3, strings, names.len() as u64)).unwrap();
}

/// Output, wall time and peak memory (bytes, with mapped pages) of one run.
fn run(args: &[&str]) -> (String, Duration, u64) {
    let begin = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tussle"));
    let limit = libc::rlimit { rlim_cur: MEMORY_MAX, rlim_max: MEMORY_MAX };
    // SAFETY: setrlimit only reads the limit and may be called between fork and exec. Private memory beyond it fails.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_DATA, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let child = command.args(args).stdout(Stdio::piped()).process_group(0).spawn().unwrap();
    let pid = child.id() as libc::pid_t;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.unwrap(), &mut text).unwrap();
    // SAFETY: both are plain numbers that the call fills; the child is ours and not waited for elsewhere.
    let usage = unsafe {
        let (mut status, mut usage) = (0, std::mem::zeroed::<libc::rusage>());
        assert_eq!(libc::wait4(pid, &mut status, 0, &mut usage), pid);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{args:?}: {text}");
        usage
    };
    (text, begin.elapsed(), usage.ru_maxrss as u64 * 1024)
}

#[test]
fn five_gigabytes_are_bounded() {
    if !slow("huge") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("huge");
    generate(&path, UNITS, false);
    let file = path.to_str().unwrap();
    let last = format!("s_{}", UNITS - 1);
    for (what, args) in [
        ("first struct", vec!["layout", file, "-C", "s_0"]),
        ("last struct", vec!["layout", file, "-C", &last]),
        ("all types", vec!["layout", file]),
    ] {
        let (text, time, memory) = run(&args);
        println!("{what}: {:.2} s, {} MiB", time.as_secs_f64(), memory >> 20);
        assert!(text.contains("f7"), "{text}");
        assert!(memory <= MEMORY_MAX, "{what}: {memory} bytes");
        assert!(what != "first struct" || time <= FIRST_MAX, "{time:?}");
        assert!(what != "all types" || text.matches("struct s_").count() as u64 == UNITS);
    }
}

/// Half a million different structs and 4.6 million fields: a listing ends where it is told, names are found beyond.
#[test]
fn millions_of_different_structs_are_bounded() {
    if !slow("huge") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("many");
    generate(&path, 64, true);
    let file = path.to_str().unwrap();
    let (text, time, memory) = run(&["layout", file, "-s"]);
    println!("half a million: {} s, {} MiB, {} listed", time.as_secs(), memory >> 20, text.lines().count());
    assert!(memory <= 1 << 30 && text.lines().count() < 64 * 8000, "{memory}");
    let (text, _, _) = run(&["layout", file, "-C", "s_63_7999"]);
    assert!(text.contains("f7"), "{text}");
}
