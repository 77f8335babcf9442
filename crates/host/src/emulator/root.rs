//! A folder as the guest's user land: everything in it goes into the initramfs.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::EmulatorError;

/// Files of a user land at most: what is meant for a guest of at most two gigabytes has fewer.
const FILES_MAX: usize = 100_000;

/// What a folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// Name in the guest, and the file here.
    pub files: Vec<(String, PathBuf)>,
    /// Links: name in the guest, and what it says.
    pub links: Vec<(String, String)>,
    /// Bytes of the files.
    pub bytes: u64,
}

impl Root {
    /// Lists a folder, in order of the names. Devices, sockets and pipes are left out: the guest makes its own.
    ///
    /// # Errors
    /// It cannot be read, or has too much in it.
    pub fn of(dir: &Path) -> Result<Root, EmulatorError> {
        let mut root = Root::default();
        root.add(dir, "")?;
        Ok(root)
    }

    fn add(&mut self, dir: &Path, prefix: &str) -> Result<(), EmulatorError> {
        let shown = |p: &Path| EmulatorError::io(p.display().to_string());
        let mut entries: Vec<_> =
            std::fs::read_dir(dir).map_err(shown(dir))?.collect::<Result<_, _>>().map_err(shown(dir))?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let Some(name) = entry.file_name().to_str().map(|n| format!("{prefix}{n}")) else { continue };
            let meta = std::fs::symlink_metadata(&path).map_err(shown(&path))?;
            if meta.is_dir() {
                self.add(&path, &format!("{name}/"))?;
            } else if meta.is_symlink() {
                let target = std::fs::read_link(&path).map_err(shown(&path))?;
                self.links.push((name, target.to_string_lossy().into_owned()));
            } else if meta.is_file() {
                self.bytes += meta.size();
                self.files.push((name, path));
            }
            if self.files.len() + self.links.len() > FILES_MAX {
                let why =
                    std::io::Error::other(format!("more than {FILES_MAX} files: no user land for a guest"));
                return Err(shown(dir)(why));
            }
        }
        Ok(())
    }
}

/// The name under which the guest finds a file, where folders on its way are links (`lib` is `usr/lib` on Debian).
pub(super) fn through(links: &BTreeMap<&str, &str>, name: &str) -> String {
    let mut at = name.to_string();
    // Links may lead to links; more than a few lead in circles.
    for _ in 0..8 {
        let folder = at.match_indices('/').find_map(|(i, _)| Some((links.get(&at[..i])?, i)));
        let Some((target, end)) = folder else { break };
        let parent = at[..end].rfind('/').map_or("", |i| &at[..=i]);
        let rest = &at[end..];
        at = match target.strip_prefix('/') {
            Some(absolute) => format!("{absolute}{rest}"),
            None => format!("{parent}{target}{rest}"),
        };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_listed_with_its_links() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("usr/bin")).unwrap();
        std::fs::write(dir.path().join("usr/bin/sh"), "12345").unwrap();
        std::os::unix::fs::symlink("usr/bin", dir.path().join("bin")).unwrap();
        let root = Root::of(dir.path()).unwrap();
        assert_eq!(root.files, [("usr/bin/sh".to_string(), dir.path().join("usr/bin/sh"))]);
        assert_eq!(root.links, [("bin".to_string(), "usr/bin".to_string())]);
        assert_eq!(root.bytes, 5);
        assert!(Root::of(&dir.path().join("none")).is_err());
    }

    #[test]
    fn names_go_where_links_lead() {
        let links = BTreeMap::from([("bin", "usr/bin"), ("lib", "/usr/lib"), ("usr/lib/a", "b"), ("o", "o")]);
        for (name, expect) in [
            ("bin/true", "usr/bin/true"),
            ("lib/a/x.so", "usr/lib/b/x.so"),
            ("init", "init"),
            ("bin", "bin"),
            ("o/x", "o/x"),
        ] {
            assert_eq!(through(&links, name), expect);
        }
    }
}
