//! A Linux source tree built outside of it, as small as the emulator can boot it: the whole kernel, before and after a
//! patch. The tree itself is only read.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fix::{FixError, PatchedFile, farm, kernel};
use crate::project::Scratch;

/// What the emulator needs of a kernel, and the workloads: a serial console, an initramfs, several CPUs, the usual
/// system calls, loopback, and debug information with callers (ORC).
const NEEDED: &str = include_str!("kernel_tree/smallest.config");

/// Lines of a failed build that are shown.
const TAIL_LINES: usize = 25;

/// What a kernel says of its build.
const BUILT_BY: [(&str, &str); 4] = [
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970"),
    ("KBUILD_BUILD_VERSION", "1"),
    ("KBUILD_BUILD_USER", "tussle"),
    ("KBUILD_BUILD_HOST", "tussle"),
];

/// A tree, and a folder in which it is built.
pub struct KernelTree {
    dir: PathBuf,
    /// Where both lie, links and what is built.
    root: PathBuf,
    /// Goes with this value, where nobody wants to keep it.
    _scratch: Option<Scratch>,
}

impl KernelTree {
    /// Whether a folder is the source of Linux.
    pub fn is_one(dir: &Path) -> bool {
        dir.join("Kbuild").is_file()
            && dir.join("Kconfig").is_file()
            && dir.join("arch/x86/Kconfig").is_file()
    }

    /// Configures the tree: by the smallest configuration, or by `config`; what the emulator needs is switched on in
    /// both. It is built below `keep`, where a later build begins with what this one left, else in a folder that goes
    /// with this value. Every command is told to `announce` before it runs.
    ///
    /// # Errors
    /// `make` fails, or there is no room.
    pub fn new(
        dir: &Path,
        config: Option<&Path>,
        keep: Option<&Path>,
        announce: &mut dyn FnMut(&str),
    ) -> Result<KernelTree, FixError> {
        let io = |path: &Path| {
            let path = path.to_path_buf();
            |source| FixError::Io { path, source }
        };
        let dir = dir.canonicalize().map_err(io(dir))?;
        let scratch = keep.map_or_else(|| Scratch::empty().map(Some), |_| Ok(None))?;
        let root = match (keep, &scratch) {
            (Some(keep), _) => {
                std::fs::create_dir_all(keep).map_err(io(keep))?;
                let keep = keep.canonicalize().map_err(io(keep))?;
                if keep.starts_with(&dir) {
                    let _ = std::fs::remove_dir(&keep);
                    let why =
                        std::io::Error::other("lies in the tree, which is only read: choose another folder");
                    return Err(io(&keep)(why));
                }
                keep
            }
            (None, scratch) => scratch.as_ref().map(|s| s.path().to_path_buf()).unwrap_or_default(),
        };
        let tree = KernelTree { dir, root, _scratch: scratch };
        std::fs::create_dir_all(tree.built()).map_err(io(&tree.built()))?;
        tree.grow(&[])?;
        let dot_config = tree.config();
        let base = match config {
            Some(file) => file,
            None => {
                tree.make("tinyconfig", false, announce)?;
                &dot_config
            }
        };
        let chosen = std::fs::read_to_string(base).map_err(io(base))?;
        std::fs::write(&dot_config, format!("{chosen}\n{NEEDED}")).map_err(io(&dot_config))?;
        tree.make("olddefconfig", false, announce)?;
        Ok(tree)
    }

    /// How it is configured.
    pub fn config(&self) -> PathBuf {
        self.built().join(".config")
    }

    /// Builds the kernel; the file with its debug information. Only what a patch reaches is built again.
    ///
    /// # Errors
    /// It does not build.
    pub fn build(&self, patched: bool, announce: &mut dyn FnMut(&str)) -> Result<PathBuf, FixError> {
        self.make("vmlinux", patched, announce)?;
        Ok(self.built().join("vmlinux"))
    }

    /// Gives files other texts: those of one patch instead of another's.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn patch(&self, files: &[PatchedFile]) -> Result<(), FixError> {
        let paths: Vec<PathBuf> = files.iter().map(|f| f.path.clone()).collect();
        self.grow(&paths)?;
        files.iter().try_for_each(|f| {
            let path = self.sources().join(&f.path);
            std::fs::write(&path, &f.new).map_err(|source| FixError::Io { path, source })
        })
    }

    fn sources(&self) -> PathBuf {
        self.root.join("linux")
    }

    fn built(&self) -> PathBuf {
        self.root.join("built")
    }

    /// Links to the tree, with copies of the files that are to change. The path stays, so what was built stays good.
    fn grow(&self, files: &[PathBuf]) -> Result<(), FixError> {
        let root = self.sources();
        let io = |source| FixError::Io { path: root.clone(), source };
        match std::fs::remove_dir_all(&root) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io(e)),
            _ => std::fs::create_dir(&root).map_err(io)?,
        }
        farm::into(&self.dir, &root, files, &kernel::LEFT_OUT).map_err(io)
    }

    fn make(&self, goal: &str, patched: bool, announce: &mut dyn FnMut(&str)) -> Result<(), FixError> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let command = format!("make O=... {goal}");
        announce(&command);
        let mut make = Command::new("make");
        make.arg("-s").arg(format!("-j{jobs}")).arg(format!("O={}", self.built().display())).arg(goal);
        make.current_dir(self.sources());
        // The same tree gives the same kernel: its sources are named from the tree on, and nobody's clock is in it.
        let map = |folder: PathBuf, to: &str| format!("-fdebug-prefix-map={}{to}", folder.display());
        make.arg(format!("KCFLAGS={} {}", map(self.sources(), "/="), map(self.built(), "=.")));
        for (name, value) in BUILT_BY {
            make.env(name, value);
        }
        // A configuration of the caller's own shell must not leak in.
        for name in ["ARCH", "KBUILD_OUTPUT", "KCONFIG_CONFIG", "MAKEFLAGS", "CROSS_COMPILE"] {
            make.env_remove(OsStr::new(name));
        }
        let done = crate::interrupted::output(&mut make)
            .map_err(|source| FixError::Io { path: "make".into(), source })?;
        if done.status.success() {
            return Ok(());
        }
        let text =
            String::from_utf8_lossy(&done.stderr).into_owned() + &String::from_utf8_lossy(&done.stdout);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
        Err(FixError::BuildFailed { command, patched, tail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the build of a kernel does with its folders, in few lines.
    const MAKEFILE: &str = "tinyconfig:\n\techo CONFIG_TINY=y >$(O)/.config\nolddefconfig:\n\tgrep -q \
                            CONFIG_PVH=y $(O)/.config\nvmlinux:\n\tcat include/linux/a.h kernel/b.h >$(O)/vmlinux\n";

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("Kbuild", ""),
            ("Kconfig", ""),
            ("arch/x86/Kconfig", ""),
            ("Makefile", MAKEFILE),
            ("include/linux/a.h", "a\n"),
            ("kernel/b.h", "b\n"),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn a_patch_is_built_and_the_tree_stays() {
        let dir = tree();
        assert!(KernelTree::is_one(dir.path()));
        let mut said = Vec::new();
        let tree = KernelTree::new(dir.path(), None, None, &mut |c| said.push(c.to_string())).unwrap();
        let text = |path: PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!(text(tree.build(false, &mut |_| ()).unwrap()), "a\nb\n");
        let file =
            |path: &str, new: &str| PatchedFile { path: path.into(), old: String::new(), new: new.into() };
        tree.patch(&[file("kernel/b.h", "c\n")]).unwrap();
        assert_eq!(text(tree.build(true, &mut |_| ()).unwrap()), "a\nc\n");
        tree.patch(&[file("include/linux/a.h", "d\n")]).unwrap();
        assert_eq!(text(tree.build(true, &mut |_| ()).unwrap()), "d\nb\n", "one patch instead of another");
        assert_eq!(text(dir.path().join("kernel/b.h")), "b\n");
        assert_eq!(said, ["make O=... tinyconfig", "make O=... olddefconfig"]);
    }

    #[test]
    fn a_failed_build_shows_its_end() {
        let dir = tree();
        let kept = tempfile::tempdir().unwrap();
        let keep = kept.path().join("kept");
        std::fs::write(dir.path().join("Makefile"), format!("{MAKEFILE}\techo no >&2; false\n")).unwrap();
        let tree = KernelTree::new(dir.path(), None, Some(&keep), &mut |_| ()).unwrap();
        let error = tree.build(false, &mut |_| ()).unwrap_err().to_string();
        assert!(error.starts_with("`make O=... vmlinux` failed:\n") && error.contains("no"), "{error}");
        drop(tree);
        assert!(keep.join("built/.config").exists(), "what is to be kept is");
        let inside = KernelTree::new(dir.path(), None, Some(&dir.path().join("b")), &mut |_| ());
        assert!(inside.is_err_and(|e| e.to_string().contains("lies in the tree")));
    }
}
