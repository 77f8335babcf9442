//! Uses that lay something else over an object: other types, numbers, or its first member alone, whose address is the
//! object's.

use super::body::{bodies_in, statements};
use super::bytes::is_number;
use super::handed::parameter_type;
use super::names::places_of;
use super::neighbours::{Member, members_in};
use super::objects::{Objects, Pointee, is_scalar};
use super::scan::is_number_type;

/// Functions that read a string where their arguments point to.
const STRINGS: [&str; 14] = [
    "puts",
    "fputs",
    "printf",
    "fprintf",
    "sprintf",
    "snprintf",
    "strlen",
    "strcmp",
    "strncmp",
    "strcasecmp",
    "strncasecmp",
    "strcpy",
    "strncpy",
    "strdup",
];

/// What an object is looked at as.
#[derive(Clone, Debug)]
pub(super) enum Over {
    /// Another type of this name.
    Type(String),
    /// Numbers.
    Numbers,
    /// The first member alone.
    First,
    /// Another type of this name, if it begins with members of the same names.
    Like(String),
    /// Another type of this name, if its members are of the same types: two of them, or all. Whether what is behind
    /// the first object is looked at, too.
    Shaped(String, bool),
    /// Numbers of this type or pointers to it, as many as the members begin with; of these the first one alone, unless
    /// more are read.
    Values { ty: String, pointers: bool, several: bool },
}

impl Over {
    /// Numbers, of whatever name.
    pub(super) fn is_numbers(&self) -> bool {
        match self {
            Over::Numbers => true,
            Over::Type(name) => is_number_type(name),
            Over::First | Over::Like(_) | Over::Shaped(..) | Over::Values { .. } => false,
        }
    }

    /// Objects that stand one behind the other.
    pub(super) fn is_array(&self) -> bool {
        matches!(self, Over::Shaped(_, true))
    }

    /// How many of the first members it counts on.
    pub(super) fn prefix(&self, own: &[Member], files: &[(&str, &str)], names: &[String]) -> usize {
        let other = match self {
            Over::Numbers => return own.len(),
            Over::First => return 1,
            Over::Values { ty, pointers, several } => {
                let is =
                    |m: &&Member| m.ty.ends_with('*') == *pointers && unqualified(&m.ty).any(|w| w == ty);
                return own.iter().take_while(is).count().min(if *several { own.len() } else { 1 });
            }
            Over::Type(other) | Over::Like(other) | Over::Shaped(other, _) => other,
        };
        if names.contains(other) {
            return 0;
        }
        let theirs = members_in(files, other);
        let like = matches!(self, Over::Like(_));
        if matches!(self, Over::Shaped(..)) {
            let same =
                |a: &Member, b: &Member| unqualified(&a.ty).eq(unqualified(&b.ty)) && a.array == b.array;
            let alike = own.iter().zip(&theirs).take_while(|(a, b)| same(a, b));
            let alike = alike.count();
            return if alike >= own.len().min(2) { alike } else { 0 };
        }
        // `struct { float v[3]; }` is numbers, too.
        if !like && theirs.first().is_some_and(|m| m.array && m.ty.split(' ').all(is_scalar)) {
            return own.len();
        }
        let same = |a: &Member, b: &Member| a.ty == b.ty && a.array == b.array && (!like || a.name == b.name);
        own.iter().zip(&theirs).take_while(|(a, b)| same(a, b)).count().max(usize::from(!like))
    }
}

/// Words of a type without those that say nothing of its bytes.
fn unqualified(ty: &str) -> impl Iterator<Item = &str> {
    ty.split(' ').filter(|w| !matches!(*w, "const" | "volatile" | "_Atomic"))
}

/// The uses of one file.
pub(super) struct Overlay<'u, 's, 'a> {
    pub(super) objects: &'u Objects<'s, 'a>,
    pub(super) members: &'u [Member],
    pub(super) files: &'u [(&'u str, &'u str)],
}

impl Overlay<'_, '_, '_> {
    /// Casts to and from other types, and unions.
    pub(super) fn at(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        if objects.text(i) == "(" && self.reads_first(i) {
            return Some((Over::First, "its first member is read through a pointer to the whole".into()));
        }
        if STRINGS.contains(&objects.text(i)) {
            return self.as_string(i);
        }
        if matches!(objects.text(i), "qsort" | "bsearch" | "lfind" | "lsearch") {
            return self.compared_as_strings(i);
        }
        if matches!(objects.text(i), "(" | "reinterpret_cast" | "static_cast")
            && let Some(cast) = objects.cast(i)
            && let Pointee::Other(other) = cast.pointee
        {
            return Some((Over::Type(other.into()), format!("it is looked at as {other}")));
        }
        if objects.text(i) == "union" {
            return self.union(i);
        }
        let void = || self.from_void(i).or_else(|| self.through_void(i)).or_else(|| self.as_argument(i));
        self.downcast(i).or_else(void).or_else(|| self.elsewhere(i)).or_else(|| self.given_back(i))
    }

    /// `struct other *o = (void *)&x;`, `return (void *)&x;` of a function that returns such a pointer.
    fn through_void(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        let returns = objects.text(i) == "return";
        let close =
            objects.code.closing(i + 1).filter(|c| (objects.text(i) == "=" || returns) && c - i < 7)?;
        let void = objects.text(close - 1) == "*" && objects.text(close - 2) == "void";
        let end = objects.address(close + 1).filter(|_| void)?;
        if let Some(of) = self.array_of(i.checked_sub(1)?).filter(|_| objects.text(end) == ";") {
            return Some((Over::Numbers, format!("it is looked at as an array of {of}")));
        }
        let (ty, depth) = match returns {
            true => self.returned(i)?,
            false => objects.code.variable(objects.text(i - 1), i).map(|d| (d.ty, d.depth))?,
        };
        let other = objects.text(ty);
        let pointer = depth == 1 && other != "void" && !objects.is_name(ty);
        if !pointer || !matches!(objects.text(end), ";" | ",") {
            return None;
        }
        let over = match () {
            () if is_scalar(other) => Over::Numbers,
            // A handle need not be like what it stands for.
            () if returns => self.shaped(other, false),
            () => Over::Type(other.into()),
        };
        Some((over, format!("it is looked at as {other}")))
    }

    /// The struct `ty`, which may have nothing to do with it: two members tell, or the name of an only one.
    fn shaped(&self, ty: &str, array: bool) -> Over {
        match members_in(self.files, ty).len() {
            1 => Over::Like(ty.into()),
            _ => Over::Shaped(ty.into(), array),
        }
    }

    /// What the function around `i` returns a pointer to, and its stars.
    fn returned(&self, i: usize) -> Option<(usize, usize)> {
        let code = &self.objects.code;
        let own = code.function_name(i)?;
        let star = (code.start_of(own)..own).find(|&j| code.text(j) == "*")?;
        Some((star.checked_sub(1)?, own - star))
    }

    /// The type of the elements of `int (*v)[4]`, which ends at `last`.
    fn array_of(&self, last: usize) -> Option<&str> {
        let code = &self.objects.code;
        let open = code.opening(last).filter(|_| code.text(last) == "]")?;
        let close = open.checked_sub(1).filter(|&c| code.text(c) == ")")?;
        let star = code.opening(close)?;
        let ty = star.checked_sub(1).map(|t| code.text(t)).filter(|_| code.text(star + 1) == "*")?;
        is_scalar(ty).then_some(ty)
    }

    /// `(struct s *)base` of a pointer to another type.
    fn downcast(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        let close = objects.code.closing(i).filter(|_| objects.text(i) == "(")?;
        let ours = objects.names_type(i, close) && objects.text(close - 1) == "*" && close - i < 6;
        let value = close + 1;
        if !ours {
            return None;
        }
        // `(struct s *)base`, `(struct s *)((o)->base)`.
        let (last, end) = match objects.text(value) {
            "(" => objects.code.closing(value).map(|close| (close - 1, close))?,
            _ => Some(objects.path_end(value)).map(|last| (last, last))?,
        };
        if !objects.code.is_word(last) || !matches!(objects.text(end + 1), ";" | ")" | ",") {
            return None;
        }
        let ty = objects.text(objects.code.variable(objects.text(last), last).filter(|d| d.depth == 1)?.ty);
        let other = !is_scalar(ty) && !matches!(ty, "void" | "auto") && !objects.is_object(last);
        other.then(|| (Over::Type(ty.into()), format!("a pointer to {ty} becomes one to it")))
    }

    /// `*(void **)s`, and `(char *)s` as an argument of `printf`.
    fn reads_first(&self, i: usize) -> bool {
        let objects = self.objects;
        let Some(close) = objects.code.closing(i).filter(|c| c - i < 7) else { return false };
        if i == 0 || objects.text(close - 1) != "*" || objects.names_type(i + 1, close) {
            return false;
        }
        let Some(end) = objects.address(close + 1) else { return false };
        let (before, behind) = (objects.text(i - 1), objects.text(end));
        match (i + 1..close).filter(|&j| objects.text(j) == "*").count() {
            1 if objects.text(close - 2) == "char" => {
                let argument = matches!(before, "," | "(") && matches!(behind, "," | ")");
                argument && objects.call_around(i, end).is_some_and(|f| STRINGS.contains(&objects.text(f)))
            }
            2 => before == "*" && !matches!(behind, "+" | "-"),
            _ => false,
        }
    }

    /// `strcmp(v, w)` of `void` pointers that are objects.
    fn as_string(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        let word = |&(from, to): &(usize, usize)| {
            (to == from + 1 && objects.is_object_as_void(from)).then_some(from)
        };
        let found = objects.arguments(i + 1).iter().find_map(word);
        found.map(|_| (Over::First, format!("{}() reads it as a string", objects.text(i))))
    }

    /// `bsearch("x", all, n, sizeof *all, (compare *)strcmp)`
    fn compared_as_strings(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        let arguments = objects.arguments(i + 1);
        let compare = objects.text(arguments.last()?.1 - 1);
        let all = arguments.get(usize::from(objects.text(i) != "qsort"))?;
        (STRINGS.contains(&compare) && objects.hands_over(*all))
            .then(|| (Over::First, format!("{compare}() reads it as a string")))
    }

    /// What was given as a `void *` and becomes a pointer to something else: `(struct head *)v`, `int *w = v;`.
    fn from_void(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        let (word, stars, value, variable) = match objects.text(i) {
            "static_cast" | "reinterpret_cast" => {
                let close = objects.code.matching(i + 1, ["<", ">"], 16)?;
                let word =
                    (i + 2..close).rev().find(|&j| objects.code.is_word(j) && objects.text(j) != "const")?;
                let stars = (i + 2..close).filter(|&j| objects.text(j) == "*").count();
                let kept = objects.text(i.saturating_sub(1)) == "=";
                (word, stars, close + 2, kept.then(|| i.saturating_sub(2)))
            }
            "(" => {
                let close = objects.code.closing(i).filter(|c| c - i <= 6 && objects.text(c - 1) == "*")?;
                let word =
                    (i + 1..close).rev().find(|&j| objects.code.is_word(j) && objects.text(j) != "const")?;
                let stars = (i + 1..close).filter(|&j| objects.text(j) == "*").count();
                let variable = (objects.text(i.saturating_sub(1)) == "=").then(|| i.saturating_sub(2));
                // `(char *)v + at`: the place of a member that somebody else knows.
                let placed = objects.text(word) == "char" && objects.text(close + 2) == "+";
                if placed && !is_number(objects, close + 3, self.files) || self.is_distance(i, close + 2) {
                    return None;
                }
                (word, stars, close + 1, variable)
            }
            "=" if objects.code.is_word(i + 1) && matches!(self.behind_value(i + 1), ";" | ",") => {
                // `struct w *q = v;`, and `q = v;` of one that was declared before.
                let name = i.checked_sub(1).filter(|&n| objects.code.is_word(n))?;
                let alone = matches!(objects.text(name.wrapping_sub(1)), ";" | "{" | "}" | ")");
                let earlier = || objects.code.variable(objects.text(name), name).filter(|_| alone);
                let declared = objects.code.declaration(name).or_else(earlier)?;
                (declared.ty, declared.depth, i + 1, Some(i - 1))
            }
            // `return v;` of a function that returns `struct w *`.
            "return" if objects.code.is_word(i + 1) && self.behind_value(i + 1) == ";" => {
                let (word, stars) = self.returned(i)?;
                (word, stars, i + 1, None)
            }
            _ => return None,
        };
        let head = objects.text(word);
        if objects.is_name(word) || !matches!(stars, 1 | 2) || (stars == 1 && head == "void") {
            return None;
        }
        // What a registry gives back, or who is called with, is one object or another: their members tell.
        let kept = self.comes_back(value);
        let back = kept.is_some() || objects.is_called_with(value);
        let given = objects.is_object_as_void(value);
        let several = || kept == Some(true) || self.is_walked(value, variable);
        let over = match () {
            () if !given && !back => return None,
            // Whatever begins with a pointer begins like that.
            () if !given && stars == 2 && head == "void" => return None,
            () if !given && (stars == 2 || is_scalar(head)) => {
                Over::Values { ty: head.into(), pointers: stars == 2, several: several() }
            }
            () if stars == 2 => Over::First,
            () if is_scalar(head) && self.is_walked(value, variable) => Over::Numbers,
            () if is_scalar(head) => Over::First,
            () if self.is_first(head) => Over::First,
            () if back => self.shaped(head, self.is_walked(value, variable)),
            () => Over::Like(head.into()),
        };
        let head = if stars == 2 { &format!("{head} *") } else { head };
        let moved = if kept == Some(true) { "is moved by a number and " } else { "" };
        Some((over, format!("a void pointer {moved}becomes one to {head}, and it begins like that")))
    }

    /// `show((const void *)&x)`, or `show(v)` of such a `void *`, where `show` takes another struct.
    fn as_argument(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        if !objects.code.is_word(i) || objects.text(i + 1) != "(" {
            return None;
        }
        let void = |from: usize| {
            let close = objects.code.closing(from).filter(|c| objects.text(from) == "(" && c - from < 6)?;
            let plain = objects.text(close - 1) == "*" && objects.text(close - 2) == "void";
            objects.address(close + 1).filter(|_| plain)
        };
        let kept = |&(from, to): &(usize, usize)| {
            objects.code.operand_end(from) == to
                && objects.passed().kept.gives_back(objects, from, self.files).is_some()
        };
        let hidden = |a: &(usize, usize)| {
            void(a.0) == Some(a.1) || a.1 == a.0 + 1 && objects.is_object_as_void(a.0) || kept(a)
        };
        let arguments = objects.arguments(i + 1);
        let mut given = arguments.iter().enumerate().filter(|a| hidden(a.1));
        given.find_map(|(n, &(from, to))| {
            let other = parameter_type(objects.text(i), n, self.files)?;
            let ours = objects.names().contains(&other) || is_scalar(&other) || other == "void";
            // A struct of the system's.
            let unknown = void(from) == Some(to) && members_in(self.files, &other).is_empty();
            let over = if unknown { Over::Type(other.clone()) } else { Over::Shaped(other.clone(), false) };
            (!ours).then(|| (over, format!("{}() takes it as {other}", objects.text(i))))
        })
    }

    /// The value at `i` is an object's address that was kept as a plain pointer, or found by the variable's name;
    /// whether a number is added to it.
    fn comes_back(&self, i: usize) -> Option<bool> {
        let (objects, passed) = (self.objects, self.objects.passed());
        let named = |&(from, to): &(usize, usize)| {
            to == from + 1 && passed.variables.contains(objects.text(from).trim_matches('"'))
        };
        let found = objects.text(i) == "dlsym" && objects.arguments(i + 1).get(1).is_some_and(named);
        if found { Some(false) } else { passed.kept.gives_back(objects, i, self.files) }
    }

    /// `(char *)p - (char *)q`: the pointer that is cast from `i` to before `end` is subtracted from another one, or
    /// compared with it. Nothing is read there.
    fn is_distance(&self, i: usize, end: usize) -> bool {
        let text = |j: usize| self.objects.text(j);
        let sign = |j: usize| matches!(text(j), "-" | "<" | ">");
        // `->`, and `<<`, which prints.
        let alone =
            |j: usize| text(j - 1) != text(j) && !matches!((text(j), text(j + 1)), ("-", ">") | ("<", "<"));
        let number = || text(end + 1).starts_with(|c: char| c.is_ascii_digit());
        let before = i > 1 && sign(i - 1) && alone(i - 1) && text(i - 2) != "-";
        before || (sign(end) && alone(end) && !number())
    }

    /// The token behind the variable, the member or the call at `i`, and its subscript.
    fn behind_value(&self, i: usize) -> &str {
        let code = &self.objects.code;
        let at = self.objects.path_end(i) + 1;
        let close = match code.text(at) {
            "[" => code.matching(at, ["[", "]"], 60),
            "(" => code.closing(at),
            _ => None,
        };
        code.text(close.map_or(at, |c| c + 1))
    }

    /// The first member is a value of the type `head`.
    pub(super) fn is_first(&self, head: &str) -> bool {
        let first = self.members.first();
        first.is_some_and(|f| !f.array && f.ty.split(' ').any(|w| w == head) && !f.ty.ends_with('*'))
    }

    /// More than the first number is read: by a subscript at once, or through the variable.
    fn is_walked(&self, value: usize, variable: Option<usize>) -> bool {
        let objects = self.objects;
        let behind = (value + 1..value + 3).find(|&j| objects.text(j) != ")").unwrap_or(value);
        let at_once = objects.text(behind) == "[" && objects.text(behind + 1) != "0";
        at_once || objects.text(behind) == "+" || variable.is_some_and(|v| objects.walks(v, value))
    }

    /// A union with an object of the type beside numbers or other structs, or with pointers to both.
    fn union(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        let source = objects.code.source;
        let keyword = objects.code.token(i)?;
        let body = bodies_in(source, keyword, keyword + 1).pop()?;
        let (mut ours, mut pointed, mut other, mut numbers, mut all) = (false, false, None, false, true);
        let mut pointee = None;
        let statements = statements(source, &body).ok()?;
        for statement in &statements {
            let words: Vec<&str> = (statement.first..statement.last)
                .filter(|&t| source.tokens[t].is_code())
                .map(|t| source.at(t))
                .collect();
            let first =
                words.iter().position(|w| !matches!(*w, "struct" | "const" | "volatile")).unwrap_or(0);
            let word = words.get(first).copied().unwrap_or("");
            let named = objects.is_name(objects.code.place_of(statement.first) + first);
            // `words[2 * LANES]` is no pointer.
            if words.iter().take_while(|w| **w != "[").any(|w| *w == "*") {
                (pointed, numbers) = (pointed || named, numbers || is_scalar(word) && word != "char");
                pointee = pointee.or((!named && !is_scalar(word) && word != "void").then_some(word));
                continue;
            }
            all = false;
            if named {
                ours = true;
            } else if (is_scalar(word) || word == "{") && other.is_none() {
                other = Some(Over::Numbers);
            } else if !word.is_empty() && other.is_none() {
                other = Some(Over::Type(word.into()));
            }
        }
        if pointed && numbers && all {
            return Some((Over::Numbers, "a union has a pointer to it beside one to numbers".into()));
        }
        if let Some(word) = pointee.filter(|_| pointed && all) {
            let how = format!("a union has a pointer to it beside one to {word}");
            return Some((Over::Shaped(word.into(), false), how));
        }
        other.filter(|_| ours).map(|o| (o, "it shares a union with another type".to_string()))
    }

    /// The same of a struct that holds it, with numbers.
    pub(super) fn around(&self) -> Option<(usize, String)> {
        let code = &self.objects.code;
        let found = |&i: &usize| self.union(i).is_some_and(|(over, _)| matches!(over, Over::Numbers));
        let at = code.places("union").iter().copied().find(found)?;
        Some((at, "a struct that holds it shares a union with numbers".into()))
    }

    /// `words(&x)` of a function that gives back what it is given as numbers.
    fn given_back(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        let name = objects.text(i);
        if !objects.code.is_word(i) || objects.text(i + 1) != "(" {
            return None;
        }
        let arguments = objects.arguments(i + 1);
        let mut given = arguments.iter().enumerate().filter(|a| objects.hands_over(*a.1));
        let back = given
            .any(|(n, _)| self.files.iter().any(|f| takes_bytes(f.1, name, n) && gives_numbers(f.1, name)));
        back.then(|| (Over::Numbers, format!("{name}() gives it back as numbers")))
    }
}

/// The text defines or declares a function of this name that returns a pointer to numbers.
fn gives_numbers(text: &str, name: &str) -> bool {
    places_of(text, name).any(|at| {
        let before = text[..at].trim_end();
        let pointee = before.strip_suffix('*').map(str::trim_end);
        let word = pointee.and_then(|p| p.rsplit([' ', '\n', '\t', ';', '}']).next());
        // `const char *` is a text.
        word.is_some_and(|w| is_number_type(w) && w != "char")
    })
}

/// The text defines or declares a function of this name whose parameter `index` points to bytes or to anything.
pub(super) fn takes_bytes(text: &str, name: &str, index: usize) -> bool {
    places_of(text, name).any(|at| {
        let behind = text[at + name.len()..].trim_start();
        let Some(list) = behind.strip_prefix('(').and_then(|b| b.split(')').next()) else { return false };
        let untyped = |p: &str| {
            p.contains('*')
                && ["void", "char", "uint8_t", "u8"].iter().any(|w| p.split([' ', '*']).any(|x| x == *w))
        };
        list.split(',').nth(index).is_some_and(untyped)
    })
}
