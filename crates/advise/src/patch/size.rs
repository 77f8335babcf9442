//! Sizes and alignments of a type that become data. Another size changes what a program prints, how many objects fit,
//! which branch it takes.

use super::body::Source;
use super::bytes::{carved_from, is_byte, place_of_bytes};
use super::callee::walks_from;
use super::neighbours::{may_be_function, members_in};
use super::number::Numbers;
use super::objects::{Objects, is_scalar};
use super::places::subtracts;
use super::scan::Code;

/// The first such use: its place, and a sentence. Objects that become `whole` lines leave no room between them.
pub(super) fn in_file(
    objects: &Objects<'_, '_>,
    files: &[(&str, &str)],
    whole: bool,
    aligns: bool,
) -> Option<(usize, String)> {
    let numbers = Numbers { code: &objects.code, files };
    ["sizeof", "alignof", "_Alignof", "__alignof__"]
        .iter()
        .filter(|word| aligns || **word == "sizeof")
        .find_map(|word| {
            objects.code.places(word).iter().find_map(|&i| {
                let end = measured(objects, i)?;
                let what = if *word == "sizeof" { "size" } else { "alignment" };
                let shown = || numbers.shown(i, end).map(|how| format!("its {what} {how}"));
                Some((i, bytes(objects, i).or_else(|| enumerated(objects, i)).or_else(shown)?))
            })
        })
        .or_else(|| {
            (1..objects.code.len()).find_map(|i| {
                let computed = || computed(objects, i).or_else(|| strided(objects, i, files));
                let how = counted(objects, i, files).or_else(computed).or_else(|| asked(objects, i, whole));
                let how = how.or_else(|| most(&numbers, objects, i)).or_else(|| apart(objects, i, files));
                let how = how.or_else(|| beyond(&numbers, objects, i));
                Some((i, how?))
            })
        })
}

/// `enum { SHIFT = __builtin_ctz(sizeof(struct s)) }`
fn enumerated(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let code = &objects.code;
    let open = std::iter::successors(code.open_before(i), |&o| code.open_before(o))
        .find(|&o| code.text(o) == "{")?;
    let constant = (open + 1..i).rev().find(|&j| code.text(j) == "=")?.checked_sub(1)?;
    let head = (open.saturating_sub(4)..open).any(|j| code.text(j) == "enum");
    head.then(|| format!("its size is kept in {}", code.text(constant)))
}

/// `(struct s *)((char *)table + (i << 3))`: where an object lies is computed by a number.
fn computed(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let code = &objects.code;
    let close =
        code.closing(i).filter(|c| objects.text(i) == "(" && c - i < 6 && objects.text(c - 1) == "*")?;
    let end = code.closing(close + 1).filter(|_| objects.text(close + 1) == "(")?;
    let inside = close + 2..end;
    let sized =
        inside.clone().any(|j| matches!(objects.text(j), "sizeof" | "offsetof" | "__builtin_offsetof"));
    let scaled = |j: usize| {
        let (text, before) = (objects.text(j), objects.text(j - 1));
        let shift = text == "<" && before == "<";
        let times = text == "*" && before != "(" && !matches!(objects.text(j + 1), ")" | "*");
        let fixed = |k: usize| {
            let word = objects.text(k);
            let capitals = word.len() > 1 && !word.contains(|c: char| c.is_ascii_lowercase());
            word.starts_with(|c: char| c.is_ascii_digit()) || code.is_word(k) && capitals
        };
        (shift && fixed(j + 1)) || (times && (fixed(j + 1) || fixed(j - 1)))
    };
    let of_bytes = |j: usize| {
        let declared = code.variable(objects.text(j), j).filter(|_| code.is_word(j));
        is_byte(objects.text(j)) || declared.is_some_and(|d| is_byte(objects.text(d.ty)) && d.depth == 1)
    };
    let bytes = inside.clone().any(of_bytes);
    let ours = objects.names_type(i, close) && bytes && !sized;
    (ours && inside.clone().any(scaled)).then(|| "the place of an object is computed by a number".into())
}

/// `sum(4, &v[0].a, 6)`: a function goes from one object's member to the next one's by a number of elements.
fn strided(objects: &Objects<'_, '_>, i: usize, files: &[(&str, &str)]) -> Option<String> {
    let name = objects.text(i);
    if !objects.code.is_word(i) || objects.text(i + 1) != "(" || !objects.code.is_in_function(i) {
        return None;
    }
    let arguments = objects.arguments(i + 1);
    let member = |&(from, to): &(usize, usize)| {
        let at = from + usize::from(objects.text(from) == "&");
        let close = objects.code.matching(at + 1, ["[", "]"], 60).filter(|_| objects.text(at + 1) == "[");
        close.is_some_and(|c| objects.is_object(at) && objects.text(c + 1) == "." && c + 2 < to)
    };
    let index = arguments.iter().position(member)?;
    let sized = arguments.iter().any(|&(from, to)| (from..to).any(|j| objects.text(j) == "sizeof"));
    let number = |&(from, to): &(usize, usize)| {
        to == from + 1 && objects.text(from).starts_with(|c: char| c.is_ascii_digit())
    };
    if sized || arguments.iter().filter(|a| number(a)).count() < 2 {
        return None;
    }
    walks_from(files, name, index).then(|| format!("{name}() goes from one object to the next by a number"))
}

/// `v.max_size()`: how many fit into all memory.
fn most(numbers: &Numbers<'_, '_, '_>, objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let code = &objects.code;
    if objects.text(i) != "max_size" || objects.text(i + 1) != "(" {
        return None;
    }
    let before = match objects.text(i - 1) {
        "." => i.checked_sub(2)?,
        ">" => i.checked_sub(3)?,
        _ => return None,
    };
    let start = code.operand_start(before);
    let (at, _) = code.variable_at(objects.text(start), start)?;
    let ours = objects.names_type(code.start_of(at), at);
    let how = numbers.shown(start, code.closing(i + 1)? + 1).filter(|_| ours)?;
    Some(format!("how many fit into memory {how}"))
}

/// `apart(&v[0], &v[1])`: a function counts the bytes from one object to another one.
fn apart(objects: &Objects<'_, '_>, i: usize, files: &[(&str, &str)]) -> Option<String> {
    let name = objects.text(i);
    if !objects.code.is_word(i) || objects.text(i + 1) != "(" || !objects.code.is_in_function(i) {
        return None;
    }
    let arguments = objects.arguments(i + 1);
    let given: Vec<usize> = (0..arguments.len()).filter(|&n| objects.is_address(arguments[n])).collect();
    if given.len() < 2 {
        return None;
    }
    let mut defining = files.iter().filter(|f| may_be_function(f.1, name));
    let counts = defining.any(|f| {
        let source = Source::new(f.1);
        subtracts(&objects.elsewhere(&source), name, &given)
    });
    counts.then(|| format!("{name}() counts the bytes from one object to another one"))
}

/// `offsetof(struct outer, tail)` as a number, where the type stands before `tail` in a struct that holds it.
pub(super) fn offset_behind(
    outer: &Objects<'_, '_>,
    own: &[String],
    files: &[(&str, &str)],
) -> Option<(usize, String)> {
    let numbers = Numbers { code: &outer.code, files };
    let asked = ["offsetof", "__builtin_offsetof"].iter().flat_map(|w| outer.code.places(w));
    asked.copied().find_map(|i| {
        let close = outer.code.closing(i + 1)?;
        let [(from, to), (name, end)] = outer.arguments(i + 1)[..] else { return None };
        let ty = (from..to).rev().find(|&j| outer.code.is_word(j)).filter(|_| outer.names_type(from, to))?;
        let members = members_in(files, outer.text(ty));
        let held = members.iter().position(|m| m.ty.split(' ').any(|w| own.iter().any(|n| n == w)))?;
        let at = members.iter().position(|m| m.name == outer.text(name)).filter(|_| end == name + 1)?;
        let how = numbers.shown(i, close + 1).filter(|_| at > held)?;
        Some((i, format!("the offset of {}, which is behind it, {how}", outer.text(name))))
    })
}

/// `(char *)(p + 1) - (char *)p`
fn beyond(numbers: &Numbers<'_, '_, '_>, objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let code = &objects.code;
    let cast = |at: usize| {
        let close = code.closing(at).filter(|c| objects.text(at) == "(" && c - at < 6)?;
        (objects.text(close - 1) == "*" && objects.text(close - 2) == "char").then_some(close + 1)
    };
    let sum = cast(i).filter(|&s| objects.text(s) == "(" && objects.text(s + 2) == "+")?;
    let one = objects.is_object(sum + 1) && objects.text(sum + 3) == "1";
    let minus = code.closing(sum).filter(|&c| one && objects.text(c + 1) == "-")? + 1;
    let end = objects.address(cast(minus + 1)?)?;
    numbers.shown(i, end).map(|how| format!("its size {how}"))
}

/// What a size alone decides: whether there is padding between the same members, whether an atomic one needs a lock,
/// where the next object of a section begins.
fn asked(objects: &Objects<'_, '_>, i: usize, whole: bool) -> Option<String> {
    match objects.text(i) {
        "has_unique_object_representations" | "has_unique_object_representations_v" => {
            let close = objects.code.matching(i + 1, ["<", ">"], 20)?;
            objects.names_type(i + 1, close).then(|| "it is asked whether it has padding".into())
        }
        "is_always_lock_free" | "is_lock_free" => {
            let (from, _) = (objects.code.operand_start(i), i);
            let (start, _) = objects.code.statement(i);
            let from =
                (start..from).rev().take(12).take_while(|&j| objects.text(j) != "(").last().unwrap_or(from);
            let ours = objects.names_type(from, i) || (from..i).any(|j| objects.is_variable(j));
            ours.then(|| "it is asked whether atomic ones need a lock".into())
        }
        word if word.starts_with("__start_") && !whole => {
            let name = super::assembly::variable(objects, i)?;
            Some(format!("{name} begins a section of them that is walked as one array"))
        }
        _ => None,
    }
}

/// Memory of so many bytes for objects: `malloc(24)`, `(struct s *)pool` of an array of numbers, and what functions of
/// the sources hand out.
fn counted(objects: &Objects<'_, '_>, i: usize, files: &[(&str, &str)]) -> Option<String> {
    let word = objects.text(i);
    if matches!(word, "(" | "reinterpret_cast") {
        return carved_from(objects, i, is_scalar).map(place_of_bytes);
    }
    // `allocator.allocate(1)` counts objects.
    let member = matches!(objects.text(i.wrapping_sub(1)), "." | ">" | ":");
    let counts = word == "allocate" && member;
    if !objects.code.is_word(i) || objects.text(i + 1) != "(" || counts || !gives_object(objects, i) {
        return None;
    }
    let close = objects.code.closing(i + 1)?;
    let number = |j: usize| objects.text(j).starts_with(|c: char| c.is_ascii_digit());
    let sign = |j: usize| matches!(objects.text(j), "+" | "*" | "," | "(" | ")");
    let numbers = (i + 2..close).any(number) && (i + 2..close).all(|j| number(j) || sign(j));
    let hands_out = || (!member).then(|| handed_out(files, word)).flatten();
    if numbers && (word.contains("alloc") || hands_out().is_some()) {
        return Some(format!("{word}() is told its size as a number"));
    }
    let parts = hands_out()?;
    parts.then(|| format!("{word}() gives places of so many bytes for it"))
}

/// What the call at `i` returns is kept in a pointer to the type, or cast to one.
fn gives_object(objects: &Objects<'_, '_>, i: usize) -> bool {
    let (start, _) = objects.code.statement(i);
    let Some(equal) = (start..i).rev().find(|&j| objects.text(j) == "=") else { return false };
    let cast = (equal..i).any(|j| objects.is_name(j));
    let last = equal - 1;
    let element =
        (objects.text(last) == "]").then(|| (start..last).rev().find(|&j| objects.text(j) == "[")).flatten();
    let target = element.map_or(last, |open| open - 1);
    let at_once = i == equal + 1;
    cast || at_once && (objects.is_object(target) || objects.is_variable_or_declared(target))
}

/// Whether the function `name` of the sources, which returns a place in an array of bytes, returns one of parts of a
/// number of bytes: `return slots[next++]` of `char slots[32][16]`. `None` if it does not return such a place.
fn handed_out(files: &[(&str, &str)], name: &str) -> Option<bool> {
    files.iter().filter(|f| may_be_function(f.1, name)).find_map(|f| {
        let source = Source::new(f.1);
        let code = Code::new(&source);
        let found = code.definitions(name).find_map(|(open, brace)| {
            let pointer = code.text(open.checked_sub(2)?) == "*";
            let end = code.close_of(brace);
            let array = |&j: &usize| {
                let declared = code.variable(code.text(j), j).filter(|_| code.is_word(j))?;
                let byte = is_byte(code.text(declared.ty));
                let place = match declared.depth {
                    2 => code.text(j + 1) == "[",
                    _ => declared.depth == 1 && code.text(j + 1) == "+",
                };
                (byte && place).then_some(declared.depth == 2)
            };
            (brace..end).filter(|_| pointer).find_map(|j| array(&j))
        });
        found
    })
}

/// One past the operand of `sizeof` at `i`, if that is the type, an object or an array of them.
pub(super) fn measured(objects: &Objects<'_, '_>, i: usize) -> Option<usize> {
    let parentheses = objects.text(i + 1) == "(";
    let end = if parentheses { objects.code.closing(i + 1)? + 1 } else { objects.code.operand_end(i + 1) };
    let (from, to) = if parentheses { (i + 2, end - 1) } else { (i + 1, end) };
    let mut at = from;
    while matches!(objects.text(at), "struct" | "const" | "class" | "union" | "volatile") {
        at += 1;
    }
    // `sizeof(X::member)` is another size.
    let named = objects.is_name(at) && objects.text(to - 1) != "*" && objects.text(at + 1) != ":";
    (named || is_object(objects, from, to)).then_some(end)
}

/// The expression is an object or an array of them, and no pointer.
fn is_object(objects: &Objects<'_, '_>, from: usize, to: usize) -> bool {
    let stars =
        (from..to).take_while(|&j| matches!(objects.text(j), "*" | "(")).filter(|&j| objects.text(j) == "*");
    let stars = stars.count();
    let Some(at) = (from..to).find(|&j| !matches!(objects.text(j), "*" | "(")) else { return false };
    if objects.text(at) == "this" {
        return stars == 1 && at + 1 == to && objects.is_method(at);
    }
    let last = objects.path_end(at);
    let (mut end, mut subscripts) = (last + 1, 0);
    while objects.text(end) == "[" {
        let Some(close) = objects.code.matching(end, ["[", "]"], 100) else { return false };
        (end, subscripts) = (close + 1, subscripts + 1);
    }
    while end < to && objects.text(end) == ")" {
        end += 1;
    }
    end == to && objects.is_object(last) && objects.is_reached(last, stars + subscripts)
}

/// `char buf[sizeof(struct s)]`, unless that is aligned for it.
fn bytes(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let (start, end) = objects.code.statement(i);
    let open = (start..i).rev().find(|&j| matches!(objects.text(j), "[" | "]" | "(" | "="))?;
    let name = open.checked_sub(1).filter(|_| objects.text(open) == "[")?;
    let declared = objects.code.declaration(name)?;
    let aligned = (start..end).any(|j| matches!(objects.text(j), "alignas" | "_Alignas" | "aligned"));
    let bytes = is_byte(objects.text(declared.ty));
    (bytes && !aligned).then(|| format!("{} is an array of as many bytes", objects.text(name)))
}

#[cfg(test)]
mod tests {
    use crate::patch::uses::{Ask, check};

    #[test]
    fn what_stands_behind_it() {
        let run = |code: &str| {
            let own = "struct s { int a; long b; };\nstruct outer { long head; struct s own; long tail; };";
            check("s", None, Ask::SIZE, &[("x.c", &format!("{own}\n{code}\n"))]).is_ok()
        };
        assert!(!run("void f(void) { printf(\"%zu\", offsetof(struct outer, tail)); }"));
        assert!(run("void f(void) { printf(\"%zu\", offsetof(struct outer, head)); }"));
        assert!(run("void f(void) { printf(\"%zu\", offsetof(struct outer, own)); }"));
        assert!(!run("void f(struct s *p) { printf(\"%td\", (char *)(p + 1) - (char *)p); }"));
    }

    #[test]
    fn memory_that_functions_hand_out() {
        let run = |code: &str| {
            let own = "struct s { int a; long b; };\n";
            check("s", None, Ask::SIZE, &[("x.c", &format!("{own}{code}\n"))]).is_ok()
        };
        let parts = "static char mem[8][16]; static int n;\nvoid *get(void) { return mem[n++]; }\n";
        let arena = "static char mem[512]; static size_t n;\nvoid *get(size_t k) { void *p = mem + n; n += k; \
            return p; }\n";
        assert!(!run(&format!("{parts}void f(void) {{ struct s *p = get(); p->a = 1; }}")));
        assert!(!run(&format!("{arena}void f(void) {{ struct s *p = get(16); p->a = 1; }}")));
        assert!(run(&format!("{arena}void f(void) {{ struct s *p = get(sizeof *p); p->a = 1; }}")));
        assert!(run(&format!("{parts}void f(void) {{ int *p = get(); *p = 1; }}")));
    }

    #[test]
    fn what_a_size_decides() {
        let run = |ask: Ask, path: &str, code: &str| {
            let text = format!("struct s {{ int a; long b; }};\n{code}\n");
            check("s", None, ask, &[(path, &text)]).is_ok()
        };
        for code in [
            "bool f() { return std::has_unique_object_representations_v<s>; }",
            "template <class T> bool u(const T &) { return std::has_unique_object_representations_v<T>; }\n\
             bool f(s &x) { return u(x); }",
            "bool f() { return std::atomic<s>::is_always_lock_free; }",
            "std::atomic<s> x;\nbool f() { return x.is_lock_free(); }",
            "extern struct s __start_all[], __stop_all[];",
        ] {
            assert!(!run(Ask::SIZE, "x.cc", code), "{code}");
            assert!(run(Ask { size: false, ..Ask::LAYOUT }, "x.cc", code), "{code}");
        }
        assert!(run(
            Ask::SIZE,
            "x.cc",
            "bool f(s &x) { return std::atomic<long>::is_always_lock_free && x.a; }"
        ));
        assert!(run(Ask::SIZE, "x.cc", "extern struct t __start_all[];\nextern struct s all[];"));
        let member = |what: &str| {
            let holder = "class T { s own; static long at[4]; };\n";
            format!("{holder}int T::n = sizeof({what}) / sizeof(uint64_t);")
        };
        assert!(run(Ask::SIZE, "x.cc", &member("T::at")));
        assert!(!run(Ask::SIZE, "x.cc", &member("T")));
    }
}
