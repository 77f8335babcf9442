//! Uses that count on which member stands beside which: arithmetic on the address of a member, ranges of members that
//! are copied or cleared together, members that other types are laid over.

use super::body::{Source, bare_name, find, may_define, statements};
use super::member::declared;
use super::names::places_of;
use super::number::Numbers;
use super::objects::{Objects, is_scalar};
use super::overlay::Overlay;
use super::scan::is_typeof;
use crate::edit::{Edit, Spot};

/// A member as its declaration tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    /// Words of the type.
    pub(super) ty: String,
    pub(super) array: bool,
    /// Elements of an array, where its declaration has a number.
    pub(super) length: Option<u64>,
}

impl Member {
    /// Its bytes, as far as its declaration tells.
    pub(super) fn bytes(&self) -> Option<u64> {
        let elements = if self.array { self.length? } else { 1 };
        size(&self.ty)?.checked_mul(elements)
    }
}

/// Another order of a type's members, or other distances between them.
#[derive(Debug)]
pub(super) struct Order<'f> {
    pub(super) members: Vec<Member>,
    edits: &'f [Edit],
    files: &'f [(&'f str, &'f str)],
}

impl<'f> Order<'f> {
    /// The places that `edits` give to the members of `name`, as `files` define it.
    pub(super) fn new(name: &str, edits: &'f [Edit], files: &'f [(&'f str, &'f str)]) -> Order<'f> {
        Order { members: members_in(files, name), edits, files }
    }

    /// The first use that counts on the order and the distances of today: its place, and a sentence.
    pub(super) fn in_file(&self, objects: &Objects<'_, '_>) -> Option<(usize, String)> {
        let reorders = self.edits.iter().any(Edit::reorders);
        let mut aligned: Vec<usize> = self.aligned().map(|at| at.unwrap_or(usize::MAX)).collect();
        // Elements that part: what is behind the last member moves, and that is the next object.
        let element = self.edits.iter().any(|e| matches!(e, Edit::Element { .. }));
        let parts = self.edits.iter().any(Edit::parts_elements);
        aligned.extend(element.then_some(self.members.len()));
        let moves = reorders || !aligned.is_empty();
        if !moves && !parts {
            return None;
        }
        let uses = Uses { objects, members: &self.members, files: self.files, reorders, aligned };
        let overlay = Overlay { objects, members: &self.members, files: self.files };
        (0..objects.code.len()).find_map(|i| {
            let grouped = || uses.group(i).filter(|g| self.parts(g.0, g.1)).map(|g| g.2);
            let moved = || uses.at(i).or_else(grouped);
            let how = moves.then(moved).flatten().or_else(|| {
                let (over, how) = overlay.at(i)?;
                let prefix = || over.prefix(&self.members, self.files, objects.names());
                let whole = || over.is_array() && prefix() == self.members.len();
                let numbers = parts && (over.is_numbers() || whole());
                (numbers || self.changes(prefix())).then_some(how)
            })?;
            Some((i, how))
        })
    }

    /// Places of members that are aligned or get a gap, the first one excepted: it stays where it is, and what is
    /// behind it, too. Of an array whose elements part, what is behind it moves as well. `None` is a member of an
    /// anonymous struct.
    fn aligned(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        let place = |field: &String| self.members.iter().position(|m| m.name == *field);
        let places = move |e: &Edit| match e {
            Edit::Align { field, .. } | Edit::Gap { field, .. } => vec![place(field)],
            Edit::Spread { field, .. } => vec![place(field), place(field).map(|at| at + 1)],
            _ => Vec::new(),
        };
        self.edits.iter().flat_map(places).filter(|at| *at != Some(0))
    }

    /// Names of the members in the order to come.
    pub(super) fn after(&self) -> Vec<&str> {
        let mut order: Vec<&str> = self.members.iter().map(|m| m.name.as_str()).collect();
        for edit in self.edits {
            moved(&mut order, edit);
        }
        order
    }

    /// Whether the first `prefix` members are others after the edits, or stand elsewhere.
    pub(super) fn changes(&self, prefix: usize) -> bool {
        if self.aligned().any(|at| at.is_none_or(|at| at < prefix)) {
            return prefix > 1 || self.edits.iter().any(|e| matches!(e, Edit::Spread { .. }));
        }
        self.after().iter().zip(&self.members).take(prefix).any(|(a, b)| *a != b.name)
    }
}

/// Names and types of the members of `name`, as this file defines it.
pub fn names_and_types(path: &str, text: &str, name: &str) -> Vec<(String, String)> {
    members_in(&[(path, text)], name).into_iter().map(|m| (m.name, m.ty)).collect()
}

/// Members of `name`, as the first of `files` that defines it has them.
pub(super) fn members_in(files: &[(&str, &str)], name: &str) -> Vec<Member> {
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
        let first = declared.names.first().and_then(|n| words.iter().position(|w| w == n));
        for name in declared.names {
            let at = words.iter().position(|w| *w == name).unwrap_or(0);
            let array = words.get(at + 1) == Some(&"[");
            let ty = words[..first.unwrap_or(at).min(at)].join(" ");
            let single = words.get(at + 3) == Some(&"]") && words.get(at + 4) != Some(&"[");
            let length = words.get(at + 2).filter(|_| array && single).and_then(|w| w.parse().ok());
            out.push(Member { name, ty, array, length });
        }
    }
    Some(out)
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

pub(super) struct Uses<'u, 's, 'a> {
    pub(super) objects: &'u Objects<'s, 'a>,
    pub(super) members: &'u [Member],
    pub(super) files: &'u [(&'u str, &'u str)],
    /// Members change their order.
    reorders: bool,
    /// Places of members before which a gap opens; beyond all where it is not known.
    aligned: Vec<usize>,
}

impl Uses<'_, '_, '_> {
    /// What counts on neighbours at `i`.
    fn at(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        match objects.text(i) {
            "memset" | "memcpy" | "memmove" | "memcmp" | "bzero" | "explicit_bzero" | "bcopy"
            | "__builtin_memset" | "__builtin_memcpy" => self.range(i),
            "write" | "read" | "send" | "recv" | "pwrite" | "pread" | "sendto" | "recvfrom" => {
                self.transfer(i, 2)
            }
            "fwrite" | "fread" => self.transfer(i, 1),
            "(" => {
                let end = || self.up_to_its_end(i).filter(|_| self.reorders);
                self.wider(i).or_else(|| self.distance(i)).or_else(|| self.rebased(i)).or_else(end)
            }
            "reinterpret_cast" | "static_cast" if self.reorders => self.up_to_its_end(i),
            "sizeof" if self.reorders => self.rest_of_size(i),
            "memset_after" | "memset_startat" | "offsetofend" => self.kernel_range(i),
            "offsetof" | "__builtin_offsetof" => self.offset(i),
            "iov_base" => self.vector(i),
            "{" if self.reorders => self.in_turn(i),
            "__builtin_object_size" | "__builtin_dynamic_object_size" => self.rest(i),
            "&" => {
                let ordered = || {
                    let (member, _) = self.member_address(i).filter(|_| self.reorders)?;
                    self.put_in_order(i, member).or_else(|| self.compared_at_once(i))
                };
                self.arithmetic(i).or_else(|| self.member_pointer(i)).or_else(ordered)
            }
            _ if self.reorders && objects.code.is_word(i) => {
                self.compared_by_callee(i).or_else(|| self.array_argument(i))
            }
            _ => None,
        }
    }

    /// Something within `bytes` from `member` on gets another distance from it.
    pub(super) fn spreads(&self, member: &Member, bytes: Option<u64>) -> bool {
        let at = self.members.iter().position(|m| m == member).unwrap_or(0);
        self.reorders || self.aligned.iter().any(|&a| a > at && self.reach(at, a, bytes))
    }

    /// So many bytes from member `from` on may go beyond where member `to` begins.
    fn reach(&self, from: usize, to: usize, bytes: Option<u64>) -> bool {
        let between = self.members.get(from..to).unwrap_or_default();
        let held = between.iter().map(|m| size(&m.ty).filter(|_| !m.array)).sum::<Option<u64>>();
        let inside = bytes.zip(held).is_some_and(|(bytes, held)| bytes <= held);
        !inside
    }

    /// A length made of numbers and the sizes of plain types: `3 * sizeof(long)`.
    pub(super) fn length(&self, (from, to): (usize, usize)) -> Option<u64> {
        let objects = self.objects;
        let (mut sum, mut product, mut at) = (0u64, 1u64, from);
        while at < to {
            let text = objects.text(at);
            let close = if text == "sizeof" { objects.code.closing(at + 1)? } else { at };
            let words: Vec<&str> = (at + 2..close).map(|j| objects.text(j)).collect();
            let factor = match text {
                "sizeof" if words.iter().all(|w| is_scalar(w) || *w == "*") => size(&words.join(" "))?,
                _ => text.trim_end_matches(['u', 'U', 'l', 'L']).parse().ok()?,
            };
            product = product.checked_mul(factor)?;
            match objects.text(close + 1) {
                _ if close + 1 >= to => {}
                "*" => {}
                "+" => (sum, product) = (sum.checked_add(product)?, 1),
                _ => return None,
            }
            at = close + 2;
        }
        sum.checked_add(product).filter(|_| from < to)
    }

    /// `memset(&x->b, 0, sizeof(*x) - offsetof(struct s, b))`.
    fn range(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        let arguments = objects.arguments(i + 1);
        let size = *arguments.last()?;
        let word = objects.text(i);
        // `offsetof(typeof(*x), b)`
        let own = |from: usize, to: usize| {
            let of_object = |j: usize| is_typeof(objects.text(j)) && (j..to).any(|k| objects.is_variable(k));
            objects.names_type(from, to) || (from..to).any(of_object)
        };
        let offset = |(from, to): (usize, usize)| {
            (from..to).any(|j| {
                matches!(objects.text(j), "offsetof" | "offsetofend" | "__builtin_offsetof") && own(j, to)
            })
        };
        // Aligned members are still those up to or from this one.
        if offset(size) {
            return self.reorders.then(|| format!("{word}() takes the members up to or from one of them"));
        }
        let objects_given = &arguments[..arguments.len() - 1];
        let length = self.length(size);
        let affected = self.reorders || self.aligned.iter().any(|&a| self.reach(0, a, length));
        if affected && self.is_some_bytes(size) && objects_given.iter().any(|a| self.is_whole(*a)) {
            return Some(format!("{word}() takes some of its bytes, from the first on"));
        }
        self.beyond(objects_given, size, word)
    }

    /// The address of a member among `arguments`, when `size` is not that of this member alone.
    fn beyond(&self, arguments: &[(usize, usize)], size: (usize, usize), word: &str) -> Option<String> {
        let objects = self.objects;
        let beyond = |&(from, to): &(usize, usize)| {
            let (member, _) = self.own_member(from).filter(|(m, last)| m.array && last + 1 == to)?;
            let more = self.length(size)? > member.bytes()? && self.spreads(member, None);
            more.then(|| format!("{word}() takes more from {} on than it has", member.name))
        };
        if let Some(how) = arguments.iter().find_map(beyond) {
            return Some(how);
        }
        arguments.iter().find_map(|&(from, to)| {
            let (member, _) = (from..to)
                .filter(|&j| objects.text(j) == "&")
                .find_map(|j| self.member_address(j).filter(|(_, last)| last + 1 == to))?;
            let spreads = self.spreads(member, self.length(size));
            (!member.array && spreads && !self.is_size_of(member, size)).then(|| {
                format!(
                    "{word}() reaches from {} on, and its length is not seen to be that of {} alone",
                    member.name, member.name
                )
            })
        })
    }

    /// The argument is a number, or made of numbers, constants and the sizes of something else.
    fn is_some_bytes(&self, (from, to): (usize, usize)) -> bool {
        let objects = self.objects;
        let own = (from..to).any(|j| {
            objects.is_name(j)
                || objects.is_object(j)
                || matches!(objects.text(j), "this" | "typeof")
                || self.stands_for_size(objects.text(j))
        });
        let mut at = from;
        while at < to {
            let text = objects.text(at);
            if text == "sizeof" {
                at = objects.code.closing(at + 1).unwrap_or(at + 1);
            } else if objects.code.is_word(at) && !is_constant(text) {
                return false;
            }
            at += 1;
        }
        !own
    }

    /// `write(fd, &x->a, sizeof(x->a) + sizeof(x->b))`; the size is argument `size`.
    fn transfer(&self, i: usize, size: usize) -> Option<String> {
        let objects = self.objects;
        let arguments = objects.arguments(i + 1);
        let size =
            *arguments.get(size).filter(|_| !matches!(objects.text(i.saturating_sub(1)), "." | ">"))?;
        let one = |a: &(usize, usize)| a.1 == a.0 + 1 && objects.text(a.0) == "1";
        let count = arguments.get(2).filter(|_| matches!(objects.text(i), "fwrite" | "fread"));
        let size = match count {
            Some(&count) if one(&size) => count,
            // `fwrite(&x->a, sizeof(long), 4, f)`: no single length.
            Some(count) if !one(count) => (size.0, size.0),
            _ => size,
        };
        self.beyond(&arguments[..2], size, objects.text(i))
    }

    /// `*(uint64_t *)&x->a`, where `a` has 4 bytes.
    fn wider(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        let close = objects.code.closing(i)?;
        if objects.text(close - 1) != "*" || close - i > 6 {
            return None;
        }
        let at = close + 1 + usize::from(objects.text(close + 1) == "(");
        let (member, _) =
            Some(at).filter(|&at| objects.text(at) == "&").and_then(|at| self.own_member(at + 1))?;
        let words: Vec<&str> = (i + 1..close - 1).map(|j| objects.text(j)).collect();
        let own = size(&member.ty)?;
        let vector = || words.last().is_some_and(|w| self.is_vector(w));
        let wide = size(&words.join(" ")).map_or_else(vector, |read| read > own);
        (wide && !member.array && self.spreads(member, None))
            .then(|| format!("{} and what is behind it are read as one number", member.name))
    }

    /// `(char *)&x->a - (char *)x`.
    fn distance(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        let close = objects.code.closing(i).filter(|c| c - i < 6 && objects.text(c - 1) == "*")?;
        let (member, last) = self.own_member(close + 2).filter(|_| objects.text(close + 1) == "&")?;
        let end = last + 1 + usize::from(objects.text(last + 1) == ")");
        let minus = objects.text(end) == "-" && objects.text(end + 1) == "(";
        let own = minus && objects.code.closing(end + 1).is_some_and(|c| objects.address(c + 1).is_some());
        own.then(|| format!("the distance of {} from its object becomes a number", member.name))
    }

    /// A constant of the sources that is the size of the type.
    fn stands_for_size(&self, word: &str) -> bool {
        let names = self.objects.names();
        is_constant(word)
            && self
                .files
                .iter()
                .any(|f| macro_text(f.1, word).is_some_and(|t| names.iter().any(|n| t.contains(n.as_str()))))
    }

    /// The argument is the address of an object, and not that of a pointer to one.
    fn is_whole(&self, (from, to): (usize, usize)) -> bool {
        let objects = self.objects;
        let variable = objects.code.variable(objects.text(to - 1), to - 1);
        let of_pointer = objects.text(from) == "&" && variable.is_some_and(|d| d.depth > 0);
        let untyped = to == from + 1 && objects.is_object_as_void(from);
        (objects.is_address((from, to)) && !of_pointer) || untyped
    }

    /// The argument is `sizeof` the member, its type, or something declared like it; or no more bytes than it has.
    pub(super) fn is_size_of(&self, member: &Member, (from, to): (usize, usize)) -> bool {
        let objects = self.objects;
        if to == from + 1 && !objects.code.is_word(from) {
            let bytes: Option<u64> = objects.text(from).trim_end_matches(['u', 'U', 'l', 'L']).parse().ok();
            return bytes.is_some_and(|b| size(&member.ty).is_none_or(|s| b <= s));
        }
        if to == from + 1 && is_constant(objects.text(from)) {
            return self.is_size_constant(member, objects.text(from));
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
            (from..to).any(|j| text(j) == "*" && j > from && !matches!(text(j - 1), "(" | "*" | "sizeof"));
        !product && (named || same_type || declared)
    }

    /// The constant is no more than the member has, as far as the sources define it: what others define is the size of
    /// others' types.
    fn is_size_constant(&self, member: &Member, word: &str) -> bool {
        let Some(text) = self.files.iter().find_map(|f| macro_text(f.1, word)) else { return true };
        let text = text.trim().trim_matches(['(', ')']);
        let number: Option<u64> = text.parse().ok();
        let fits = number.is_some_and(|n| size(&member.ty).is_none_or(|s| n <= s));
        fits || (text.starts_with("sizeof") && text.contains(&member.ty) && !text.contains(['+', '*']))
    }

    /// A member of the same type stands beside this one.
    pub(super) fn is_run(&self, member: &Member) -> bool {
        let at = self.members.iter().position(|m| m == member).unwrap_or(0);
        let beside = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
        beside.filter_map(|n| self.members.get(n)).any(|n| n.ty == member.ty && !n.array)
    }

    fn kernel_range(&self, i: usize) -> Option<String> {
        let close = self.objects.code.closing(i + 1)?;
        let ours = (i..close).any(|j| self.objects.is_name(j) || self.objects.is_object(j));
        (ours && self.reorders)
            .then(|| format!("{}() takes the members up to or from one of them", self.objects.text(i)))
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
            (i.saturating_sub(12)..i).any(|j| objects.text(j) == "offsetof")
        };
        let compares = |t: &str| matches!(t, "<" | ">" | "!");
        let equal = behind == "="
            || (before == "=" && matches!(objects.text(i.saturating_sub(2)), "=" | "!" | "<" | ">"));
        let subtracted = self.reorders && (behind == "-" || sized);
        let counts = compares(before) || compares(behind) || equal || subtracted;
        let numbers = Numbers { code: &objects.code, files: self.files };
        let name = objects.text(close - 1);
        match counts {
            true => Some(format!("the offset of {name} is compared or subtracted")),
            false => numbers.shown(i, close + 1).map(|how| format!("the offset of {name} {how}")),
        }
    }

    /// `&x->a + 1`, `(&x->a)[1]`, `&x->c - &x->a`, `p = &x->a` and then `p[1]`.
    fn arithmetic(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        let (member, last) = self.member_address(i).filter(|(m, _)| !m.array)?;
        let first = self.casts_before(i);
        if let Some(how) = self.by_hand(member, (i, last), first) {
            return Some(how);
        }
        // In parentheses of its own: `(&x->a)[1]`; `&x->a[1]` is the address of an element.
        let own = objects.text(first.saturating_sub(1)) == "(" && objects.text(last + 1) == ")";
        let before = objects.text(first.saturating_sub(1 + usize::from(own)));
        let behind = objects.text(last + 1 + usize::from(own));
        let call =
            own && first >= 2 && objects.code.is_word(first - 2) && objects.text(first - 2) != "return";
        // `(&x->a)[1]` of an object that stays as it is.
        let index = (own && behind == "[").then(|| objects.text(last + 3).parse::<usize>().ok()).flatten();
        let at = self.members.iter().position(|m| m == member).unwrap_or(0);
        if !self.reorders && index.is_some_and(|n| self.aligned.iter().all(|&a| at + n < a || a <= at)) {
            return None;
        }
        let arrow = behind == "-" && objects.text(last + 2 + usize::from(own)) == ">";
        let steps = self.steps(member, first, i);
        // Casts make addresses numbers for many ends: what is subtracted must be of this type, too.
        let other = |at: usize, behind: bool| {
            first == i
                || self.is_own_place(if behind { (at, objects.code.operand_end(at)) } else { (at, at + 1) })
        };
        let end = last + 1 + usize::from(own);
        let start = first.saturating_sub(2 + usize::from(own));
        let operator = (matches!(behind, "-" | "<" | ">") && !arrow && other(end + 1, true))
            || (steps && (behind == "+" || own && behind == "["))
            || (matches!(before, "-" | "<" | ">") && other(start, false))
            || (steps && before == "+");
        // Pointers cannot be multiplied: `*(T *)&x->a += 1` works on the value.
        let value =
            objects.text(first.saturating_sub(1)) == "*" && (first == i || objects.text(i - 2) == "*");
        let operator = operator && !call && !value;
        let named = |n: usize| objects.text(first.saturating_sub(n));
        let by_name = steps && named(1) == "(" && matches!(named(2), "next" | "prev") && named(3) == ":";
        let listed = || named(1) == "{" && self.is_run(member) && self.is_listed(first, last);
        // `c.cur = &x->a`, `.cur = &x->a`: and `cur++` somewhere.
        let stepped = || {
            let to_member = named(1) == "=" && matches!(named(3), "." | ">") && self.is_run(member);
            let holder = first.checked_sub(2).filter(|_| to_member).map(|m| objects.code.operand_start(m));
            let holder = holder.and_then(|h| objects.code.variable(objects.text(h), h));
            holder.is_some_and(|d| self.is_stepped_member(named(2), Some(objects.text(d.ty))))
        };
        let kept = objects.text(first.saturating_sub(1)) == "="
            && objects.text(first.saturating_sub(2)) != "="
            && matches!(objects.text(last + 1), ";" | ",");
        let walks = || match steps {
            true => self.declarator(first - 2).is_some_and(|v| objects.walks(v, first)),
            false => self.is_subtracted(first - 2, first),
        };
        // `T *data() { return &x; }`
        let returned = objects.text(i.saturating_sub(1)) == "return" && self.is_run(member) && {
            let (open, _) = objects.function(i);
            let start = objects.code.start_of(open);
            let name = (start..open).find(|&j| objects.code.is_word(j) && objects.text(j + 1) == "(");
            let tells =
                |j| matches!(objects.text(j), "data" | "begin" | "ptr" | "raw" | "array" | "operator");
            (start..open).any(tells) || name.is_some_and(|n| self.is_walked_by_callers(objects.text(n)))
        };
        let given = kept && self.is_run(member) && self.is_given_with_count(first - 2, first);
        let walked =
            || returned || given || (kept && walks()) || self.is_walked_by_callee(member, first, last);
        match operator || by_name || walked() || listed() || stepped() {
            true => Some(format!("there is arithmetic on the address of {}", member.name)),
            false => self.is_exceeded_by_callee(member, first, last),
        }
    }

    /// `f({&x.a, 2})`, `cursor c{&x.a}`: what stands in braces goes on from the member at `first..=last`.
    fn is_listed(&self, first: usize, last: usize) -> bool {
        let objects = self.objects;
        let count = objects.text(last + 1) == "," && objects.text(last + 3) == "}";
        let many = || self.length((last + 2, last + 3)).is_some_and(|n| n > 1);
        let argument = matches!(objects.text(first.saturating_sub(2)), "(" | ",");
        argument && count && many() || self.is_walked_by_class(first - 1)
    }

    /// The variable at `variable` is subtracted from a place in such an object behind `from`, or that from it.
    fn is_subtracted(&self, variable: usize, from: usize) -> bool {
        let code = &self.objects.code;
        let (_, end) = self.objects.function(variable);
        let uses = code.places(code.text(variable)).iter().filter(|&&j| from < j && j < end);
        uses.into_iter().any(|&j| {
            let (before, behind) = (code.text(j - 1), code.text(j + 1));
            let less = |op: &str| matches!(op, "-" | "<" | ">");
            let right = less(behind) && code.text(j + 2) != ">";
            right && self.is_own_place((j + 2, code.operand_end(j + 2)))
                || less(before) && self.is_own_place((code.operand_start(j - 2), j - 1))
        })
    }

    /// The tokens are a place in an object of the type, or a variable that is given one.
    fn is_own_place(&self, (from, to): (usize, usize)) -> bool {
        let objects = self.objects;
        let place = |k: usize| self.member_address(k).is_some() || objects.address(k).is_some();
        let given = |&k: &usize| {
            let end = (k..k + 24).find(|&e| matches!(objects.text(e), ";" | ",")).unwrap_or(k);
            objects.text(k + 1) == "=" && (k + 2..end).any(place)
        };
        let (open, close) = objects.function(from);
        let variable = |j: usize| {
            let mut places = objects.code.places(objects.text(j)).iter();
            places.any(|k| (open..close).contains(k) && given(k))
        };
        (from..to).any(|j| place(j) || (objects.code.is_word(j) && variable(j)))
    }

    /// First token of the casts right before `i`.
    fn casts_before(&self, i: usize) -> usize {
        let before = |at: usize| at.checked_sub(1).and_then(|close| self.objects.code.cast_before(close));
        std::iter::successors(Some(i), |&at| before(at)).last().unwrap_or(i)
    }

    /// One step of the pointer that the casts at `first..i` make leaves the member.
    fn steps(&self, member: &Member, first: usize, i: usize) -> bool {
        let words: Vec<&str> = (first + 1..i.saturating_sub(2)).map(|j| self.objects.text(j)).collect();
        first == i || size(&words.join(" ")).zip(size(&member.ty)).is_some_and(|(step, own)| step >= own)
    }

    /// `(size_t)&((struct s *)0)->a`: an offset, and `(uintptr_t)&x->a % 64`, what it leaves.
    fn by_hand(&self, member: &Member, (i, last): (usize, usize), first: usize) -> Option<String> {
        let objects = self.objects;
        let null = (i..last).any(|j| objects.text(j) == ")" && matches!(objects.text(j + 1), "0" | "NULL"));
        if null {
            let numbers = Numbers { code: &objects.code, files: self.files };
            return numbers.shown(first, last + 1).map(|how| format!("the offset of {} {how}", member.name));
        }
        let number = first < i && objects.text(i - 2) != "*";
        let behind = (objects.text(last + 1), objects.text(last + 2));
        let remainder = behind.0 == "%" || (behind.0 == "&" && behind.1 != "&");
        (number && remainder).then(|| format!("it is asked how {} is aligned", member.name))
    }

    /// `(struct s *)((char *)b - 8)`: from the address of a member to its object.
    fn rebased(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        let close = objects.code.closing(i).filter(|c| c - i < 6 && objects.text(c - 1) == "*")?;
        let untyped = objects.text(close - 2) == "void"
            && objects.text(i.checked_sub(1)?) == "="
            && objects.is_object(i.saturating_sub(2));
        let end = objects.code.closing(close + 1).filter(|_| objects.text(close + 1) == "(")?;
        let minus = (close + 2..end).rev().find(|&j| objects.text(j) == "-" && objects.text(j + 1) != ">")?;
        let word = (close + 2..minus).rev().find(|&j| objects.code.is_word(j))?;
        let numbers = Numbers { code: &objects.code, files: self.files };
        if !(untyped || objects.names_type(i, close)) || !numbers.is_amount(minus + 1, end) {
            return None;
        }
        let declared = objects.code.variable(objects.text(word), word).filter(|d| d.depth == 1)?;
        let ty = objects.text(declared.ty);
        let like = |m: &&Member| m.ty.split(' ').any(|w| w == ty) && ty != "char";
        let member = self.members.iter().skip(1).find(like)?;
        Some(format!("its address is computed from one that may be that of {}", member.name))
    }
}

/// Whether `text` has the body of a function `name`, as far as a glance tells.
pub(super) fn may_be_function(text: &str, name: &str) -> bool {
    places_of(text, name).any(|at| {
        let behind = text[at + name.len()..].trim_start();
        let parameters = behind.starts_with('(').then(|| behind.split([';', '{', '}']).next()).flatten();
        parameters.is_some_and(|p| {
            p.len() < 400 && behind[p.len()..].starts_with('{') && p.trim_end().ends_with(')')
        })
    })
}

/// A word in capitals.
fn is_constant(word: &str) -> bool {
    word.len() > 1
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && !word.contains(|c: char| c.is_ascii_lowercase())
}

/// What `#define word` stands for in `text`.
pub(super) fn macro_text<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    places_of(text, word).find_map(|at| {
        let defines = text[..at].trim_end_matches([' ', '\t']).ends_with("define");
        let rest = &text[at + word.len()..];
        (defines && rest.starts_with([' ', '\t', '('])).then(|| rest.lines().next().unwrap_or(""))
    })
}

/// Bytes of a plain type; `None` for others.
pub(super) fn size(ty: &str) -> Option<u64> {
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
