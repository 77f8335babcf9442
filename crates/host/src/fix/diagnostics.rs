//! What compilers say about the units before and after a patch: a new warning about order, initialisation or missing
//! initialisers refuses the patch.

use std::collections::BTreeMap;

use super::calls::Call;

/// Warnings that a changed order of members can raise, all known to gcc. clang is told to be silent about those that
/// it does not know; what a language does not have is told as a warning and falls out.
const WARNINGS: [&str; 10] = [
    "-Wall",
    "-Wextra",
    "-Wreorder",
    "-Wuninitialized",
    "-Wmaybe-uninitialized",
    "-Wmissing-field-initializers",
    "-Wmissing-braces",
    "-Wnarrowing",
    "-Wno-unknown-warning-option",
    "-Wno-error",
];

/// Units whose diagnostics are compared; a front end takes up to a second each.
pub(super) const UNITS_MAX: usize = 64;

/// Warnings about accesses beyond an object, which gcc gives only when it optimises:
/// what else it says then depends on what it inlines.
const BEYOND: [&str; 3] = ["-Warray-bounds", "-Wstringop-overflow", "-Wstringop-overread"];

/// Units up to which they are optimised: that takes as long as a build.
const OPTIMISED_UNITS_MAX: usize = 16;

/// Messages with how often they came. Positions are left out: a patch moves lines.
pub(super) type Messages = BTreeMap<String, usize>;

/// Warnings and errors of the front end over `calls`, the first [`UNITS_MAX`] of them.
pub(super) fn of(calls: &[Call]) -> Messages {
    let calls = &calls[..calls.len().min(UNITS_MAX)];
    let optimised = calls.len() <= OPTIMISED_UNITS_MAX;
    let parts = super::parallel(calls, |call| {
        let text = |output: std::io::Result<std::process::Output>| {
            String::from_utf8_lossy(&output.map(|o| o.stderr).unwrap_or_default()).into_owned()
        };
        let plain = text(call.front_end(&WARNINGS));
        let beyond = if optimised { text(call.optimised(&BEYOND)) } else { String::new() };
        let all = plain.lines().chain(beyond.lines().filter(|l| is_beyond(l)));
        all.filter_map(message).collect::<Vec<String>>()
    });
    let mut out = Messages::new();
    for line in parts.into_iter().flatten() {
        *out.entry(line).or_default() += 1;
    }
    out
}

/// A warning about an access beyond an object.
fn is_beyond(line: &str) -> bool {
    BEYOND.iter().any(|w| line.contains(&format!("[{w}")))
}

/// The first message that `after` has more often than `before`; one that goes on with another only where there is no
/// other. Where elements `part`, each becomes a struct, and braces are missing that C does not ask for.
pub(super) fn new_one(before: &Messages, after: &Messages, part: bool) -> Option<String> {
    let braces = |m: &String| part && m.ends_with("[-Wmissing-braces]");
    let new = |&(m, n): &(&String, &usize)| before.get(m).is_none_or(|b| b < n) && !braces(m);
    let goes_on = |m: &String| m.contains("warning:  ");
    after.iter().filter(new).min_by_key(|(m, _)| goes_on(m)).map(|(m, _)| m.clone())
}

/// `file: warning: text` of `file:12:3: warning: text`.
fn message(line: &str) -> Option<String> {
    let (place, text) = [" warning: ", " error: "].iter().find_map(|w| {
        let at = line.find(w)?;
        Some((&line[..at], &line[at + 1..]))
    })?;
    if text.contains("command-line option")
        || text.contains("command line option")
        || text.contains("unknown warning")
    {
        return None;
    }
    let file = place.split(':').next().unwrap_or("");
    let file = file.rsplit('/').next().unwrap_or("");
    Some(format!("{file}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_lose_their_place() {
        let text = "/x/a.cpp:3:9: warning: 'S::b_' will be initialized after [-Wreorder]";
        assert_eq!(
            message(text).as_deref(),
            Some("a.cpp: warning: 'S::b_' will be initialized after [-Wreorder]")
        );
        assert_eq!(message("a.cpp:3:9: note: here"), None);
        assert!(is_beyond("a.c:3:9: warning: array subscript 4 is outside array bounds [-Warray-bounds=]"));
        assert!(!is_beyond("a.c:3:9: warning: 'x' may be used uninitialized [-Wmaybe-uninitialized]"));
        let one = Messages::from([("a".into(), 1)]);
        let two = Messages::from([("a".into(), 2)]);
        assert_eq!(new_one(&one, &two, false).as_deref(), Some("a"));
        assert_eq!(new_one(&two, &one, false), None);
        let of = |texts: &[&str]| texts.iter().map(|t| (t.to_string(), 1)).collect::<Messages>();
        let reorder = of(&["a.cc: warning:   'int S::a'", "a.cc: warning: 'S::b' will be initialized after"]);
        let first = new_one(&Messages::new(), &reorder, false);
        assert_eq!(first.as_deref(), Some("a.cc: warning: 'S::b' will be initialized after"));
        let braces = of(&["a.c: warning: missing braces around initializer [-Wmissing-braces]"]);
        assert!(new_one(&Messages::new(), &braces, false).is_some());
        assert_eq!(new_one(&Messages::new(), &braces, true), None);
    }
}
