//! Reads a C or C++ expression just far enough to know which bytes of which type it names.
//!
//! Types of identifiers come from the debug information at that place. What cannot be followed (overloaded operators,
//! unknown calls) has no type; nothing is guessed.

use tussle_debuginfo::symbols::{FileName, Scope};
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{MemberRole, Type, TypeId, TypeTable};

use crate::image::Image;
use crate::tokens::{Kind, Token, closing};

/// Brackets nested deeper than this are not followed.
const NESTING_MAX: usize = 48;

/// A type with pointer levels that `&` or a cast added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ty {
    pub id: TypeId,
    pub stars: u8,
}

/// What an expression starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// Something behind a pointer; the local variable that held it, when it was used directly (`w` of `w->done`), and
    /// what everybody may call the pointer: a global variable, or a member (`hits`, `struct job.slots`).
    Pointer { via: Option<String>, held: Option<String> },
    /// A variable by name, and whether it is local to the function.
    Variable { name: String, local: bool },
}

/// Bytes that an expression names: `offset` into a `ty`, plus any multiple of the strides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedBytes {
    pub root: Root,
    pub ty: TypeId,
    pub offset: u64,
    pub strides: Vec<u64>,
    /// Members on the way: `stats.hits`.
    pub field: String,
    /// What these bytes are called in any function: from a global variable or a named type on. Empty where only this
    /// function has a name for them.
    pub known_as: String,
}

impl NamedBytes {
    /// All of what a pointer points to.
    pub fn behind(table: &TypeTable, ty: TypeId, via: Option<String>, held: Option<String>) -> NamedBytes {
        let known_as = match (type_called(table, ty), &held) {
            (Some(name), _) => name,
            (None, Some(held)) => format!("*{held}"),
            (None, None) => String::new(),
        };
        let root = Root::Pointer { via, held };
        NamedBytes { root, ty, offset: 0, strides: Vec::new(), field: String::new(), known_as }
    }

    /// What a pointer that lies here is called.
    pub fn called(&self) -> Option<String> {
        Some(self.known_as.clone()).filter(|k| !k.is_empty())
    }
}

/// How a struct, union or class is called, where it has a name, if only as a typedef.
fn type_called(table: &TypeTable, ty: TypeId) -> Option<String> {
    let named = crate::nest::plain(table, ty);
    let nameless = table.aggregate(ty)?.name.is_none() && named == table.strip(ty);
    (!nameless).then(|| table.name(named))
}

/// The value of an expression, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Val {
    pub ty: Option<Ty>,
    /// Where it lies.
    pub place: Option<NamedBytes>,
    /// Where it points.
    pub target: Option<NamedBytes>,
    /// The member that was named last, also where its struct is not known.
    pub member: Option<String>,
}

/// An lvalue inside a larger expression, and the token that makes it (`->`, `[`, an identifier).
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub operator: usize,
    pub val: Val,
}

/// Evaluates tokens at one place in the code.
pub(crate) struct Eval<'a> {
    pub image: &'a Image,
    pub svma: u64,
    pub scope: &'a Scope,
    pub tokens: &'a [Token],
    pos: usize,
    depth: usize,
    pub nodes: Vec<Node>,
}

impl<'a> Eval<'a> {
    pub fn new(image: &'a Image, svma: u64, scope: &'a Scope, tokens: &'a [Token]) -> Self {
        Eval { image, svma, scope, tokens, pos: 0, depth: 0, nodes: Vec::new() }
    }

    /// The unary expression from `start`.
    pub fn unary_at(&mut self, start: usize) -> Val {
        self.pos = start;
        self.unary()
    }

    /// A whole expression with commas and operators from `start` up to a closing bracket or semicolon.
    pub fn expression_at(&mut self, start: usize) -> Val {
        self.pos = start;
        self.expression()
    }

    fn table(&self) -> &'a TypeTable {
        &self.image.types
    }

    fn peek(&self, ahead: usize) -> Option<&'a Token> {
        self.tokens.get(self.pos + ahead)
    }

    fn next_is(&self, text: &str) -> bool {
        self.peek(0).is_some_and(|t| t.is(text))
    }

    fn expression(&mut self) -> Val {
        self.depth += 1;
        let mut value = if self.depth > NESTING_MAX { Val::default() } else { self.unary() };
        while let Some(t) = self.peek(0) {
            if t.kind != Kind::Punct || matches!(&*t.text, ")" | "]" | "}" | ";" | ":" | "{") {
                break;
            }
            let op = &*t.text;
            self.pos += 1;
            let right = if self.depth > NESTING_MAX { Val::default() } else { self.unary() };
            value = combine(op, value, right);
        }
        self.depth -= 1;
        value
    }

    fn unary(&mut self) -> Val {
        self.depth += 1;
        let value = if self.depth > NESTING_MAX { Val::default() } else { self.unary_inner() };
        self.depth -= 1;
        value
    }

    fn unary_inner(&mut self) -> Val {
        let Some(t) = self.peek(0) else { return Val::default() };
        let at = self.pos;
        match &*t.text {
            "*" => {
                self.pos += 1;
                let inner = self.unary();
                let value = self.dereference(inner);
                self.node(at, &value);
                value
            }
            "&" => {
                self.pos += 1;
                let inner = self.unary();
                let ty = inner.ty.map(|t| Ty { id: t.id, stars: t.stars.saturating_add(1) });
                Val { ty, place: None, target: inner.place, member: inner.member }
            }
            "++" | "--" => {
                self.pos += 1;
                self.unary()
            }
            "!" | "~" | "-" | "+" | "&&" => {
                self.pos += 1;
                let inner = self.unary();
                Val { ty: inner.ty, ..Val::default() }
            }
            "sizeof" | "alignof" | "_Alignof" => {
                self.pos += 1;
                self.skip_operand();
                Val::default()
            }
            "(" => match self.cast() {
                Some(ty) => {
                    let inner = self.unary();
                    // `(struct a *)&b.c` still points there; the cast says what it is seen as.
                    Val { ty: Some(ty), place: None, target: None, member: inner.member }
                }
                None => self.postfix(),
            },
            _ => self.postfix(),
        }
    }

    fn skip_operand(&mut self) {
        if self.next_is("(") {
            self.pos = closing(self.tokens, self.pos).map_or(self.tokens.len(), |c| c + 1);
        } else {
            self.unary();
        }
    }

    /// `(type)` before something that can be cast.
    fn cast(&mut self) -> Option<Ty> {
        let close = closing(self.tokens, self.pos)?;
        let ty = self.type_name(self.pos + 1, close)?;
        let next = self.tokens.get(close + 1)?;
        let operand = next.kind != Kind::Punct || matches!(&*next.text, "(" | "*" | "&" | "~" | "!" | "-");
        if !operand {
            return None;
        }
        self.pos = close + 1;
        Some(ty)
    }

    fn postfix(&mut self) -> Val {
        let at = self.pos;
        let mut value = self.primary();
        self.node(at, &value);
        while let Some(t) = self.peek(0) {
            let at = self.pos;
            match &*t.text {
                "." | "->" if t.kind == Kind::Punct => {
                    self.pos += 1;
                    if self.next_is("template") {
                        self.pos += 1;
                    }
                    let Some(name) = self.peek(0).filter(|n| n.is_ident()) else { return Val::default() };
                    self.pos += 1;
                    let object = if t.is("->") { self.dereference(value) } else { value };
                    value = self.member(object, &name.text);
                    self.node(at, &value);
                }
                "[" if t.kind == Kind::Punct => {
                    let Some(close) = closing(self.tokens, self.pos) else { return Val::default() };
                    self.pos += 1;
                    let constant = (close == at + 2).then(|| number(&self.tokens[at + 1])).flatten();
                    self.expression();
                    self.pos = close + 1;
                    value = self.subscript(value, constant);
                    self.node(at, &value);
                }
                "(" if t.kind == Kind::Punct => {
                    let Some(close) = closing(self.tokens, self.pos) else { return Val::default() };
                    self.arguments(close);
                    self.pos = close + 1;
                    value = Val { ty: value.ty.filter(|_| value.place.is_none()), ..Val::default() };
                }
                "++" | "--" => {
                    self.pos += 1;
                    value = Val { place: value.place, ..value };
                }
                _ => break,
            }
        }
        value
    }

    /// Records what the arguments of a call name.
    fn arguments(&mut self, close: usize) {
        self.pos += 1;
        while self.pos < close {
            let before = self.pos;
            self.expression();
            if self.pos == before {
                self.pos += 1;
            }
        }
    }

    fn primary(&mut self) -> Val {
        let Some(t) = self.peek(0) else { return Val::default() };
        if t.is("(") {
            let Some(close) = closing(self.tokens, self.pos) else {
                self.pos = self.tokens.len();
                return Val::default();
            };
            self.pos += 1;
            let value = self.expression();
            self.pos = close + 1;
            return value;
        }
        if t.kind == Kind::Punct && matches!(&*t.text, ")" | "]" | "}" | ";" | ",") {
            return Val::default();
        }
        self.pos += 1;
        if !t.is_ident() {
            return Val::default();
        }
        let mut name = t.text.to_string();
        while self.next_is("::") && self.peek(1).is_some_and(|n| n.is_ident()) {
            name = format!("{name}::{}", self.tokens[self.pos + 1].text);
            self.pos += 2;
        }
        if matches!(&*name, "static_cast" | "reinterpret_cast" | "const_cast" | "dynamic_cast")
            && self.next_is("<")
        {
            return self.named_cast();
        }
        self.identifier(&name)
    }

    /// `static_cast<T>(e)`.
    fn named_cast(&mut self) -> Val {
        let start = self.pos + 1;
        let Some(open) = (start..self.tokens.len().min(start + 64)).find(|&i| self.tokens[i].is("(")) else {
            return Val::default();
        };
        let ty = self.type_name(start, open.saturating_sub(1));
        self.pos = closing(self.tokens, open).map_or(self.tokens.len(), |c| c + 1);
        Val { ty, ..Val::default() }
    }

    /// A variable, a member of `this`, a captured variable, or a function.
    fn identifier(&self, name: &str) -> Val {
        if let Some((_, die)) = self.scope.variables.iter().find(|(n, _)| n == name) {
            return self.variable(name, self.image.ty(*die), true);
        }
        if let Some(value) = self.implicit_member(name) {
            return value;
        }
        match self.image.symbols.file_name(self.svma, name.rsplit("::").next().unwrap_or(name)) {
            Some(FileName::Variable(die)) => return self.variable(name, self.image.ty(die), false),
            Some(FileName::Function(ret)) => {
                let ty = self.image.ty(ret).map(|id| Ty { id, stars: 0 });
                return Val { ty, ..Val::default() };
            }
            None => {}
        }
        let global = self.image.symbols.variables.iter().find(|v| v.name == name);
        match global {
            Some(v) => self.variable(name, self.image.ty(v.ty), false),
            None => Val::default(),
        }
    }

    fn variable(&self, name: &str, ty: Option<TypeId>, local: bool) -> Val {
        let Some(id) = ty else { return Val::default() };
        let root = Root::Variable { name: name.to_string(), local };
        let known_as =
            if local { type_called(self.table(), id).unwrap_or_default() } else { name.to_string() };
        let place =
            NamedBytes { root, ty: id, offset: 0, strides: Vec::new(), field: String::new(), known_as };
        self.referred(Val { ty: Some(Ty { id, stars: 0 }), place: Some(place), target: None, member: None })
    }

    /// References are what they refer to.
    fn referred(&self, value: Val) -> Val {
        let Some(Ty { id, stars: 0 }) = value.ty else { return value };
        match self.table().get(self.table().strip(id)) {
            Type::Reference { to, .. } => self.behind(*to, value.place.as_ref()),
            _ => value,
        }
    }

    /// What the pointer at `from` points to.
    fn behind(&self, id: TypeId, from: Option<&NamedBytes>) -> Val {
        let (via, held) = (from.and_then(direct_place), from.and_then(NamedBytes::called));
        let place = NamedBytes::behind(self.table(), id, via, held);
        Val { ty: Some(Ty { id, stars: 0 }), place: Some(place), target: None, member: None }
    }

    fn implicit_member(&self, name: &str) -> Option<Val> {
        let class = match self.scope.variables.iter().find(|(n, _)| n == "this") {
            Some((_, die)) => self.pointee(Ty { id: self.image.ty(*die)?, stars: 0 })?,
            None => self.image.ty(self.scope.class)?,
        };
        let captured = format!("__{name}");
        [name, &captured].into_iter().find_map(|n| {
            member_of(self.table(), class, n)?;
            let this = NamedBytes::behind(self.table(), class, Some("this".into()), None);
            let ty = Some(Ty { id: class, stars: 0 });
            Some(self.member(Val { ty, place: Some(this), target: None, member: None }, n))
        })
    }

    fn pointee(&self, ty: Ty) -> Option<TypeId> {
        if ty.stars > 0 {
            return (ty.stars == 1).then_some(ty.id);
        }
        match self.table().get(self.table().strip(ty.id)) {
            Type::Pointer { to, .. } | Type::Reference { to, .. } => Some(*to),
            Type::Array { elem, .. } => Some(*elem),
            Type::Aggregate(a) => self.smart_pointee(a.name.as_deref()?),
            _ => None,
        }
    }

    /// What `*` gives for the standard library's pointers.
    fn smart_pointee(&self, class: &str) -> Option<TypeId> {
        let smart = ["std::unique_ptr<", "std::shared_ptr<", "std::__shared_ptr<"];
        smart.iter().any(|s| class.starts_with(s)).then(|| self.first_argument(class)).flatten()
    }

    /// The type that is the first template argument in a name.
    fn first_argument(&self, class: &str) -> Option<TypeId> {
        let inside = class.split_once('<')?.1;
        let mut depth = 0;
        let end = inside.char_indices().find(|(_, c)| {
            match c {
                '<' | '(' => depth += 1,
                '>' | ')' => depth -= 1,
                _ => {}
            }
            depth < 0 || (depth == 0 && *c == ',')
        })?;
        self.image.named(inside[..end.0].trim_end_matches("[]").trim()).first().copied()
    }

    fn dereference(&self, value: Val) -> Val {
        if let Some(target) = value.target {
            let ty = value.ty.and_then(|t| t.stars.checked_sub(1).map(|stars| Ty { id: t.id, stars }));
            return Val { ty, place: Some(target), target: None, member: value.member };
        }
        let Some(ty) = value.ty else { return Val { member: value.member, ..Val::default() } };
        if ty.stars > 1 {
            return Val { ty: Some(Ty { stars: ty.stars - 1, ..ty }), ..Val::default() };
        }
        // An array's first element lies where the array lies.
        if let (0, Some(place), Type::Array { elem, .. }) =
            (ty.stars, &value.place, self.table().get(self.table().strip(ty.id)))
        {
            return Val {
                ty: Some(Ty { id: *elem, stars: 0 }),
                place: Some(place.clone()),
                target: None,
                member: value.member,
            };
        }
        match self.pointee(ty) {
            Some(to) => self.behind(to, value.place.as_ref()),
            None => Val::default(),
        }
    }

    fn member(&self, object: Val, name: &str) -> Val {
        let unknown = Val { member: Some(name.to_string()), ..Val::default() };
        let Some(Ty { id, stars: 0 }) = object.ty else { return unknown };
        let Some((offset, ty)) = member_of(self.table(), id, name) else { return unknown };
        let place = object.place.map(|mut p| {
            p.offset = p.offset.saturating_add(offset);
            if !p.field.is_empty() {
                p.field.push('.');
            }
            p.field.push_str(name);
            if !p.known_as.is_empty() {
                p.known_as = format!("{}.{name}", p.known_as);
            }
            p
        });
        let value =
            Val { ty: Some(Ty { id: ty, stars: 0 }), place, target: None, member: Some(name.to_string()) };
        self.referred(value)
    }

    fn subscript(&self, value: Val, index: Option<u64>) -> Val {
        let Some(ty) = value.ty else { return Val { member: value.member, ..Val::default() } };
        let container = match self.table().get(self.table().strip(ty.id)) {
            Type::Aggregate(a) if ty.stars == 0 => a.name.as_deref(),
            _ => None,
        };
        if let Some(class) = container {
            let known = ["std::vector<", "std::array<", "std::deque<", "std::unique_ptr<", "std::span<"];
            let element =
                known.iter().any(|k| class.starts_with(k)).then(|| self.first_argument(class)).flatten();
            return element.map(|e| self.behind(e, None)).unwrap_or_default();
        }
        let is_array =
            ty.stars == 0 && matches!(self.table().get(self.table().strip(ty.id)), Type::Array { .. });
        let element = self.element(ty);
        let Some(element) = element else { return Val::default() };
        let stride = self.table().size(element).unwrap_or(0);
        let mut place = match value.place {
            Some(p) if is_array => p,
            ref other => match self.behind(element, other.as_ref()).place {
                Some(p) => p,
                None => return Val::default(),
            },
        };
        // `*rows` and `rows[]`: the one is where a pointer points, the other any element from there on.
        place.known_as = match place.known_as.strip_prefix('*') {
            Some(held) => format!("{held}[]"),
            None if is_array && !place.known_as.is_empty() => format!("{}[]", place.known_as),
            None => place.known_as,
        };
        match index {
            Some(i) if is_array => place.offset = place.offset.saturating_add(i.saturating_mul(stride)),
            _ => place.strides.push(stride),
        }
        let value = Val {
            ty: Some(Ty { id: element, stars: 0 }),
            place: Some(place),
            target: None,
            member: value.member,
        };
        self.referred(value)
    }

    /// Element of a pointer or of the outermost dimension; inner dimensions are kept flat, which only loses strides.
    fn element(&self, ty: Ty) -> Option<TypeId> {
        match ty.stars {
            0 => self.pointee(ty),
            1 => Some(ty.id),
            _ => None,
        }
    }

    fn node(&mut self, operator: usize, value: &Val) {
        if value.place.is_some() || value.member.is_some() {
            self.nodes.push(Node { operator, val: value.clone() });
        }
    }

    /// The type that the tokens `start..end` spell, if they are one.
    pub fn type_name(&self, start: usize, end: usize) -> Option<Ty> {
        type_name(self.image, self.scope, self.tokens.get(start..end)?)
    }
}

/// Name of the local variable that a place is, unchanged.
pub(crate) fn direct_place(place: &NamedBytes) -> Option<String> {
    match &place.root {
        Root::Variable { name, local: true } if place.field.is_empty() && place.strides.is_empty() => {
            Some(name.clone())
        }
        _ => None,
    }
}

fn combine(op: &str, left: Val, right: Val) -> Val {
    match op {
        "," => right,
        "?" => right,
        "=" | "+=" | "-=" => left,
        // Pointer arithmetic keeps the type; where it points is no longer known to the byte.
        "+" | "-" => {
            let from = if left.ty.is_some() { left } else { right };
            Val { ty: from.ty, member: from.member, ..Val::default() }
        }
        _ => Val { ty: left.ty, ..Val::default() },
    }
}

fn number(token: &Token) -> Option<u64> {
    let text = token.text.trim_end_matches(['u', 'U', 'l', 'L']);
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Offset in bytes and type of a member, also through anonymous members and base classes.
pub(crate) fn member_of(table: &TypeTable, id: TypeId, name: &str) -> Option<(u64, TypeId)> {
    member_at(table, id, name, 0)
}

fn member_at(table: &TypeTable, id: TypeId, name: &str, depth: usize) -> Option<(u64, TypeId)> {
    if depth > DEPTH_MAX {
        return None;
    }
    let a = table.aggregate(id)?;
    let fields = || a.members.iter().filter(|m| m.role != MemberRole::Static);
    if let Some(m) = fields().find(|m| m.name.as_deref() == Some(name) && m.role != MemberRole::Base) {
        // A bit-field is accessed by bytes that its type does not tell.
        return Some((m.offset(), if m.bit_size.is_some() { TypeId::VOID } else { m.ty }));
    }
    fields().filter(|m| m.name.is_none() || m.role == MemberRole::Base).find_map(|m| {
        let (offset, ty) = member_at(table, m.ty, name, depth + 1)?;
        Some((offset.saturating_add(m.offset()), ty))
    })
}

/// Reads `const struct foo *`, `unsigned long`, `ns::Foo<T>`, a template parameter.
pub(crate) fn type_name(image: &Image, scope: &Scope, tokens: &[Token]) -> Option<Ty> {
    let mut words: Vec<&str> = Vec::new();
    let (mut stars, mut i, mut keyword) = (0u8, 0, "");
    let mut angle = String::new();
    while i < tokens.len() {
        let t = &tokens[i];
        match &*t.text {
            "const" | "volatile" | "restrict" | "typename" | "__restrict" | "register" | "static"
            | "_Atomic" => {}
            "struct" | "union" | "class" | "enum" if words.is_empty() => keyword = &t.text,
            "*" => stars = stars.checked_add(1)?,
            "&" | "&&" if !words.is_empty() => {}
            "::" => {}
            "<" if !words.is_empty() => {
                let mut depth = 0;
                while let Some(t) = tokens.get(i) {
                    depth += match &*t.text {
                        "<" => 1,
                        ">" => -1,
                        ">>" => -2,
                        _ => 0,
                    };
                    angle.push_str(&t.text);
                    if depth <= 0 {
                        break;
                    }
                    i += 1;
                }
            }
            "[" if !words.is_empty() => break,
            _ if t.is_ident() && stars == 0 => words.push(&t.text),
            _ => return None,
        }
        i += 1;
    }
    if words.is_empty() {
        return None;
    }
    if let [one] = words.as_slice()
        && let Some((_, die)) = scope.templates.iter().find(|(n, _)| n == one)
    {
        return image.ty(*die).map(|id| Ty { id, stars });
    }
    let qualified = tokens.iter().any(|t| t.is("::"));
    let name = if qualified { words.join("::") } else { words.join(" ") } + &angle;
    let name = if keyword.is_empty() || keyword == "class" { name } else { format!("{keyword} {name}") };
    image.named(&name).first().map(|&id| Ty { id, stars })
}
