//! Uses that count on which member stands beside which: arithmetic on the address of a member, ranges of members that
//! are copied or cleared together, members that other types are laid over.

use super::body::{Source, bare_name, bodies_in, find, may_define, statements};
use super::member::declared;
use super::objects::{Objects, Pointee, is_scalar};
use crate::edit::{Edit, Spot};

/// A member as its declaration tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    name: String,
    /// Words of the type.
    ty: String,
    array: bool,
}

/// Another order of a type's members.
#[derive(Debug)]
pub(super) struct Order<'f> {
    members: Vec<Member>,
    edits: &'f [Edit],
    files: &'f [(&'f str, &'f str)],
}

impl<'f> Order<'f> {
    /// The order that `edits` give to the members of `name`, as `files` define it.
    pub(super) fn new(name: &str, edits: &'f [Edit], files: &'f [(&'f str, &'f str)]) -> Order<'f> {
        Order { members: members_in(files, name), edits, files }
    }

    /// The first use that counts on the order of today: its place, and a sentence.
    pub(super) fn in_file(&self, objects: &Objects<'_, '_>) -> Option<(usize, String)> {
        let uses = Uses { objects, members: &self.members };
        (0..objects.code.len()).find_map(|i| {
            let how = uses.at(i).or_else(|| {
                let (over, how) = uses.laid_over(i)?;
                self.changes(over.prefix(&self.members, self.files, objects.names())).then_some(how)
            })?;
            Some((i, how))
        })
    }

    /// Whether the first `prefix` members are others after the edits.
    fn changes(&self, prefix: usize) -> bool {
        let mut order: Vec<&str> = self.members.iter().map(|m| m.name.as_str()).collect();
        for edit in self.edits {
            moved(&mut order, edit);
        }
        order.iter().zip(&self.members).take(prefix).any(|(a, b)| *a != b.name)
    }
}

/// Members of `name`, as the first of `files` that defines it has them.
fn members_in(files: &[(&str, &str)], name: &str) -> Vec<Member> {
    let mut defining = files.iter().filter(|f| may_define(f.1, bare_name(name)));
    defining.find_map(|f| members(f.1, name)).unwrap_or_default()
}

/// Members of `name` in the order of their declaration, if this file defines it.
fn members(text: &str, name: &str) -> Option<Vec<Member>> {
    let source = Source::new(text);
    let body = find(&source, name, None).ok()?;
    let mut out = Vec::new();
    for statement in statements(&source, &body).ok()? {
        let declared = declared(&source, &statement);
        let words: Vec<&str> = (statement.first..=statement.last)
            .filter(|&i| source.tokens[i].is_code())
            .map(|i| source.at(i))
            .take_while(|w| !matches!(*w, "=" | "{"))
            .collect();
        for name in declared.names {
            let at = words.iter().position(|w| *w == name).unwrap_or(0);
            let array = words.get(at + 1) == Some(&"[");
            let first = words.iter().position(|w| *w == ",").map_or(at, |c| c.min(at));
            let ty = words[..first.min(at)].join(" ");
            out.push(Member { name, ty, array });
        }
    }
    Some(out)
}

/// What an object is looked at as.
#[derive(Clone, Debug)]
enum Over {
    /// Another type of this name.
    Type(String),
    /// Numbers.
    Numbers,
    /// The first member alone.
    First,
    /// Another type of this name, if it begins with members of the same names.
    Like(String),
}

impl Over {
    /// How many of the first members it counts on.
    fn prefix(&self, own: &[Member], files: &[(&str, &str)], names: &[String]) -> usize {
        let other = match self {
            Over::Numbers => return own.len(),
            Over::First => return 1,
            Over::Type(other) | Over::Like(other) => other,
        };
        if names.contains(other) {
            return 0;
        }
        let theirs = members_in(files, other);
        let like = matches!(self, Over::Like(_));
        let same = |a: &Member, b: &Member| a.ty == b.ty && a.array == b.array && (!like || a.name == b.name);
        own.iter().zip(&theirs).take_while(|(a, b)| same(a, b)).count().max(usize::from(!like))
    }
}

fn moved<'m>(order: &mut Vec<&'m str>, edit: &Edit) {
    let at = |order: &[&str], f: &str| order.iter().position(|n| *n == f);
    match edit {
        Edit::Swap { a, b } => {
            if let (Some(a), Some(b)) = (at(order, a), at(order, b)) {
                order.swap(a, b);
            }
        }
        Edit::Move { field, to } => {
            let Some(from) = at(order, field) else { return };
            let name = order.remove(from);
            let place = match to {
                Spot::First => Some(0),
                Spot::Before(other) => at(order, other),
                Spot::After(other) => at(order, other).map(|p| p + 1),
            };
            order.insert(place.unwrap_or(from), name);
        }
        _ => {}
    }
}

struct Uses<'u, 's, 'a> {
    objects: &'u Objects<'s, 'a>,
    members: &'u [Member],
}

impl Uses<'_, '_, '_> {
    /// What counts on neighbours at `i`.
    fn at(&self, i: usize) -> Option<String> {
        match self.objects.text(i) {
            "memset" | "memcpy" | "memmove" | "memcmp" | "bzero" | "explicit_bzero" | "bcopy"
            | "__builtin_memset" | "__builtin_memcpy" => self.range(i),
            "memset_after" | "memset_startat" | "offsetofend" => self.kernel_range(i),
            "offsetof" | "__builtin_offsetof" => self.offset(i),
            "&" => self.arithmetic(i),
            _ => None,
        }
    }

    /// The member whose address is taken at `i`, and the place of its name.
    fn member_address(&self, i: usize) -> Option<(&Member, usize)> {
        let objects = self.objects;
        // `a && p->b > 3`
        if objects.text(i + 1) == "&" || objects.text(i.saturating_sub(1)) == "&" {
            return None;
        }
        let mut at = i + 1;
        while objects.text(at) == "(" {
            at += 1;
        }
        let last = objects.path_end(at);
        let access = last > at && matches!(objects.text(last - 1), "." | ">");
        let owner = if objects.text(last - 1) == "." { last - 2 } else { last.saturating_sub(3) };
        let own = access && (objects.is_object(owner) || objects.text(owner) == "this");
        let member = self.members.iter().find(|m| m.name == objects.text(last))?;
        let binary = i > 0
            && (objects.code.is_word(i - 1) && objects.text(i - 1) != "return"
                || matches!(objects.text(i - 1), ")" | "]"));
        (own && !binary).then_some((member, last))
    }

    /// `memset(&x->b, 0, sizeof(*x) - offsetof(struct s, b))`.
    fn range(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        let arguments = objects.arguments(i + 1);
        let size = *arguments.last()?;
        let word = objects.text(i);
        let offset = |(from, to): (usize, usize)| {
            (from..to)
                .any(|j| matches!(objects.text(j), "offsetof" | "offsetofend") && objects.names_type(j, to))
        };
        if offset(size) {
            return Some(format!("{word}() takes the members up to or from one of them"));
        }
        let objects_given = &arguments[..arguments.len() - 1];
        if self.is_some_bytes(size) && objects_given.iter().any(|a| self.is_whole(*a)) {
            return Some(format!("{word}() takes some of its bytes, from the first on"));
        }
        objects_given.iter().find_map(|&(from, to)| {
            let (member, _) = (from..to)
                .filter(|&j| objects.text(j) == "&")
                .find_map(|j| self.member_address(j).filter(|(_, last)| last + 1 == to))?;
            (!member.array && !self.is_size_of(member, size)).then(|| {
                format!(
                    "{word}() reaches from {} on, and its length is not that of {} alone",
                    member.name, member.name
                )
            })
        })
    }

    /// The argument is a number, or the size of something else.
    fn is_some_bytes(&self, (from, to): (usize, usize)) -> bool {
        let objects = self.objects;
        let number = to == from + 1 && objects.text(from).starts_with(|c: char| c.is_ascii_digit());
        let sizeof = objects.text(from) == "sizeof" && objects.code.closing(from + 1) == Some(to - 1);
        let own = objects.measures(from, to) || (from..to).any(|j| objects.text(j) == "this");
        number || (sizeof && !own)
    }

    /// The argument is the address of an object, and not that of a pointer to one.
    fn is_whole(&self, (from, to): (usize, usize)) -> bool {
        let objects = self.objects;
        let variable = objects.code.variable(objects.text(to - 1), to - 1);
        let of_pointer = objects.text(from) == "&" && variable.is_some_and(|d| d.depth > 0);
        objects.is_address((from, to)) && !of_pointer
    }

    /// The argument is `sizeof` the member, its type, or something declared like it; or no more bytes than it has.
    fn is_size_of(&self, member: &Member, (from, to): (usize, usize)) -> bool {
        let objects = self.objects;
        if to == from + 1 && !objects.code.is_word(from) {
            let bytes: Option<u64> = objects.text(from).trim_end_matches(['u', 'U', 'l', 'L']).parse().ok();
            return bytes.is_some_and(|b| size(&member.ty).is_none_or(|s| b <= s));
        }
        let words: Vec<usize> = (from..to).filter(|&j| objects.code.is_word(j)).collect();
        let Some((&first, inside)) = words.split_first() else { return false };
        if objects.text(first) != "sizeof" || (from..to).any(|j| matches!(objects.text(j), "+" | "/")) {
            return false;
        }
        let text = |j: usize| objects.text(j);
        let named = inside.last().is_some_and(|&j| text(j) == member.name);
        let ty: Vec<&str> = inside.iter().map(|&j| text(j)).collect();
        let same_type = member.ty.split(' ').filter(|w| *w != "*").eq(ty.iter().copied());
        let variable = inside.last().and_then(|&j| objects.code.variable(text(j), j));
        let stars = (from..to).filter(|&j| text(j) == "*").count();
        let declared =
            variable.is_some_and(|d| member.ty.split(' ').any(|w| w == text(d.ty)) && d.depth == stars);
        let product =
            (from..to).any(|j| text(j) == "*" && j > from && text(j - 1) != "(" && text(j - 1) != "*");
        !product && (named || same_type || declared)
    }

    fn kernel_range(&self, i: usize) -> Option<String> {
        let close = self.objects.code.closing(i + 1)?;
        let ours = (i..close).any(|j| self.objects.is_name(j) || self.objects.is_object(j));
        ours.then(|| format!("{}() takes the members up to or from one of them", self.objects.text(i)))
    }

    /// `offsetof` compared, subtracted, or made a constant of the language.
    fn offset(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        let close = objects.code.closing(i + 1)?;
        if !objects.names_type(i + 1, close) {
            return None;
        }
        let before = i.checked_sub(1).map_or("", |b| objects.text(b));
        let behind = objects.text(close + 1);
        let sized = before == "-" && objects.text(i.saturating_sub(2)) == ")" && {
            (i.saturating_sub(12)..i).any(|j| matches!(objects.text(j), "sizeof" | "offsetof"))
        };
        let compares = |t: &str| matches!(t, "<" | ">" | "!");
        let equal = behind == "="
            || (before == "=" && matches!(objects.text(i.saturating_sub(2)), "=" | "!" | "<" | ">"));
        let counts = compares(before) || compares(behind) || equal || behind == "-" || sized;
        counts.then(|| format!("the offset of {} is compared or subtracted", objects.text(close - 1)))
    }

    /// `&x->a + 1`, `(&x->a)[1]`, `&x->c - &x->a`, `p = &x->a` and then `p[1]`.
    fn arithmetic(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        let (member, last) = self.member_address(i).filter(|(m, _)| !m.array)?;
        // In parentheses of its own: `(&x->a)[1]`; `&x->a[1]` is the address of an element.
        let own = objects.text(i.saturating_sub(1)) == "(" && objects.text(last + 1) == ")";
        let before = objects.text(i.saturating_sub(1 + usize::from(own)));
        let behind = objects.text(last + 1 + usize::from(own));
        let call = own && i >= 2 && objects.code.is_word(i - 2) && objects.text(i - 2) != "return";
        let arrow = behind == "-" && objects.text(last + 2 + usize::from(own)) == ">";
        let operator = (matches!(behind, "+" | "-" | "<" | ">") && !arrow)
            || (own && behind == "[")
            || matches!(before, "-" | "<" | ">" | "+");
        let operator = operator && !call;
        let kept = objects.text(i.saturating_sub(1)) == "="
            && objects.text(i.saturating_sub(2)) != "="
            && matches!(objects.text(last + 1), ";" | ",");
        let walked = kept && self.walks(i - 2, i);
        (operator || walked).then(|| format!("there is arithmetic on the address of {}", member.name))
    }

    /// The pointer variable at `variable` is indexed or moved behind `from`.
    fn walks(&self, variable: usize, from: usize) -> bool {
        let objects = self.objects;
        let name = objects.text(variable);
        let (_, end) = objects.function(variable);
        (from..end).filter(|&j| objects.text(j) == name && objects.text(j - 1) != ".").any(|j| {
            let next = (objects.text(j + 1), objects.text(j + 2));
            let before = (objects.text(j - 1), objects.text(j - 2));
            let stepped = matches!(next, ("+", _) | ("-", "-" | "=")) || (next.0 == "-" && next.1 != ">");
            let indexed = next.0 == "[" && next.1 != "0";
            stepped || indexed || before == ("+", "+") || before == ("-", "-")
        })
    }

    /// Casts to and from other types, and unions.
    fn laid_over(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        if matches!(objects.text(i), "(" | "reinterpret_cast")
            && let Some(cast) = objects.cast(i)
            && let Pointee::Other(other) = cast.pointee
        {
            return Some((Over::Type(other.into()), format!("it is looked at as {other}")));
        }
        if objects.text(i) == "union" {
            return self.union(i);
        }
        self.downcast(i).or_else(|| self.from_void(i))
    }

    /// `(struct s *)base` of a pointer to another type.
    fn downcast(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        let close = objects.code.closing(i).filter(|_| objects.text(i) == "(")?;
        let ours = objects.names_type(i, close) && objects.text(close - 1) == "*" && close - i < 6;
        let value = close + 1;
        if !ours || !objects.code.is_word(value) || !matches!(objects.text(value + 1), ";" | ")" | ",") {
            return None;
        }
        let ty = objects.text(objects.code.variable(objects.text(value), value).filter(|d| d.depth == 1)?.ty);
        let other = !is_scalar(ty) && !matches!(ty, "void" | "auto") && !objects.is_object(value);
        other.then(|| (Over::Type(ty.into()), format!("a pointer to {ty} becomes one to it")))
    }

    /// `(struct head *)v` of a `void *`: what it points to may be an object that begins with such a member.
    fn from_void(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        let close = objects.code.closing(i).filter(|_| objects.text(i) == "(")?;
        let word = (i + 1..close).rev().find(|&j| objects.code.is_word(j) && objects.text(j) != "const")?;
        let value = close + 1;
        if objects.text(close - 1) != "*" || close - i > 5 || !objects.code.is_word(value) {
            return None;
        }
        let from = objects.code.variable(objects.text(value), value)?;
        let first = self.members.first()?;
        let head = objects.text(word);
        let same = !first.array && first.ty.split(' ').any(|w| w == head) && !first.ty.ends_with('*');
        let void = objects.text(from.ty) == "void" && from.depth == 1 && !objects.is_name(word);
        let void = void && self.receives(value);
        let over = if same { Over::First } else { Over::Like(head.into()) };
        void.then(|| (over, format!("a void pointer becomes one to {head}, and it begins like that")))
    }

    /// An object's address becomes the value of the variable at `value`: it is assigned, or passed to its function.
    fn receives(&self, value: usize) -> bool {
        let objects = self.objects;
        let name = objects.text(value);
        let (open, _) = objects.function(value);
        let (start, _) = objects.code.statement(open);
        let own = (start..open).find(|&j| objects.code.is_word(j) && objects.text(j + 1) == "(");
        let mut assigned = objects.code.places(name).iter().filter(|&&j| objects.text(j + 1) == "=");
        let calls = own.map_or(&[][..], |j| objects.code.places(objects.text(j)));
        let mut calls = calls.iter().filter(|&&j| Some(j) != own && objects.text(j + 1) == "(");
        assigned.any(|&j| objects.address(j + 2).is_some())
            || calls.any(|&j| objects.arguments(j + 1).iter().any(|a| objects.is_address(*a)))
    }

    /// A union with an object of the type beside numbers or other structs.
    fn union(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        let source = objects.code.source;
        let keyword = objects.code.token(i)?;
        let body = bodies_in(source, keyword, keyword + 1).pop()?;
        let (mut ours, mut other) = (false, None);
        for statement in statements(source, &body).ok()? {
            let words: Vec<&str> = (statement.first..statement.last)
                .filter(|&t| source.tokens[t].is_code())
                .map(|t| source.at(t))
                .collect();
            let first =
                words.iter().position(|w| !matches!(*w, "struct" | "const" | "volatile")).unwrap_or(0);
            let word = words.get(first).copied().unwrap_or("");
            let place = objects.code.place_of(statement.first) + first;
            if objects.is_name(place) && !words.contains(&"*") {
                ours = true;
            } else if is_scalar(word) && other.is_none() {
                other = Some(Over::Numbers);
            } else if !words.contains(&"*") && !word.is_empty() && other.is_none() {
                other = Some(Over::Type(word.into()));
            }
        }
        other.filter(|_| ours).map(|o| (o, "it shares a union with another type".to_string()))
    }
}

/// Bytes of a plain type; `None` for others.
fn size(ty: &str) -> Option<u64> {
    let words: Vec<&str> = ty.split(' ').collect();
    let has = |w: &str| words.contains(&w);
    Some(match () {
        () if has("*") || has("long") || has("double") || has("size_t") => 8,
        () if words.iter().any(|w| matches!(*w, "uint64_t" | "int64_t" | "u64" | "s64" | "__u64")) => 8,
        () if has("short") || has("uint16_t") || has("int16_t") || has("u16") => 2,
        () if words.iter().any(|w| matches!(*w, "char" | "bool" | "_Bool" | "uint8_t" | "int8_t" | "u8")) => {
            1
        }
        () if words
            .iter()
            .any(|w| matches!(*w, "int" | "unsigned" | "float" | "uint32_t" | "int32_t" | "u32")) =>
        {
            4
        }
        () => return None,
    })
}

#[cfg(test)]
#[path = "neighbours_tests.rs"]
mod tests;
