//! What a run was: options, compiler and input, so that two recordings can be told apart or put side by side.

use super::RecordOptions;
use object::{Object, ObjectSection};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

/// Of longer files the first so many bytes count, and their length.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Compilers named; a program of many libraries may have dozens.
const COMPILERS_MAX: usize = 4;

/// Options that change what is recorded, as on the command line.
pub(super) fn flags(o: &RecordOptions) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let switches = [
        (o.preload, "--preload"),
        (o.children, "--children"),
        (o.emulate, "--emulate"),
        (o.keep_all, "--all-lines"),
    ];
    out.extend(switches.iter().filter(|s| s.0).map(|s| s.1.to_string()));
    if o.mem_max_bytes != tussle_rt::MEM_MAX_DEFAULT {
        out.push(format!("--mem-max={}", o.mem_max_bytes));
    }
    out.extend(o.duration.map(|d| format!("--duration={}s", d.as_secs_f64())));
    out.extend(o.counting.flags());
    out
}

/// What compiled the executable, as its section `.comment` says, separated by semicolons. Linkers that name themselves
/// there (`Linker: LLD`) are left out.
pub(super) fn compiler(program: &Path) -> Option<String> {
    let file = File::open(program).ok()?;
    // SAFETY: read only; a file that is cut while it is mapped is the program's own trouble, as everywhere here.
    let bytes = unsafe { memmap2::Mmap::map(&file) }.ok()?;
    let image = object::File::parse(&bytes[..]).ok()?;
    let comment = image.section_by_name(".comment")?;
    let data = comment.data().ok()?;
    let mut names: Vec<String> = Vec::new();
    for text in data.split(|&b| b == 0).filter(|t| !t.is_empty() && !t.starts_with(b"Linker:")) {
        let text = String::from_utf8_lossy(text).into_owned();
        if !names.contains(&text) && names.len() < COMPILERS_MAX {
            names.push(text);
        }
    }
    (!names.is_empty()).then(|| names.join("; "))
}

/// CRC-32 (IEEE) of the arguments, of the regular files that they name, and of standard input where that is a file:
/// what the program was given, as far as that can be told from outside. Environment and network are not in it.
pub(super) fn input_hash(o: &RecordOptions) -> String {
    let mut hash = crc32fast::Hasher::new();
    for argument in o.command.iter().skip(1) {
        hash.update(argument.as_encoded_bytes());
        hash.update(&[0]);
        let at = o.folder.as_ref().map_or_else(|| argument.into(), |f| f.join(argument));
        // A pipe or a device is not opened: that could wait, or take what the program is to read.
        if std::fs::metadata(&at).is_ok_and(|m| m.is_file()) {
            File::open(&at).into_iter().for_each(|f| content(&f, &mut hash));
        }
    }
    // Another name of the same file, so that the program's own position stays.
    if let Ok(own) = std::io::stdin().as_fd().try_clone_to_owned()
        && File::from(own).metadata().is_ok_and(|m| m.is_file())
    {
        File::open("/proc/self/fd/0").into_iter().for_each(|f| content(&f, &mut hash));
    }
    format!("crc32:{:08x}", hash.finalize())
}

fn content(file: &File, hash: &mut crc32fast::Hasher) {
    let length = file.metadata().map_or(0, |m| m.len());
    hash.update(&length.to_le_bytes());
    let mut rest = file.take(FILE_BYTES_MAX);
    let mut block = vec![0; 1 << 16];
    while let Ok(n) = rest.read(&mut block)
        && n > 0
    {
        hash.update(&block[..n]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(command: &[&str]) -> RecordOptions {
        RecordOptions::new(command.iter().map(|a| a.into()).collect())
    }

    #[test]
    fn input_is_what_the_program_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let at = |text: &str| {
            std::fs::write(folder.path().join("in"), text).unwrap();
            input_hash(&RecordOptions { folder: Some(folder.path().into()), ..options(&["./a", "in", "3"]) })
        };
        assert_eq!(at("one"), at("one"));
        assert_ne!(at("one"), at("two"));
        assert_ne!(input_hash(&options(&["./a", "1"])), input_hash(&options(&["./a", "2"])));
        assert_eq!(
            input_hash(&options(&["./a", "1"])),
            input_hash(&options(&["./b", "1"])),
            "the program is no input"
        );
    }

    #[test]
    fn flags_are_those_of_the_command_line() {
        assert!(flags(&options(&["./a"])).is_empty());
        let two = std::time::Duration::from_secs(2);
        let o = RecordOptions {
            keep_all: true,
            duration: Some(two),
            mem_max_bytes: 1 << 20,
            ..options(&["./a"])
        };
        assert_eq!(flags(&o), ["--all-lines", "--mem-max=1048576", "--duration=2s"]);
    }

    #[test]
    fn this_test_says_what_compiled_it() {
        let me = std::env::current_exe().unwrap();
        assert!(
            compiler(&me).is_some_and(|c| c.contains("rustc") || c.contains("GCC")),
            "{:?}",
            compiler(&me)
        );
        assert_eq!(compiler(Path::new("/nowhere")), None);
    }
}
