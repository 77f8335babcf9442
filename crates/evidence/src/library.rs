//! Which code and variables are the C library's.

use crate::tables::{Code, Evidence, Module};

/// Files of the C library and of the dynamic loader, as their names begin (glibc's, musl's).
const FILES: &[&str] =
    &["libc.so", "libc-2", "libc.musl-", "ld-linux", "ld-musl-", "ld-2", "libpthread.so", "libpthread-2"];

/// A function, variable or type of Go's runtime, by its name with its package. Other languages have no dots in names,
/// but for what compilers cut off functions (`runtime.part.0`).
pub fn is_go_runtime_s(name: &str) -> bool {
    const CUT_OFF: [&str; 6] = ["part", "constprop", "isra", "cold", "lto_priv", "llvm"];
    let own = |rest: &str| {
        let word = rest.split('.').next().unwrap_or_default();
        rest.starts_with(|c: char| c.is_alphabetic() || c == '(' || c == '_') && !CUT_OFF.contains(&word)
    };
    let name = name.strip_prefix("struct ").unwrap_or(name);
    name.strip_prefix("runtime.").is_some_and(own)
        || ["runtime/internal/", "internal/runtime/"].iter().any(|package| name.starts_with(package))
}

impl Module {
    /// It is the C library, or the dynamic loader.
    pub fn is_c_library(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        FILES.iter().any(|f| name.starts_with(f))
    }
}

impl Evidence {
    /// The code lies in the C library's file, or in the loader's; of a program that is linked with it nobody knows.
    pub fn is_c_library_s(&self, code: &Code) -> bool {
        code.module.and_then(|m| self.modules.get(m as usize)).is_some_and(Module::is_c_library)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_of_go_is_told_by_its_package() {
        for name in [
            "runtime.hchan",
            "struct runtime.hchan",
            "runtime.(*mheap).alloc",
            "internal/runtime/maps.(*Map).Put",
        ] {
            assert!(is_go_runtime_s(name), "{name}");
        }
        for name in ["runtime", "runtime.part.0", "runtime.5", "main.runtime.x", "myruntime.x", "runtime::go"]
        {
            assert!(!is_go_runtime_s(name), "{name}");
        }
    }

    #[test]
    fn it_is_told_by_the_name_of_its_file() {
        let module =
            |path: &str| Module { process: 0, path: path.into(), build_id: None, start: 0, end: 1, bias: 0 };
        for path in
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"]
        {
            assert!(module(path).is_c_library(), "{path}");
        }
        for path in ["./prog", "/usr/lib/libcurl.so.4", "/opt/libc-tools/prog", "libc++.so.1", ""] {
            assert!(!module(path).is_c_library(), "{path}");
        }
    }
}
