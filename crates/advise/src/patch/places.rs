//! What else becomes of the places of members: pointers to members whose bytes are read, room behind a member that is
//! printed, functions that compare two addresses.

use super::body::Source;
use super::neighbours::{Member, Uses, may_be_function};
use super::number::Numbers;
use super::objects::Objects;
use super::scan::Code;

impl Uses<'_, '_, '_> {
    /// The member whose address is taken at `i`, and the place of its name.
    pub(super) fn member_address(&self, i: usize) -> Option<(&Member, usize)> {
        let objects = self.objects;
        // `a && p->b > 3`
        if objects.text(i + 1) == "&" || objects.text(i.saturating_sub(1)) == "&" {
            return None;
        }
        let cast = || objects.code.cast_before(i - 1).is_some();
        let before = |n: usize| objects.text(i.wrapping_sub(n));
        // `at++ & x->mask`
        let stepped = matches!((before(2), before(1)), ("+", "+") | ("-", "-"))
            && (matches!(before(3), ")" | "]") || i > 2 && objects.code.is_word(i - 3));
        let number = before(1).starts_with(|c: char| c.is_ascii_digit());
        let binary = i > 0
            && (objects.code.is_word(i - 1) && objects.text(i - 1) != "return"
                || matches!(objects.text(i - 1), ")" | "]") && !cast())
            || stepped
            || number;
        (!binary).then(|| self.own_member(i + 1)).flatten()
    }

    /// The member of the type that is accessed by the expression at `at`, and the place of its name.
    pub(super) fn own_member(&self, at: usize) -> Option<(&Member, usize)> {
        let objects = self.objects;
        let implicit = || objects.is_member_in_method(at).then(|| objects.path_end(at)).filter(|&l| l == at);
        let last = objects.accessed(at).or_else(implicit)?;
        Some((self.members.iter().find(|m| m.name == objects.text(last))?, last))
    }

    /// The variable whose declarator ends at `last`: `p`, and `f` of `int (**f)(void)`.
    pub(super) fn declarator(&self, last: usize) -> Option<usize> {
        let code = &self.objects.code;
        if code.text(last) != ")" {
            return Some(last);
        }
        let close = code.opening(last)?.checked_sub(1).filter(|&c| code.text(c) == ")")?;
        let star = code.opening(close).is_some_and(|open| code.text(open + 1) == "*");
        close.checked_sub(1).filter(|&v| star && code.is_word(v))
    }

    /// `__builtin_object_size(x.name, 0)`: the bytes from a member to the end.
    pub(super) fn rest(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        let close = objects.code.closing(i + 1)?;
        let (from, _) = *objects.arguments(i + 1).first()?;
        let at = from + usize::from(objects.text(from) == "&");
        let (member, _) = self.own_member(at)?;
        let numbers = Numbers { code: &objects.code, files: self.files };
        let how = numbers.shown(i, close + 1)?;
        Some(format!("the room from {} on {how}", member.name))
    }

    /// `&S::a`, where the bytes of a pointer to a member are copied: it holds an offset.
    pub(super) fn member_pointer(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        let code = &objects.code;
        let colons = |j: usize| (code.text(j), code.text(j + 1)) == (":", ":");
        let named = objects.is_name(i + 1) && colons(i + 2) && code.text(i + 5) != "(";
        let member = self.members.iter().find(|m| named && m.name == code.text(i + 4))?;
        // `int S::*m`
        let pointers =
            (1..code.len()).filter(|&j| objects.is_name(j) && colons(j + 1) && code.text(j + 3) == "*");
        let read = |&j: &usize| {
            let name = code.text(j + 4);
            code.places(name).iter().any(|&k| {
                let call = code.open_before(k).and_then(|o| o.checked_sub(1)).map_or("", |c| code.text(c));
                let copied = code.text(k.wrapping_sub(1)) == "&"
                    && matches!(call, "memcpy" | "memmove" | "hash" | "write");
                copied
                    || matches!(call, "bit_cast" | "as_bytes")
                    || code.text(k.wrapping_sub(1)) == ")" && call == "bit_cast"
            })
        };
        let mut pointers = pointers.filter(read);
        pointers.next().map(|_| format!("the offset of {} is read from a pointer to a member", member.name))
    }

    /// `std::map<int *, X> m; m[&x.a]`, `std::sort(v.begin(), v.end())` and `qsort(v, ..)` of pointers: what holds the
    /// addresses of two members puts them in order.
    pub(super) fn put_in_order(&self, i: usize, first: &Member) -> Option<String> {
        let code = &self.objects.code;
        if let Some(how) = self.ordered_by_callee(i, first) {
            return Some(how);
        }
        let holder = self.holder(i)?;
        let (at, declared) = code.variable_at(code.text(holder), holder + 1)?;
        let start = code.start_of(at);
        let is = |words: &[&str]| {
            (start..at).find(|&j| words.contains(&code.text(j)) && code.text(j + 1) == "<").is_some_and(|j| {
                let key = (j + 2..at).take_while(|&k| code.text(k) != ",");
                key.into_iter().any(|k| code.text(k) == "*")
            })
        };
        let (from, end) = self.objects.function(i);
        let name = code.text(holder);
        let sorted = || {
            (i..end).filter(|&j| code.is_word(j) && code.text(j + 1) == "(").any(|j| {
                let given = code.arguments(j + 1);
                let named = |n: usize| given.get(n).is_some_and(|a| code.text(a.0) == name);
                match code.text(j) {
                    "sort" => (1..=2).contains(&given.len()) && named(0),
                    "qsort" => named(0) && by_address(self.files, code, &given),
                    function => (0..given.len())
                        .any(|n| named(n) && given[n].1 == given[n].0 + 1 && sorts(self.files, function, n)),
                }
            })
        };
        let ordered = is(&["map", "set", "multimap", "multiset", "priority_queue"])
            || (is(&["vector", "array", "deque"]) || declared.depth > 1) && sorted();
        let another = |j: usize| {
            let same = self.holder(j).is_some_and(|h| code.text(h) == name);
            same && self.member_address(j).is_some_and(|(m, _)| m.name != first.name)
        };
        (ordered && (from..end).any(|j| j != i && code.text(j) == "&" && another(j)))
            .then(|| format!("{name} puts the addresses of two members in order"))
    }

    /// `lock_all({&x.a, &x.b})` of a function that sorts what it is given.
    fn ordered_by_callee(&self, i: usize, first: &Member) -> Option<String> {
        let code = &self.objects.code;
        let list = code.open_before(i).filter(|&o| code.text(o) == "{")?;
        let call = code.open_before(list).filter(|&o| o > 0 && code.text(o) == "(" && code.is_word(o - 1))?;
        let end = code.matching(list, ["{", "}"], 200)?;
        let another = |j: usize| self.member_address(j).is_some_and(|(m, _)| m.name != first.name);
        let index = code.arguments(call).iter().position(|a| a.0 <= list && list < a.1)?;
        let name = code.text(call - 1);
        ((list..end).any(another) && sorts(self.files, name, index))
            .then(|| format!("{name}() puts the addresses of two members in order"))
    }

    /// `std::min(&x.a, &x.b)`
    pub(super) fn compared_at_once(&self, i: usize) -> Option<String> {
        let code = &self.objects.code;
        let open = code.open_before(i).filter(|&o| code.text(o) == "(" && names_order(code, o))?;
        let both = code.arguments(open);
        let members: Vec<&str> =
            both.iter().filter_map(|a| Some(self.member_address(a.0)?.0.name.as_str())).collect();
        (both.len() == 2 && members.len() == 2 && members[0] != members[1])
            .then(|| format!("the addresses of {} and {} are compared", members[0], members[1]))
    }

    /// The variable that is given the address at `i`: `m[&x.a]`, `m.insert(&x.a)`, `m{&x.a, &x.b}`, `m = {&x.a}`.
    fn holder(&self, i: usize) -> Option<usize> {
        let code = &self.objects.code;
        let open = code.open_before(i)?;
        let before = open.checked_sub(1)?;
        match (code.text(open), code.text(before)) {
            ("[" | "{", _) if code.is_word(before) => Some(before),
            ("{", "=") => code.initialised(open),
            ("(", "insert" | "emplace" | "push" | "push_back" | "emplace_back" | "try_emplace") => {
                let dots = if code.text(before - 1) == ">" { 2 } else { 1 };
                (before - dots).checked_sub(1)
            }
            _ => None,
        }
    }

    /// `lock_both(&x->a, &x->b)`, where the function takes the one that lies before the other first.
    pub(super) fn compared_by_callee(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        if objects.text(i + 1) != "(" || i == 0 || matches!(objects.text(i.wrapping_sub(1)), "." | ">") {
            return None;
        }
        let arguments = objects.arguments(i + 1);
        if arguments.iter().filter(|a| objects.text(a.0) == "&").count() < 2 {
            return None;
        }
        let own = |a: &(usize, usize)| {
            let (member, last) = (objects.text(a.0) == "&").then(|| self.member_address(a.0)).flatten()?;
            (last + 1 == a.1).then_some(member)
        };
        let given: Vec<usize> = (0..arguments.len()).filter(|&n| own(&arguments[n]).is_some()).collect();
        let name = objects.text(i);
        let mut defining = self.files.iter().filter(|f| given.len() > 1 && may_be_function(f.1, name));
        let compares = defining.any(|f| {
            let source = Source::new(f.1);
            compares(&Code::new(&source), name, &given)
        });
        compares.then(|| format!("{name}() compares the addresses of two members"))
    }
}

/// The function that these arguments of `qsort` end with looks at pointers, and not behind them.
fn by_address(files: &[(&str, &str)], code: &Code<'_, '_>, given: &[(usize, usize)]) -> bool {
    let Some(compare) = given.last().map(|a| code.text(a.1 - 1)) else { return false };
    files.iter().filter(|f| may_be_function(f.1, compare)).any(|f| {
        let source = Source::new(f.1);
        let code = Code::new(&source);
        let found = code.definitions(compare).any(|(_, brace)| {
            let body = brace..code.close_of(brace);
            let twice =
                |j: usize| code.text(j) == "*" && (code.text(j + 1) == "*" || code.text(j + 2) == "*");
            body.clone().any(twice)
                && !body.into_iter().any(|j| (code.text(j), code.text(j + 1)) == ("-", ">"))
        });
        found
    })
}

/// A function `name` sorts what its parameter `index` has.
fn sorts(files: &[(&str, &str)], name: &str, index: usize) -> bool {
    files.iter().filter(|f| f.1.contains("sort") && may_be_function(f.1, name)).any(|f| {
        let source = Source::new(f.1);
        let code = Code::new(&source);
        let found = code.definitions(name).any(|(open, brace)| {
            let Some(&(_, to)) = code.arguments(open).get(index) else { return false };
            let own = code.text(to - 1);
            let own = if own == "]" { code.opening(to - 1).map_or("", |o| code.text(o - 1)) } else { own };
            (brace..code.close_of(brace)).any(|j| {
                let given = code.arguments(j + 1);
                let ordered = match code.text(j) {
                    "sort" | "stable_sort" => given.len() <= 2,
                    "qsort" => by_address(files, &code, &given),
                    _ => false,
                };
                ordered && given.first().is_some_and(|a| code.text(a.0) == own)
            })
        });
        found
    })
}

/// A function `name` compares two of its parameters, or subtracts them.
fn compares(code: &Code<'_, '_>, name: &str, given: &[usize]) -> bool {
    code.definitions(name).any(|(open, brace)| {
        let parameters = given.iter().filter_map(|&n| code.arguments(open).get(n).copied());
        let names: Vec<&str> = parameters.map(|p| code.text(p.1 - 1)).collect();
        meet(code, brace, &names, &["<", ">", "-"])
            || names_in(code, brace, &names).any(|j| names[0] == code.text(j) && are_ordered(code, j, &names))
    })
}

/// A function `name` subtracts two of its parameters, which point to bytes as far as it knows.
pub(super) fn subtracts(objects: &Objects<'_, '_>, name: &str, given: &[usize]) -> bool {
    let code = &objects.code;
    code.definitions(name).any(|(open, brace)| {
        let parameters = given.iter().filter_map(|&n| code.arguments(open).get(n).copied());
        let names =
            parameters.filter(|&(from, to)| !objects.names_type(from, to)).map(|p| code.text(p.1 - 1));
        meet(code, brace, &names.collect::<Vec<_>>(), &["-"])
    })
}

/// Places of the parameters' values in the function whose body begins at `brace`.
fn names_in<'c>(code: &'c Code<'_, '_>, brace: usize, names: &'c [&str]) -> impl Iterator<Item = usize> + 'c {
    let (_, end) = code.function(brace + 1);
    (brace + 1..end).filter(move |&j| names.contains(&code.text(j)) && is_value(code, j))
}

/// One of these signs stands between two of the parameters.
fn meet(code: &Code<'_, '_>, brace: usize, names: &[&str], signs: &[&str]) -> bool {
    names_in(code, brace, names).any(|j| {
        let equal = usize::from(code.text(j + 2) == "=");
        let other = signs.contains(&code.text(j + 1)).then(|| operand(code, j + 2 + equal));
        other.is_some_and(|o| names.contains(&code.text(o)) && o != j && is_value(code, o))
    })
}

/// `std::less<>()(p, q)`, `std::min(p, q)`
fn are_ordered(code: &Code<'_, '_>, j: usize, names: &[&str]) -> bool {
    let Some(open) = code.open_before(j).filter(|&o| code.text(o) == "(") else { return false };
    let both = code.arguments(open);
    let all = both.len() == 2
        && both.iter().all(|a| a.1 == a.0 + 1 && names.contains(&code.text(a.0)))
        && code.text(both[0].0) != code.text(both[1].0);
    all && names_order(code, open)
}

/// What stands before the `(` at `open` names a comparison.
fn names_order(code: &Code<'_, '_>, open: usize) -> bool {
    const ORDER: [&str; 9] = [
        "less",
        "greater",
        "less_equal",
        "greater_equal",
        "min",
        "max",
        "minmax",
        "compare_three_way",
        "strong_order",
    ];
    let near = open.saturating_sub(12)..open;
    let from = near.clone().rev().find(|&k| matches!(code.text(k), "=" | "," | ";")).unwrap_or(near.start);
    (from..open).any(|k| ORDER.contains(&code.text(k)))
}

/// The name behind the casts at `at`.
pub(super) fn operand(code: &Code<'_, '_>, at: usize) -> usize {
    match code.closing(at).filter(|_| code.text(at) == "(") {
        Some(close) if code.cast_before(close) == Some(at) => close + 1,
        _ => at,
    }
}

/// The pointer itself, and not what it points to or a member of that name.
pub(super) fn is_value(code: &Code<'_, '_>, j: usize) -> bool {
    let access = (code.text(j + 1), code.text(j + 2)) == ("-", ">") || matches!(code.text(j + 1), "[" | "(");
    let before = (code.text(j.wrapping_sub(1)), code.text(j.wrapping_sub(2)));
    !access && !matches!(before.0, "*" | "." | "&") && before != (">", "-")
}

#[cfg(test)]
mod tests {
    use crate::edit::Edit;
    use crate::patch::uses::{Ask, check};

    fn found(path: &str, edit: &str, code: &str) -> String {
        let own = "struct s { int a; int b; int (*f)(void); int (*g)(void); char name[8]; int c; };\n";
        let edits: Vec<Edit> = vec![edit.parse().expect("an edit")];
        let text = format!("{own}{code}\n");
        check("s", Some(&edits), Ask::LAYOUT, &[(path, &text)])
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn tables_of_functions() {
        let run = |code: &str| found("a.c", "swap:f,g", &format!("struct s x;\nint m(int i) {{ {code} }}"));
        assert!(run("int (**t)(void) = &x.f; return t[i]();").contains("arithmetic on the address of f"));
        assert_eq!(run("int (**t)(void) = &x.f; return (*t)();"), "");
    }

    #[test]
    fn room_behind_a_member() {
        let size =
            |code: &str| found("a.c", "swap:name,c", &format!("struct s x;\nvoid m(void) {{ {code} }}"));
        assert!(
            size("printf(\"%zu\", __builtin_object_size(x.name, 0));")
                .contains("the room from name on is printed")
        );
        assert_eq!(size("copy(x.name, q, __builtin_object_size(x.name, 0));"), "");
    }

    #[test]
    fn pointers_to_members_hold_offsets() {
        let run = |body: &str, edit: &str| {
            let code = format!(
                "long at(int s::*m) {{ long v = 0; {body} return v; }}\nlong g() {{ return at(&s::b); }}"
            );
            found("a.cc", edit, &code)
        };
        assert!(run("std::memcpy(&v, &m, sizeof m);", "align:b=64").contains("pointer to a member"));
        assert!(run("memcpy(&v, &m, sizeof m);", "swap:a,b").contains("pointer to a member"));
        assert_eq!(run("v = x.*m;", "swap:a,b"), "");
    }

    #[test]
    fn addresses_that_a_function_compares() {
        let run = |body: &str| {
            let code = format!(
                "void two(int *p, int *q) {{ {body} }}\nvoid m(struct s *x) {{ two(&x->b, &x->a); }}"
            );
            found("a.c", "swap:a,b", &code)
        };
        assert!(run("if (p < q) use(p);").contains("two() compares the addresses"));
        assert!(run("if ((unsigned long)p > (unsigned long)q) use(p);").contains("compares"));
        assert_eq!(run("if (*p < *q) use(p);"), "");
        assert_eq!(run("if (p != q) use(p); *p -= 1;"), "");
        assert_eq!(run("int t = *p; *p = *q; *q = t;"), "");
    }
}
