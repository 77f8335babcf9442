//! Uses that go from one object of an array to the next by bytes: copies of a whole array whose size is not that of its
//! objects, numbers made of addresses, distances in bytes. Where elements part they meet something else.

use super::objects::Objects;
use super::overlay::takes_bytes;
use super::scan::is_number_type;
use super::size::measured;

/// Functions that are told a size, of all of it or of one element.
const SIZED: [&str; 16] = [
    "memcpy", "memmove", "memset", "memcmp", "bcmp", "mempcpy", "qsort", "qsort_r", "bsearch", "lfind",
    "write", "read", "fwrite", "fread", "send", "recv",
];

/// The first such use: its place, and a sentence.
pub(super) fn in_file(objects: &Objects<'_, '_>, files: &[(&str, &str)]) -> Option<(usize, String)> {
    (1..objects.code.len()).find_map(|i| {
        let told = || sized(objects, i, files);
        let seen = || distant(objects, i).or_else(|| viewed(objects, i)).or_else(|| counted(objects, i));
        Some((i, numbered(objects, i).or_else(seen).or_else(told)?))
    })
}

/// `((uintptr_t)g - base) >> 4`, `base = (uintptr_t)gates`; to ask for its alignment is fine.
fn numbered(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let close = match objects.text(i) {
        "(" => objects.code.closing(i)?,
        "reinterpret_cast" => objects.code.matching(i + 1, ["<", ">"], 12)?,
        _ => return None,
    };
    let words = i + 1..close;
    let number = words.clone().any(|j| is_number_type(objects.text(j)));
    let pointer = words.clone().any(|j| objects.text(j) == "*");
    let ours = objects.address(close + 1)?;
    let masked = matches!(objects.text(ours), "&" | "%") || matches!(objects.text(ours + 1), "&" | "%");
    let kept = matches!(objects.text(i - 1), "=" | "return");
    let (start, end) = objects.code.statement(i);
    let counted = (start..end).any(|j| match objects.text(j) {
        "-" => objects.text(j + 1) != ">",
        "<" | ">" => objects.text(j + 1) == objects.text(j),
        word => word == "/",
    });
    let compared = (start..end).any(|j| matches!(objects.text(j), "=" | "!") && objects.text(j + 1) == "=");
    let becomes =
        number && !pointer && words.len() < 6 && (counted && !(masked && compared) || kept && !masked);
    becomes.then(|| "its address becomes a number".into())
}

/// `(char *)&gates[3] - (char *)gates`
fn distant(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let cast = objects.cast(i).filter(|_| objects.text(i) == "(")?;
    let next = objects.cast(cast.end + 1).filter(|_| objects.text(cast.end) == "-")?;
    let behind = (objects.text(next.end), objects.text(next.end + 1));
    // `> 0` asks for the order alone.
    let compared = matches!(behind.0, "<" | ">" | "=" | "!") && behind.0 != behind.1;
    (!compared).then(|| "bytes between two objects are counted".into())
}

/// `void *all = gates; .. static_cast<const char *>(all)`
fn viewed(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let close = objects.code.matching(i + 1, ["<", ">"], 12).filter(|_| objects.text(i) == "static_cast")?;
    let number = (i + 2..close).any(|j| is_number_type(objects.text(j)));
    let (variable, (from, to)) = (objects.text(close + 2), objects.function(i));
    let kept = |&&j: &&usize| {
        let before = |n: usize| objects.text(j.wrapping_sub(n));
        let void = (before(2), before(1)) == ("void", "*");
        (from..to).contains(&j) && void && objects.text(j + 1) == "=" && objects.address(j + 2).is_some()
    };
    let pointer = objects.text(close - 1) == "*" && objects.text(close + 3) == ")";
    (number && pointer && objects.code.places(variable).iter().find(kept).is_some())
        .then(|| "a void pointer to it becomes one to numbers".into())
}

/// `{ (const void *)gates, 8 }`: who reads the table counts something, and not objects.
fn counted(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let code = &objects.code;
    // The braces of a value, not of a body.
    if objects.text(i) != "{" || !matches!(objects.text(i - 1), "=" | "," | "{") {
        return None;
    }
    let close = code.matching(i, ["{", "}"], 60)?;
    let value = |j: usize| {
        let item = matches!(objects.text(j - 1), "{" | "," | "=");
        let before = item && code.open_before(j) == Some(i);
        let cast = code.closing(j).filter(|c| objects.text(j) == "(" && objects.text(c - 1) == "*");
        cast.filter(|c| before && objects.text(c - 2) == "void" && objects.address(c + 1).is_some())
    };
    let beside = |j: usize| objects.text(j).starts_with(|c: char| c.is_ascii_digit());
    let kept = (i + 1..close).any(|j| value(j).is_some()) && (i + 1..close).any(beside);
    kept.then(|| "a table keeps its address, of no type, beside a number".into())
}

/// `memcpy(image, gates, sizeof(image))`, `qsort(gates, 4, 16, by)`, `hash(gates, 64)`: a size that does not come from
/// the type's.
fn sized(objects: &Objects<'_, '_>, i: usize, files: &[(&str, &str)]) -> Option<String> {
    let name = objects.text(i);
    let code = &objects.code;
    if !code.is_word(i) || objects.text(i + 1) != "(" || !code.is_in_function(i) {
        return None;
    }
    let arguments = objects.arguments(i + 1);
    let given = arguments.iter().position(|&a| objects.is_address(a))?;
    let own = |&(from, to): &(usize, usize)| {
        let ours = |j: usize| measured(objects, j).is_some() || objects.measures(j, to);
        (from..to).any(|j| objects.text(j) == "sizeof" && ours(j))
    };
    let digits = |&(from, to): &(usize, usize)| {
        let number = |j: usize| objects.text(j).trim_end_matches(['u', 'U', 'l', 'L']).parse::<u64>();
        // `sizeof(void *)` is a pointer's.
        let pointer = objects.text(to - 1) == ")" && objects.text(to - 2) == "*";
        !pointer && (from..to).any(|j| objects.text(j) == "sizeof" || number(j).is_ok_and(|n| n >= 8))
    };
    let others = || arguments.iter().enumerate().filter(|a| a.0 != given).map(|a| a.1);
    let known = SIZED.contains(&name);
    let untyped = || files.iter().any(|f| takes_bytes(f.1, name, given));
    if others().any(own) || !(known || untyped()) {
        return None;
    }
    others().any(digits).then(|| format!("{name}() is told a size that is not made of its own"))
}

#[cfg(test)]
mod tests {
    use crate::edit::Edit;
    use crate::patch::uses::{Ask, check};

    const GATES: &str = "struct gate { uint64_t passed, weight; };\nstruct gate gates[4];\n";

    fn holds(edit: &str, code: &str) -> bool {
        let edits: Vec<Edit> = vec![edit.parse().unwrap()];
        let text = format!("{GATES}{code}\n");
        check("gate", Some(&edits), Ask::LAYOUT, &[("g.c", &text)]).is_ok()
    }

    #[test]
    fn what_walks_an_array_by_bytes_is_refused() {
        for code in [
            "long f(void) { memcpy(image, gates, sizeof(image)); return image[0]; }",
            "void f(void) { memset(gates, 0, 4 * 2 * sizeof(uint64_t)); }",
            "void f(void) { qsort(gates, 4, 16, by); }",
            "unsigned hash(const void *p, unsigned n);\nunsigned f(void) { return hash(gates, 64); }",
            "long f(struct gate *g) { return ((uintptr_t)g - (uintptr_t)gates) >> 4; }",
            "long f(void) { uintptr_t base = (uintptr_t)gates; return base; }",
            "long f(void) { return ((char *)&gates[3] - (char *)gates) / 16; }",
            "long f(void) { const void *all = gates; const uint64_t *word = all; return word[2]; }",
            "union all { struct gate g[4]; uint64_t words[8]; };",
            "union all { struct gate g[N]; unsigned char raw[16 * N]; };",
            "static const uint64_t *words(const void *p) { return p; }\nlong f(void) { return words(gates)[2]; }",
            "static const struct view panel = { (const void *)gates, 8 };",
            "unsigned token(struct gate *g) { return (unsigned)((uintptr_t)g & 0x30) >> 4; }",
            "void f(void) { const void *all = gates; out.write(static_cast<const char *>(all), 64); }",
            "long f(void) { const uint64_t *p = &gates[0].passed; return p[2]; }",
        ] {
            assert!(!holds("element=64", code), "{code}");
        }
    }

    #[test]
    fn what_counts_objects_is_not() {
        for code in [
            "void f(void) { qsort(gates, 4, sizeof gates[0], by); memset(gates, 0, sizeof(gates)); }",
            "void f(void) { qsort(gates, 4, sizeof(struct gate), by); }",
            "void f(struct gate *g) { memcpy(&gates[0].passed, &g->weight, sizeof(g->weight)); }",
            "long f(void) { return (char *)&gates[1] - (char *)&gates[0] > 0; }",
            "void f(void) { struct gate t[3] = { { 0 } }, *h = malloc(sizeof(*h)), copy;\n\
             memcpy(&copy, h, sizeof(copy)); }",
            "void f(struct gate *g) { memcpy(g, &gates[1], sizeof(*g)); }",
            "void f(struct gate *g) { struct gate t[3], *h = g; void *k; memcpy(&k, &h, sizeof(void *)); }",
            "void start(struct gate *g, int n);\nvoid f(void) { start(gates, 16); }",
            "long f(void) { return ((uintptr_t)gates & 63) == 0; }",
            "long f(struct gate *g) { return ((size_t)g | (size_t)gates) % 64; }",
            "int f(struct gate *g) { return ((uintptr_t)g & ((1 << 6) - 1)) == 0; }",
            "static const struct job jobs[] = { { run, gates, 4 } };",
            "void f(void) { if (1) { start(&t, 0, run, (void *)gates); } }",
            "static struct job j = { .n = 4, .arg = made(4, (void *)gates) };",
            "void f(struct gate *g) { memset(g, 0, sizeof(*g)); g->passed++; }",
            "long f(void) { long n = 0; for (struct gate *g = gates; g < gates + 4; g++) n += g->weight; return n; }",
            "void *run(void *arg) { struct gate *g = arg; g->passed++; return 0; }\n\
             void f(void) { pthread_create(&t[1], 0, run, &gates[1]); }",
        ] {
            assert!(holds("element=64", code), "{code}");
        }
    }
}
