//! Programs that carry no recorder, under QEMU's user-mode emulation with a plugin that carries it: found, checked,
//! equipped, told what to watch.

pub(crate) mod go;
mod plugin;
mod watch;

use object::read::elf::FileHeader;
use object::{Endianness, elf};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Environment variable that names another emulator, or the folder of them.
pub const VARIABLE: &str = "TUSSLE_QEMU_USER";

/// What keeps a program from being emulated, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulateError {
    /// No such emulator.
    #[error(
        "no emulator: `{0}` is not in PATH. Debian 12 and Ubuntu have it in the package qemu-user (not \
         qemu-user-static), or name one in {VARIABLE}"
    )]
    Missing(String),
    /// It cannot load our plugin.
    #[error(
        "{program} cannot be used: {why}. Debian 12's own qemu-user (7.2) works, that of its backports and of Debian \
         13 does not; name another one in {VARIABLE}"
    )]
    Unfit {
        /// Which one.
        program: String,
        /// Why not.
        why: String,
    },
    /// Not a program for a machine that is known.
    #[error("it is a {0} program: 64-bit x86, Arm and RISC-V programs can be emulated")]
    Machine(String),
    /// Neither a program nor a script that says what runs it.
    #[error("it is no program: neither an ELF file nor a script that begins with `#!`")]
    Other,
    /// `#!`.
    #[error("it is a script for `{0}`: emulate the interpreter and give it the script")]
    Script(String),
    /// The plugin could not be made.
    #[error("the emulator's plugin: {0}")]
    Plugin(String),
    /// The plugin cannot be kept.
    #[error(transparent)]
    Cache(#[from] crate::cache::CacheError),
    /// A file of ours.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
}

/// A machine whose programs can be emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// As QEMU, Rust and evidence call it.
    pub name: &'static str,
    elf: elf::Machine,
    /// Debian's name of its libraries' folder.
    triple: &'static str,
    /// What reads registers in the emulator.
    registers: &'static str,
}

const MACHINES: [Machine; 3] = [
    Machine {
        name: "x86_64",
        elf: elf::EM_X86_64,
        triple: "x86_64-linux-gnu",
        registers: "x86_cpu_gdb_read_register",
    },
    Machine {
        name: "aarch64",
        elf: elf::EM_AARCH64,
        triple: "aarch64-linux-gnu",
        registers: "aarch64_cpu_gdb_read_register",
    },
    Machine {
        name: "riscv64",
        elf: elf::EM_RISCV,
        triple: "riscv64-linux-gnu",
        registers: "riscv_cpu_gdb_read_register",
    },
];

/// A program's emulation, ready to start.
#[derive(Debug)]
pub struct Emulation {
    /// What is started instead of the program.
    pub emulator: PathBuf,
    /// `QEMU 7.2.22`.
    pub version: String,
    /// The program's machine.
    pub machine: Machine,
    plugin: PathBuf,
    /// What the plugin watches.
    watch: String,
    /// Libraries of another machine lie below.
    root: Option<PathBuf>,
}

/// Name of the file in the session folder that says what the plugin watches.
const WATCH_FILE: &str = "watch";

impl Emulation {
    /// Of the program in this file. `announce` is told each command before it runs.
    ///
    /// # Errors
    /// No emulator that can be used, or not a program for it.
    pub fn new(program: &Path, announce: &mut dyn FnMut(&str)) -> Result<Emulation, EmulateError> {
        let io = |e| EmulateError::Io(program.display().to_string(), e);
        let program = std::fs::canonicalize(program).map_err(io)?;
        let bytes = std::fs::read(&program).map_err(io)?;
        let machine = machine_of(&bytes)?;
        let (emulator, version) = find(machine)?;
        let plugin = plugin::plugin(announce)?;
        let root = root_of(machine);
        let watch = watch::text(&program, &bytes, &folders(machine, root.as_deref()));
        Ok(Emulation { emulator, version, machine, plugin, watch, root })
    }

    /// Writes down what the plugin watches, for a session in `folder`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn prepare(&self, folder: &Path) -> Result<(), EmulateError> {
        let at = folder.join(WATCH_FILE);
        std::fs::write(&at, &self.watch).map_err(|e| EmulateError::Io(at.display().to_string(), e))
    }

    /// The emulator's command line for `command`, whose executable is `program`. The program does not see the variables
    /// `hidden` of its environment.
    pub fn command(&self, program: &Path, command: &[OsString], hidden: &[&str]) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec![self.emulator.clone().into(), "-plugin".into()];
        // Commas separate a plugin's arguments.
        all.push(self.plugin.to_string_lossy().replace(',', ",,").into());
        for name in hidden {
            all.extend(["-U".into(), name.into()]);
        }
        if let Some(root) = &self.root {
            all.extend(["-L".into(), root.into()]);
        }
        if let Some((name, args)) = command.split_first() {
            all.extend(["-0".into(), name.clone(), program.into()]);
            all.extend_from_slice(args);
        }
        all
    }
}

fn machine_of(bytes: &[u8]) -> Result<Machine, EmulateError> {
    if let Some(rest) = bytes.strip_prefix(b"#!") {
        let line = rest.split(|&b| b == b'\n').next().unwrap_or(&[]);
        return Err(EmulateError::Script(String::from_utf8_lossy(line).trim().to_string()));
    }
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(EmulateError::Other);
    }
    let header = elf::FileHeader64::<Endianness>::parse(bytes);
    let header = header.map_err(|_| EmulateError::Machine("foreign or 32-bit".into()))?;
    let e = header.endian().map_err(|e| EmulateError::Machine(e.to_string()))?;
    let found = MACHINES.into_iter().find(|m| m.elf == header.e_machine(e) && e == Endianness::Little);
    found.ok_or_else(|| EmulateError::Machine(crate::elf::machine_name(header.e_machine(e))))
}

/// The emulator of that machine and its version.
fn find(machine: Machine) -> Result<(PathBuf, String), EmulateError> {
    let name = format!("qemu-{}", machine.name);
    let named = std::env::var_os(VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from);
    let wanted = match named {
        Some(folder) if folder.is_dir() => folder.join(&name),
        Some(file) => file,
        None => PathBuf::from(&name),
    };
    let missing = || EmulateError::Missing(wanted.display().to_string());
    let program = crate::cc::search(wanted.as_os_str()).ok_or_else(missing)?;
    let unfit = |why: String| EmulateError::Unfit { program: program.display().to_string(), why };
    let bytes = std::fs::read(&program).map_err(|e| unfit(e.to_string()))?;
    fitness(&bytes, machine).map_err(|why| unfit(why.into()))?;
    let output = std::process::Command::new(&program).arg("--version").output();
    let text = output.map_err(|e| unfit(e.to_string()))?.stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    let version = crate::emulator::version(&text).map_or_else(|| "QEMU".into(), |v| format!("QEMU {}", v.2));
    Ok((program, version))
}

/// What the plugin needs of an emulator's executable.
fn fitness(bytes: &[u8], machine: Machine) -> Result<(), &'static str> {
    use object::{Object, ObjectSymbol};
    let file = object::File::parse(bytes).map_err(|_| "it is no executable")?;
    let names: Vec<&str> =
        file.dynamic_symbols().filter(|s| !s.is_undefined()).filter_map(|s| s.name().ok()).collect();
    let has = |name: &str| names.contains(&name);
    if !has("qemu_plugin_register_vcpu_mem_cb") {
        return Err("it is linked statically, or was built without plugins");
    }
    if !has("qemu_plugin_n_vcpus") {
        return Err(
            "its plugin interface is newer than the one that tussle was tried with (QEMU 7.2 to 8.2)",
        );
    }
    match ["guest_base", "thread_cpu", machine.registers].into_iter().all(has) {
        true => Ok(()),
        false => Err("it does not export what reads registers"),
    }
}

/// Where libraries of another machine lie, as Debian's cross compilers have them.
fn root_of(machine: Machine) -> Option<PathBuf> {
    let root = Path::new("/usr").join(machine.triple);
    (machine.name != std::env::consts::ARCH && root.join("lib").is_dir()).then_some(root)
}

/// Folders in which the program's libraries are looked for.
fn folders(machine: Machine, root: Option<&Path>) -> Vec<PathBuf> {
    let own = ["/lib", "/usr/lib"].into_iter().map(|f| Path::new(f).join(machine.triple));
    let plain = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].into_iter().map(PathBuf::from);
    let given = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let given: Vec<PathBuf> =
        std::env::split_paths(&given).filter(|p| *p != Path::new("") && p != OsStr::new(".")).collect();
    let below = root.map(|r| r.join("lib"));
    given.into_iter().chain(below).chain(own).chain(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_told_by_their_programs_and_others_refused() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        if cfg!(target_arch = "x86_64") {
            assert_eq!(machine_of(&own).unwrap().name, "x86_64");
        }
        let mut power = own.clone();
        power[18] = 21;
        let refused = machine_of(&power).unwrap_err().to_string();
        assert!(refused.contains("POWER"), "{refused}");
        assert!(matches!(machine_of(b"#!/bin/sh\n"), Err(EmulateError::Script(s)) if s == "/bin/sh"));
        assert!(matches!(machine_of(b"\x7fELF"), Err(EmulateError::Machine(_))));
        assert!(matches!(machine_of(b"echo hello"), Err(EmulateError::Other)));
    }

    #[test]
    fn an_emulator_without_plugins_is_unfit() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(fitness(&own, MACHINES[0]).unwrap_err().contains("without plugins"));
        assert!(fitness(b"", MACHINES[0]).is_err());
    }
}
