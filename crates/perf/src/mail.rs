//! What a mail about a regression says beside its tables: the commits, the functions that its profile names, and what
//! its diff does to structs. Mailers quote, wrap and flatten; so words are read, not lines, wherever that is possible.

use crate::families::family;

/// A commit that the text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Hash as written, 7 to 40 digits.
    pub hash: String,
    /// Title between `("` and `")`; empty where the text has none.
    pub title: String,
}

/// A function by its share of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Hot {
    /// Its name.
    pub function: String,
    /// Percent of the samples.
    pub percent: f64,
}

/// Functions of one kind of lock or tree, together.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Type that they work on, without keyword.
    pub type_name: &'static str,
    /// Percent of the samples that the hottest of them has; 0 where the text names members and no function.
    pub percent: f64,
    /// The functions, hottest first.
    pub functions: Vec<String>,
    /// Members of the type that these functions mostly touch, in the order of the functions.
    pub members: Vec<&'static str>,
}

/// What a diff does to the members of one struct.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The struct's name without keyword, where the diff says it.
    pub type_name: Option<String>,
    /// File.
    pub file: String,
    /// Members that appear.
    pub added: Vec<String>,
    /// Members that vanish.
    pub removed: Vec<String>,
    /// Members that go from one place to another.
    pub moved: Vec<String>,
    /// Members around, as they are.
    pub near: Vec<String>,
}

/// A mail's text with the blanks that programs know: web archives and mailers put others in their place.
pub fn plain(text: &str) -> String {
    let blank = |c: char| match c {
        '\u{a0}' | '\u{2007}' | '\u{202f}' => Some(' '),
        '\r' | '\u{200b}' | '\u{feff}' => None,
        other => Some(other),
    };
    text.chars().filter_map(blank).collect()
}

/// A raw mail whose body is quoted-printable (RFC 2045), decoded; others as they are. Joined lines are one line again.
pub fn decoded(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    if !lower.contains("content-transfer-encoding: quoted-printable") {
        return text.to_string();
    }
    let joined = text.replace("=\r\n", "").replace("=\n", "");
    let mut parts = joined.split('=');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2).filter(|c| c.bytes().all(|b| b.is_ascii_hexdigit()));
        match code.and_then(|c| u8::from_str_radix(c, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => {
                bytes.push(b'=');
                bytes.extend(part.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The text without quotes, in words.
fn words(text: &str) -> Vec<&str> {
    let unquoted = text.lines().map(|l| l.trim_start_matches(['>', ' ', '\t']));
    unquoted.flat_map(str::split_whitespace).collect()
}

/// What can be a hash; it is one where a title follows.
fn hash(word: &str) -> Option<&str> {
    let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let hex = bare.bytes().all(|b| b.is_ascii_hexdigit());
    (hex && (7..=40).contains(&bare.len())).then_some(bare)
}

/// Commits with their titles, in order, each once. A longer hash replaces its prefix.
pub fn commits(text: &str) -> Vec<Commit> {
    let all = words(text);
    let mut out: Vec<Commit> = Vec::new();
    for (i, word) in all.iter().enumerate() {
        let Some(hash) = hash(word) else { continue };
        let Some(title) = title(&all[i + 1..]) else { continue };
        let same = |c: &&mut Commit| c.hash.starts_with(hash) || hash.starts_with(&c.hash);
        match out.iter_mut().find(same) {
            Some(c) if hash.len() > c.hash.len() => c.hash = hash.into(),
            Some(_) => {}
            None => out.push(Commit { hash: hash.into(), title }),
        }
    }
    out
}

/// `("some words")` at the beginning of `rest`.
fn title(rest: &[&str]) -> Option<String> {
    let first = rest.first()?;
    first.starts_with("(\"").then_some(())?;
    let end = rest.iter().take(40).position(|w| w.trim_end_matches(['.', ',', ':', ';']).ends_with("\")"))?;
    let joined = rest[..=end].join(" ");
    let inner = joined.trim_end_matches(['.', ',', ':', ';']);
    Some(inner.strip_prefix("(\"")?.strip_suffix("\")")?.to_string())
}

/// The commit before and the one that is blamed. A robot's table names both below `commit:`; prose says `due to commit`
/// or `caused by commit`; else it is what stands behind the first `commit:`.
pub fn blamed(text: &str) -> (Option<Commit>, Option<Commit>) {
    let all = words(text);
    let known = commits(text);
    let at = |i: usize| -> Option<Commit> {
        let found = hash(all.get(i)?)?;
        known.iter().find(|c| c.hash.starts_with(found) || found.starts_with(&c.hash)).cloned()
    };
    for (i, _) in all.iter().enumerate().filter(|(_, w)| **w == "commit:") {
        let Some(base) = at(i + 1) else { continue };
        let behind = i + 2 + base.title.split_whitespace().count();
        if let Some(head) = at(behind).filter(|h| h.hash != base.hash) {
            return (Some(base), Some(head));
        }
    }
    let after = |cause: [&str; 3]| {
        let hit = |w: &[&str]| w.iter().zip(cause).all(|(a, b)| a.trim_end_matches(':') == b);
        let i = all.windows(3).position(hit)?;
        (i + 3..i + 12).find_map(at)
    };
    let alone = || {
        all.windows(2)
            .filter(|w| w[0] == "commit:")
            .find_map(|w| hash(w[1]))
            .and_then(|h| known.iter().find(|c| c.hash.starts_with(h) || h.starts_with(&c.hash)).cloned())
    };
    let causes = [["due", "to", "commit"], ["caused", "by", "commit"], ["by", "this", "commit"]];
    (None, causes.into_iter().find_map(after).or_else(alone))
}

/// Functions of a profile: lkp's rows `perf-profile.self.cycles-pp.NAME` (the column of the blamed commit) and
/// `perf report` rows `12.34% comm object [k] NAME`. Hottest first, each once.
pub fn hot(text: &str) -> Vec<Hot> {
    let mut out: Vec<Hot> = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches(['>', ' ', '\t']);
        let Some(found) = robot(line).or_else(|| flat(line)) else { continue };
        match out.iter_mut().find(|h| h.function == found.function) {
            Some(h) => h.percent = h.percent.max(found.percent),
            None => out.push(found),
        }
    }
    out.sort_unstable_by(|a, b| b.percent.total_cmp(&a.percent).then_with(|| a.function.cmp(&b.function)));
    out
}

fn robot(line: &str) -> Option<Hot> {
    let all: Vec<&str> = line.split_whitespace().collect();
    let name = all.last()?.strip_prefix("perf-profile.")?;
    let (_, chain) = name.split_once("cycles-pp.")?;
    let function = chain.split('.').next()?.to_string();
    // `old ± 3% +1.2 new ± 4% name`: the last number that is no deviation and has no sign.
    let mut figure = None;
    for (i, word) in all[..all.len() - 1].iter().enumerate() {
        let deviation = i > 0 && matches!(all[i - 1], "±" | "+-");
        let signed = word.starts_with(['+', '-']);
        if let (false, false, Ok(n)) = (deviation, signed, word.parse::<f64>()) {
            figure = Some(n);
        }
    }
    let percent = figure.filter(|p| (0.0..=100.0).contains(p))?;
    (!function.is_empty()).then_some(Hot { function, percent })
}

fn flat(line: &str) -> Option<Hot> {
    let all: Vec<&str> = line.split_whitespace().collect();
    let percent: f64 = all.first()?.strip_suffix('%')?.parse().ok()?;
    let mark = all.iter().position(|w| matches!(*w, "[k]" | "[.]"))?;
    // Rows of a table of `perf c2c` begin with several percentages.
    let alone = all.get(1).is_some_and(|w| !w.ends_with('%'));
    let function = (*all.get(mark + 1)?).to_string();
    (alone && percent.is_finite() && (0.0..=100.0).contains(&percent)).then_some(Hot { function, percent })
}

/// The hot functions by what they work on, hottest first; functions of no known kind are left out.
pub fn families(hot: &[Hot]) -> Vec<Family> {
    let mut out: Vec<Family> = Vec::new();
    for h in hot {
        let Some(known) = family(&h.function) else { continue };
        let Some(type_name) = known.types.first() else { continue };
        let at = out.iter().position(|f| f.type_name == *type_name).unwrap_or_else(|| {
            let (functions, members) = (Vec::new(), Vec::new());
            out.push(Family { type_name, percent: h.percent, functions, members });
            out.len() - 1
        });
        let Some(f) = out.get_mut(at) else { continue };
        f.functions.push(h.function.clone());
        match known.members.iter().find(|m| h.function.contains(m.0)) {
            Some(m) if !f.members.contains(&m.1) => f.members.push(m.1),
            _ => {}
        }
    }
    join_queue(&mut out);
    out
}

/// The queue of spinners is a part of the sleeping lock whose functions are hot beside it.
fn join_queue(all: &mut Vec<Family>) {
    let Some(queue) = all.iter().position(|f| f.type_name == "optimistic_spin_queue") else { return };
    let mut locks = all.iter().enumerate().filter(|(_, f)| matches!(f.type_name, "rw_semaphore" | "mutex"));
    let (Some((lock, _)), None) = (locks.next(), locks.next()) else { return };
    let queue_family = all[queue].clone();
    let f = &mut all[lock];
    f.percent = f.percent.max(queue_family.percent);
    f.functions = queue_family.functions.into_iter().chain(f.functions.drain(..)).collect();
    all.remove(queue);
    all.sort_by(|a, b| b.percent.total_cmp(&a.percent));
}

/// Types of known locks, trees and counters, with their members that the text names; for texts without a profile.
pub fn named_members(text: &str) -> Vec<Family> {
    let mut out: Vec<Family> = Vec::new();
    for known in crate::families::FAMILIES {
        let Some(type_name) = known.types.first().filter(|t| !out.iter().any(|f| f.type_name == **t)) else {
            continue;
        };
        let mut members: Vec<&'static str> =
            known.members.iter().map(|m| m.1).filter(|m| names(text, m)).collect();
        members.sort_unstable();
        members.dedup();
        if !members.is_empty() {
            out.push(Family { type_name, percent: 0.0, functions: Vec::new(), members });
        }
    }
    out
}

/// What diffs in the text do to structs. A hunk whose lines a mailer joined is read by its words.
pub fn changes(text: &str) -> Vec<Change> {
    let text: String = text.lines().map(|l| l.strip_prefix("> ").unwrap_or(l).to_string() + "\n").collect();
    let mut out: Vec<Change> = Vec::new();
    let (mut file, mut lines, mut head) = (String::new(), Vec::new(), None);
    for line in text.lines().chain(["diff --git end"]) {
        let header = line.starts_with("@@ ") || line.starts_with("diff --git ");
        if header || line.starts_with("--- a/") || line == "-- " {
            out.extend(head.take().and_then(|h: String| hunk(&h, &lines, &file)));
            lines.clear();
        }
        if let Some(name) = line.strip_prefix("+++ b/") {
            file = name.trim().into();
        } else if line.starts_with("@@ ") {
            head = Some(line.to_string());
        } else if head.is_some() {
            lines.push(line.to_string());
        }
    }
    out.extend(flattened(&text));
    if !text.contains("@@ ") {
        out.extend(headless(&text));
    }
    out
}

/// Lines of context around the changes of a diff whose headers are missing.
const CONTEXT: usize = 8;

/// A diff of which somebody pasted the lines alone: changed members with those around them.
fn headless(text: &str) -> Option<Change> {
    let lines: Vec<&str> = text.lines().collect();
    let changed = |l: &&str| l.starts_with(['+', '-']) && l.get(1..).and_then(member).is_some();
    let at: Vec<usize> = (0..lines.len()).filter(|i| changed(&lines[*i])).collect();
    let near = |i: &usize| at.iter().any(|a| a.abs_diff(*i) <= CONTEXT);
    let kept: Vec<String> = (0..lines.len()).filter(near).map(|i| lines[i].to_string()).collect();
    hunk("", &kept, "")
}

/// Whether a word stands in the text, as a name of its own, outside of diffs.
pub fn names(text: &str, word: &str) -> bool {
    let prose = text.lines().filter(|l| !l.starts_with(['+', '-', ' ', '\t']));
    let is = |w: &str| w == word;
    prose.flat_map(|l| l.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')).any(is)
}

/// The struct that a hunk's header or the nearest line above the first change opens.
fn opened(line: &str) -> Option<String> {
    let mut all = line.split_whitespace().skip_while(|w| !matches!(*w, "struct" | "union"));
    let name = all.nth(1)?;
    let opens = all.next().is_some_and(|w| w.starts_with('{'));
    (opens && is_name(name)).then(|| name.to_string())
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn hunk(head: &str, lines: &[String], file: &str) -> Option<Change> {
    let mut change = Change { type_name: opened(head), file: file.into(), ..Change::default() };
    let mut touched = false;
    for line in lines {
        let (sign, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
        let member = member(rest);
        match (sign, member) {
            ("+", Some(m)) => change.added.push(m),
            ("-", Some(m)) => change.removed.push(m),
            (" " | "\t", Some(m)) => change.near.push(m),
            _ if !touched && opened(rest).is_some() => change.type_name = opened(rest),
            _ => {}
        }
        touched |= matches!(sign, "+" | "-");
    }
    settle(change)
}

/// A name in both lists moved; a hunk without members says nothing.
fn settle(mut change: Change) -> Option<Change> {
    let Change { added, removed, .. } = &change;
    change.moved = added.iter().filter(|m| removed.contains(m)).cloned().collect();
    let moved = change.moved.clone();
    change.added.retain(|m| !moved.contains(m));
    change.removed.retain(|m| !moved.contains(m));
    (change.added.len() + change.removed.len() + change.moved.len() > 0).then_some(change)
}

/// The member that a line declares: `type name;`, with arrays, bits, attributes and comments. Statements are none.
fn member(line: &str) -> Option<String> {
    let code = line.split("/*").next()?.split("//").next()?.trim();
    let code = code.strip_suffix(';')?;
    let code = code.split([':', '[']).next()?.trim_end();
    let call = code.contains(['=', '(', ')', '{', '}', '.', '>', '<', '+', '?', '"']);
    let name = code.rsplit([' ', '\t', '*']).next()?;
    let typed = code.len() > name.len();
    let keyword = code.split_whitespace().next().is_some_and(|w| matches!(w, "return" | "goto" | "case"));
    (!call && typed && !keyword && is_name(name)).then(|| name.to_string())
}

/// Hunks whose lines were joined: everything stands behind the `@@` of one line.
fn flattened(text: &str) -> Vec<Change> {
    let mut out = Vec::new();
    for line in text.lines().filter(|l| l.contains("@@ ") && l.contains(';')) {
        let file = line.split("+++ b/").nth(1).and_then(|r| r.split_whitespace().next()).unwrap_or_default();
        for part in line.split("@@ ").skip(2).step_by(2) {
            let type_name = opened(part);
            let mut change = Change { type_name, file: file.into(), ..Change::default() };
            let body = without_comments(part.split_once('{').map_or(part, |p| p.1));
            for declaration in body.split_inclusive(';') {
                let sign = declaration.split_whitespace().find(|w| matches!(*w, "+" | "-"));
                let bare: Vec<&str> =
                    declaration.split_whitespace().filter(|w| !matches!(*w, "+" | "-" | "#endif")).collect();
                let Some(m) = member(&bare.join(" ")) else { continue };
                match sign {
                    Some("+") => change.added.push(m),
                    Some("-") => change.removed.push(m),
                    _ => change.near.push(m),
                }
            }
            out.extend(settle(change));
        }
    }
    out
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_string();
    first + &parts.filter_map(|p| Some(p.split_once("*/")?.1)).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROBOT: &str = "FYI, we noticed a -7.0% regression of bench.ops due to commit:\n\n\
        commit: 0123456789abcdef0123456789abcdef01234567 (\"mm/x: add a word\")\n\n\
        commit: \n  aaaabbbb01 (\"mm/x: prepare\nthe ground\")\n  0123456789 (\"mm/x: add a word\")\n\n\
           72.56           -19.7       52.82 ±  2%  perf-profile.calltrace.cycles-pp.osq_lock.rwsem_x\n\
            0.91 ±  2%      -0.2        0.70        perf-profile.self.cycles-pp.rwsem_spin_on_owner\n\
            1.00            +0.0        1.00        perf-profile.self.cycles-pp.memcpy\n";

    #[test]
    fn commits_and_functions_of_a_robots_report() {
        let (base, head) = blamed(ROBOT);
        assert_eq!(base.unwrap().title, "mm/x: prepare the ground");
        assert_eq!(head.unwrap().hash, "0123456789abcdef0123456789abcdef01234567");
        let hot = hot(ROBOT);
        assert_eq!((hot[0].function.as_str(), hot[0].percent), ("osq_lock", 52.82));
        let families = families(&hot);
        let names: Vec<&str> = families.iter().map(|f| f.type_name).collect();
        assert_eq!(names, ["rw_semaphore"]);
        assert_eq!((families[0].percent, families[0].functions[0].as_str()), (52.82, "osq_lock"));
        assert_eq!(families[0].members, ["owner"]);
    }

    #[test]
    fn prose_blames_a_commit() {
        let text =
            "slower by a tenth, caused by commit \n> deadbee1234 (\"net: move\n> something\"). See 12345678.";
        assert_eq!(blamed(text).1.unwrap().title, "net: move something");
        assert_eq!(blamed("nothing to see"), (None, None));
    }

    #[test]
    fn a_raw_mail_is_decoded() {
        let raw = "Content-Transfer-Encoding: quoted-printable\n\ncommit: deadbee1234 (\"net: mo=\nve =E2=80=9Cit\")\n\
            x =3D y, 50=\n%, a=zz";
        let text = decoded(raw);
        assert_eq!(blamed(&text).1.unwrap().title, "net: move \u{201c}it");
        assert!(text.ends_with("x = y, 50%, a=zz"), "{text}");
        assert_eq!(decoded("a=3Db"), "a=3Db", "no header, no code");
    }

    const PATCH: &str = "+++ b/include/linux/x.h\n@@ -10,6 +10,6 @@ struct outer {\n \tlong a;\n-\tstruct lock l;\n \
        \tunsigned long b; /* why */\n+\tstruct lock l;\n+\tint fresh:3;\n+\n \tint c[4];\n";

    #[test]
    fn members_of_a_diff() {
        let found = changes(PATCH);
        let c = &found[0];
        assert_eq!((c.type_name.as_deref(), c.file.as_str()), (Some("outer"), "include/linux/x.h"));
        assert_eq!(
            (c.moved.as_slice(), c.added.as_slice()),
            (&["l".to_string()][..], &["fresh".to_string()][..])
        );
        assert_eq!(c.near, ["a", "b", "c"]);
        let one_line = PATCH.replace("+\n", "").replace('\n', " ");
        let flat = changes(&one_line);
        assert_eq!(flat[0].moved, ["l"], "{flat:?}");
        assert_eq!(flat[0].type_name.as_deref(), Some("outer"));
    }

    #[test]
    fn lines_of_a_diff_without_its_headers() {
        let bare: String = PATCH.lines().skip(2).map(|l| l.to_string() + "\n").collect();
        let bare = plain(&bare.replace('\t', "\u{a0}\u{a0}"));
        let found = changes(&format!("The owner waits.\n\n{bare}"));
        assert_eq!((found[0].moved.as_slice(), &found[0].type_name), (&["l".to_string()][..], &None));
        assert!(names("The owner waits.", "owner") && !names("+\towner;\nownership", "owner"));
    }

    #[test]
    fn code_is_no_member() {
        for line in ["\treturn x;", "\tcall(a, b);", "\tx = 1;", "\tgoto out;", "\tfoo->bar;", "};"] {
            assert_eq!(member(line), None, "{line}");
        }
        assert_eq!(member("\tstruct list_head *next[2];").as_deref(), Some("next"));
        assert!(changes("@@ -1,2 +1,2 @@ int f(void)\n-\treturn 1;\n+\treturn 2;\n").is_empty());
    }
}
