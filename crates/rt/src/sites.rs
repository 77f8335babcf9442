//! Calls of access hooks become jumps: one store less per access.
//!
//! A call pushes its return address. Where two CPUs take turns at a line, the program's own store to that line holds
//! the store buffer, and every store behind it waits for a place there, the pushed address as well as the hook's
//! counter. A site that hands its return address over in a register has only one of the two:
//!
//! ```text
//!     call  __tsan_write8@PLT         leaq  .Ltussle_site_1(%rip), %r11
//!                                     jmp   tussle_site_write8
//!                               .Ltussle_site_1:
//! ```
//!
//! To the compiler it still was a call: nothing lives in the red zone or in a register that a call may clobber (the
//! hooks use fewer), the stack is aligned, unwind information is the same on both sides, and the address before the
//! return address belongs to the source line of the access. Objects stay complete: hidden weak functions of the same
//! names that go on to the `__tsan_` hooks stand in where the runtime is not linked (`gcc -fsanitize=thread` at the
//! link, shared libraries); they push the address, so that the hook sees the site and nothing of them.

use std::collections::BTreeSet;
use std::io::Write;

/// Hooks that have a jumped form: name after `__tsan_`, and after `tussle_site_`.
const HOOKS: [(&str, &str); 16] = [
    ("read1", "read1"),
    ("read2", "read2"),
    ("read4", "read4"),
    ("read8", "read8"),
    ("write1", "write1"),
    ("write2", "write2"),
    ("write4", "write4"),
    ("write8", "write8"),
    ("unaligned_read2", "read2"),
    ("unaligned_read4", "read4"),
    ("unaligned_read8", "unaligned_read8"),
    ("unaligned_write2", "write2"),
    ("unaligned_write4", "write4"),
    ("unaligned_write8", "unaligned_write8"),
    ("vptr_read", "read8"),
    ("vptr_update", "write8"),
];

/// Rewrites the assembly that gcc made of an instrumented source for x86-64 (AT&T syntax). `None`: there is nothing
/// to rewrite, or it is in Intel syntax. Inline assembly is left alone.
pub fn rewrite(assembly: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(assembly.len() + assembly.len() / 8);
    let mut used = BTreeSet::new();
    let mut sites = 0u64;
    let mut inline = false;
    for line in assembly.split_inclusive(|&b| b == b'\n') {
        match line.trim_ascii() {
            b"#APP" => inline = true,
            b"#NO_APP" => inline = false,
            other if other.starts_with(b".intel_syntax") => return None,
            _ => {}
        }
        match hook(line).filter(|_| !inline) {
            Some(site) => {
                sites += 1;
                used.insert(site);
                jump(&mut out, sites, site);
            }
            None => out.extend_from_slice(line),
        }
    }
    used.iter().for_each(|site| stand_in(&mut out, site));
    (sites > 0).then_some(out)
}

/// The jumped form of the hook that a line calls.
fn hook(line: &[u8]) -> Option<&'static str> {
    let rest = line.trim_ascii().strip_prefix(b"call")?;
    let rest = rest.strip_prefix(b"q").unwrap_or(rest);
    let name = rest.trim_ascii_start();
    if name.len() == rest.len() {
        return None;
    }
    let name = name.strip_prefix(b"__tsan_")?;
    let name = name.strip_suffix(b"@PLT").unwrap_or(name);
    HOOKS.iter().find(|h| h.0.as_bytes() == name).map(|h| h.1)
}

fn jump(out: &mut Vec<u8>, n: u64, site: &str) {
    // Writing to memory cannot fail.
    let _ =
        writeln!(out, "\tleaq\t.Ltussle_site_{n}(%rip), %r11\n\tjmp\ttussle_site_{site}\n.Ltussle_site_{n}:");
}

/// What stands in for a jumped hook where the runtime is not linked.
fn stand_in(out: &mut Vec<u8>, site: &str) {
    let _ = writeln!(
        out,
        "\t.section\t.text.tussle_site_{site},\"axG\",@progbits,tussle_site_{site},comdat\n\
         \t.weak\ttussle_site_{site}\n\t.hidden\ttussle_site_{site}\n\t.type\ttussle_site_{site}, @function\n\
         tussle_site_{site}:\n\t.cfi_startproc\n\t.cfi_def_cfa %rsp, 0\n\t.cfi_register %rip, %r11\n\
         \tpushq\t%r11\n\t.cfi_def_cfa_offset 8\n\t.cfi_offset %rip, -8\n\
         \tjmp\t__tsan_{site}@PLT\n\t.cfi_endproc\n\t.size\ttussle_site_{site}, .-tussle_site_{site}\n\t.text"
    );
}

#[cfg(test)]
mod tests {
    use super::rewrite;

    #[track_caller]
    fn check(line: &str, site: Option<&str>) {
        let source = format!("main:\n{line}\n\tret\n");
        let got = rewrite(source.as_bytes()).map(|o| String::from_utf8_lossy(&o).into_owned());
        let jump = site.map(|s| {
            format!("main:\n\tleaq\t.Ltussle_site_1(%rip), %r11\n\tjmp\ttussle_site_{s}\n.Ltussle_site_1:\n\tret\n")
        });
        assert_eq!(got.is_some(), jump.is_some(), "{line}");
        if let (Some(got), Some(jump)) = (got, jump) {
            assert!(got.starts_with(&jump), "{line}: {got}");
            assert!(got.contains(&format!("\t.weak\ttussle_site_{}\n", site.unwrap_or_default())), "{got}");
        }
    }

    #[test]
    fn calls_of_access_hooks_become_jumps() {
        check("\tcall\t__tsan_read8@PLT", Some("read8"));
        check("\tcall\t__tsan_write1", Some("write1"));
        check("\tcallq\t__tsan_unaligned_write4@PLT", Some("write4"));
        check("\tcall\t__tsan_vptr_update@PLT", Some("write8"));
    }

    #[test]
    fn everything_else_stays() {
        check("\tcall\t__tsan_read16@PLT", None);
        check("\tcall\t__tsan_func_entry@PLT", None);
        check("\tcall\t*__tsan_read8@GOTPCREL(%rip)", None);
        check("\tjmp\t__tsan_read8@PLT", None);
        check("\t.string\t\"__tsan_read8\"", None);
        check("\tcall__tsan_read8", None);
        check("#APP\n\tcall __tsan_read8\n#NO_APP", None);
        check("\tcall\tread8", None);
        check("\t.intel_syntax noprefix\n\tcall\t__tsan_read8", None);
    }
}
