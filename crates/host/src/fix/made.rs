//! Sources that the build makes.

use std::path::Path;

/// Names of makefiles.
const MAKEFILES: [&str; 4] = ["GNUmakefile", "makefile", "Makefile", "Makefile.am"];

/// The place of the rule in a makefile, at the top of the folder or beside the file, that makes the file: `Makefile:7`.
pub(super) fn rule(dir: &Path, file: &Path) -> Option<String> {
    let beside = file.parent().filter(|p| !p.as_os_str().is_empty());
    let name = file.file_name()?.to_string_lossy();
    let whole = file.to_string_lossy();
    let folders = [(Path::new(""), &*whole)].into_iter().chain(beside.map(|b| (b, &*name)));
    folders.flat_map(|(folder, target)| MAKEFILES.map(|m| (folder.join(m), target))).find_map(
        |(path, target)| {
            let text = std::fs::read_to_string(dir.join(&path)).ok()?;
            let line = text.lines().position(|l| makes(l, target))?;
            Some(format!("{}:{}", path.display(), line + 1))
        },
    )
}

/// The line begins a rule for the target: `all.c: a.c b.c`, and not `x := all.c`.
fn makes(line: &str, target: &str) -> bool {
    let Some((targets, rest)) = line.split_once(':') else { return false };
    let rule = !line.starts_with(['\t', '#', ' ']) && !rest.starts_with('=') && !targets.contains('=');
    // Without anything that it is made from it is a rule for what is already there.
    let from = !rest.trim_start_matches(':').trim().is_empty();
    rule && from && targets.split_whitespace().any(|t| t.trim_start_matches("./") == target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_for_sources() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("lib")).unwrap();
        std::fs::write(
            dir.path().join("Makefile"),
            "SRC := all.c\nprog: all.c\n\tcc all.c\nall.c: 1.c 2.c\n\tcat $^\n",
        )
        .unwrap();
        std::fs::write(dir.path().join("lib/Makefile"), "gen.h: gen.sh\n\tsh gen.sh\nhand.h:\n").unwrap();
        let rule = |file: &str| rule(dir.path(), Path::new(file));
        assert_eq!(rule("all.c").as_deref(), Some("Makefile:4"));
        assert_eq!(rule("lib/gen.h").as_deref(), Some("lib/Makefile:1"));
        assert_eq!((rule("1.c"), rule("lib/all.c"), rule("lib/hand.h")), (None, None, None));
    }
}
