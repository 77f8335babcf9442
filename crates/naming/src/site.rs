//! What the source says at a code address: which bytes of which type an access names.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use tussle_debuginfo::symbols::Scope;
use tussle_evidence::tables::is_of_system;
use tussle_evidence::{Evidence, Frame, TouchKind};
use tussle_model::{Type, TypeId};

use crate::expr::{Eval, NamedBytes, Node, Root, Val};
use crate::image::{ImageId, Images};
use crate::tokens::{Macro, Source, Token, arguments, closing, expand, opening};

/// Headers read for the macros of one file, at most.
const INCLUDES_MAX: usize = 300;

/// Frames looked at outside of the innermost.
const OUTER_MAX: usize = 4;

/// A statement of the source: these bytes are at `offset` (plus multiples of the strides) in a `ty`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    pub image: ImageId,
    /// `None` when only the member's name is known.
    pub ty: Option<TypeId>,
    pub offset: u64,
    pub strides: Vec<u64>,
    /// Bytes of what is named.
    pub size: Option<u64>,
    /// It is a number or a pointer, not a struct or an array.
    pub scalar: bool,
    /// `stats.hits`; the member alone when the type is not known.
    pub field: String,
    /// A variable's name, when the expression starts from a variable and not from a pointer.
    pub variable: Option<(String, bool)>,
    /// The function that has it, where that is a caller of the innermost one.
    pub function: Option<String>,
    via: Option<String>,
    /// What everybody calls the pointer behind which it lies, see [`Root::Pointer`].
    pub held: Option<String>,
}

/// One frame with what is needed to look up names there.
#[derive(Clone)]
pub(crate) struct Site {
    pub image: ImageId,
    pub svma: u64,
    pub frame: Frame,
    pub scope: Rc<Scope>,
}

type Macros = Rc<HashMap<Arc<str>, Macro>>;

/// Reads sources and scopes, each once.
#[derive(Default)]
pub(crate) struct Sites {
    sources: HashMap<String, Option<Rc<Source>>>,
    macros: HashMap<String, Macros>,
    scopes: HashMap<(ImageId, u64), Rc<Vec<Rc<Scope>>>>,
}

impl Sites {
    /// The frames of a code row, then those of its callers, nearest first.
    pub fn of_code(&mut self, evidence: &Evidence, images: &mut Images, code: u32) -> Vec<Site> {
        let mut out = Vec::new();
        let Some(row) = evidence.code.get(code as usize) else { return out };
        for id in std::iter::once(code).chain(row.chain.iter().copied()) {
            self.frames_of(evidence, images, id, &mut out);
        }
        out
    }

    fn frames_of(&mut self, evidence: &Evidence, images: &mut Images, code: u32, out: &mut Vec<Site>) {
        let Some(row) = evidence.code.get(code as usize) else { return };
        let Some(module) = row.module else { return };
        let Some(image) = images.of_module(evidence, module) else { return };
        let svma = row.address.wrapping_sub(evidence.modules[module as usize].bias);
        let scopes = self.scopes.entry((image, svma)).or_insert_with(|| {
            Rc::new(images.get(image).symbols.scopes(svma).into_iter().map(Rc::new).collect())
        });
        for (i, frame) in row.frames.iter().enumerate() {
            let scope = scopes.get(i).cloned().unwrap_or_default();
            out.push(Site { image, svma, frame: frame.clone(), scope });
        }
    }

    /// The tokens of a file.
    pub fn source(&mut self, images: &mut Images, path: &str) -> Option<Rc<Source>> {
        if let Some(known) = self.sources.get(path) {
            return known.clone();
        }
        if crate::rust::is_rust(path) {
            return None;
        }
        let read = images.source(path).map(|text| Rc::new(Source::read(&text)));
        if read.is_none() && !path.is_empty() {
            images.problem(path, "source not found: fields at its lines are named without it, or not at all");
        }
        self.sources.insert(path.to_string(), read.clone());
        read
    }

    /// The source at a frame, unless it is plainly not the one that was compiled: the function's name must stand
    /// where the debug information has it.
    pub fn source_at(&mut self, images: &mut Images, site: &Site) -> Option<Rc<Source>> {
        let source = match images.get(site.image).installed {
            true => self.quiet(images, &site.frame.file)?,
            false => self.source(images, &site.frame.file)?,
        };
        let plain = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let name = site.scope.name.as_deref().map(|n| n.split('<').next().unwrap_or(n)).filter(|n| plain(n));
        let (Some(name), Some(line)) = (name, site.scope.decl_line.filter(|l| *l > 0)) else {
            return Some(source);
        };
        // A template's body may lie in another file than its declaration; then nothing can be checked.
        let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_string();
        if site.scope.decl_file.as_deref().is_some_and(|f| base(f) != base(&site.frame.file)) {
            return Some(source);
        }
        // gcc gives the line where a qualified name begins: `basic_string<C, T, A>::` stands above `_M_append(..)`.
        let goes_on = |l: &u32| source.line(*l).last().is_some_and(|i| source.tokens[i].is("::"));
        let lines = std::iter::successors(Some(line), |l| goes_on(l).then(|| l.saturating_add(1))).take(3);
        if lines.into_iter().any(|l| source.line(l).any(|i| source.tokens[i].is(name))) {
            return Some(source);
        }
        let path = &site.frame.file;
        images.problem(
            path,
            "is not the text that was compiled: fields at its lines are named without it, or not at all",
        );
        None
    }

    /// Macros that the file of a site defines or includes from its own project: headers beside it, and those that the
    /// debug information lists.
    pub fn macros(&mut self, images: &mut Images, site: &Site) -> Macros {
        let path = site.frame.file.as_str();
        if let Some(known) = self.macros.get(path) {
            return known.clone();
        }
        let mut all: HashMap<Arc<str>, Macro> = HashMap::new();
        let listed = images.get(site.image).symbols.sources(site.svma);
        let own = |f: &&String| !is_of_system(f);
        let mut todo: Vec<String> = listed.iter().filter(own).cloned().collect();
        // The last is read first, and the first definition counts.
        todo.push(path.to_string());
        let mut seen: Vec<String> = Vec::new();
        while let Some(file) = todo.pop() {
            if seen.contains(&file) || seen.len() >= INCLUDES_MAX {
                continue;
            }
            // Headers that do not exist beside the file are the system's.
            let text = if seen.is_empty() { self.source(images, &file) } else { self.quiet(images, &file) };
            seen.push(file.clone());
            let Some(source) = text else { continue };
            for (name, m) in &source.macros {
                all.entry(name.clone()).or_insert_with(|| m.clone());
            }
            let dir = Path::new(&file).parent().unwrap_or(Path::new(""));
            todo.extend(source.includes.iter().map(|i| dir.join(i).to_string_lossy().into_owned()));
        }
        let all = Rc::new(all);
        self.macros.insert(path.to_string(), all.clone());
        all
    }

    fn quiet(&mut self, images: &mut Images, path: &str) -> Option<Rc<Source>> {
        if let Some(known) = self.sources.get(path) {
            return known.clone();
        }
        let read = images.source(path).map(|text| Rc::new(Source::read(&text)));
        self.sources.insert(path.to_string(), read.clone());
        read
    }

    /// What the code says about an access; more than one claim when the place is ambiguous. Empty when nothing can
    /// be read.
    pub fn claims(
        &mut self,
        evidence: &Evidence,
        images: &mut Images,
        code: u32,
        kind: TouchKind,
        size: u32,
    ) -> Vec<Claim> {
        let sites = self.of_code(evidence, images, code);
        let Some(first) = sites.first() else { return Vec::new() };
        let values = self.values_at(images, first, kind);
        let mut claims = claims_of(images, first.image, &values);
        // Merged and neighbouring accesses carry the place of another one; a scalar is read and written whole.
        claims.retain(|c| !c.scalar || c.size == Some(u64::from(size)));
        let fits = |c: &Claim| c.size == Some(u64::from(size));
        if claims.len() > 1 && claims.iter().any(fits) {
            claims.retain(fits);
        }
        claims.into_iter().map(|c| self.passed(images, c, &sites)).collect()
    }

    /// Fills in what a pointer is called of which the function keeps a copy in a variable of its own, assigned once:
    /// `int *mine = counts + at; .. mine[i]++`.
    fn kept(&mut self, images: &mut Images, claim: Claim, site: &Site) -> Claim {
        let Some(via) = claim.via.as_deref().filter(|v| claim.held.is_none() && *v != "this") else {
            return claim;
        };
        if site.scope.parameters.iter().any(|p| p == via) {
            return claim;
        }
        Claim { held: self.assigned_from(images, site, via), ..claim }
    }

    /// What everybody calls the pointer from which the variable `name` of a function gets its value, if it is
    /// assigned in one place only.
    fn assigned_from(&mut self, images: &mut Images, site: &Site, name: &str) -> Option<String> {
        let source = self.source_at(images, site)?;
        let macros = self.macros(images, site);
        let tokens = &source.tokens;
        let begin = source.line(site.scope.decl_line.filter(|l| *l > 0)?).next()?;
        let open = (begin..tokens.len()).find(|&i| tokens[i].is("{"))?;
        let body = open..closing(tokens, open)?;
        let own = |i: usize| !(tokens[i - 1].is(".") || tokens[i - 1].is("->"));
        let set =
            |i: &usize| tokens[*i].is(name) && own(*i) && tokens[*i + 1].is("=") && is_target(tokens, *i);
        let mut all = body.filter(|i| *i > 0 && i + 1 < tokens.len()).filter(set);
        let (at, None) = (all.next()?, all.next()) else { return None };
        let end = statement_end(tokens, at);
        let slice = expand(tokens.get(at + 2..=end)?, &|n| macros.get(n).cloned(), 0);
        let val = Eval::new(images.get(site.image), site.svma, &site.scope, &slice).unary_at(0);
        match val.target {
            Some(target) => held_of(&target.root),
            None => val.place.filter(|_| !slice.iter().any(|t| t.is("?"))).and_then(|p| p.called()),
        }
    }

    /// Replaces "behind parameter `p`" by what the caller passed, as far as it can be read.
    fn passed(&mut self, images: &mut Images, mut claim: Claim, sites: &[Site]) -> Claim {
        let mut reached = 0;
        for pair in sites.windows(2).take(OUTER_MAX) {
            let (inner, outer) = (&pair[0], &pair[1]);
            let (Some(via), Some(ty)) = (claim.via.clone(), claim.ty) else { break };
            if inner.image != outer.image {
                break;
            }
            let Some(place) = self.argument(images, inner, outer, &via) else { break };
            let table = &images.get(inner.image).types;
            if !crate::nest::holds(table, place.1, 0, ty) {
                break;
            }
            let place = place.0;
            let field = match (place.field.is_empty(), claim.field.is_empty()) {
                (true, _) => claim.field.clone(),
                (_, true) => place.field.clone(),
                _ => format!("{}.{}", place.field, claim.field),
            };
            let (variable, next) = root_of(&place.root);
            let held = held_of(&place.root);
            claim = Claim {
                ty: Some(place.ty),
                offset: claim.offset.saturating_add(place.offset),
                strides: place.strides.iter().chain(&claim.strides).copied().collect(),
                field,
                variable,
                function: Some(outer.frame.function.clone()),
                via: next,
                held,
                ..claim
            };
            reached += 1;
        }
        match sites.get(reached) {
            Some(site) => self.kept(images, claim, site),
            None => claim,
        }
    }

    /// The place, and the type seen there, that a caller passed for a parameter (`this` included).
    fn argument(
        &mut self,
        images: &mut Images,
        inner: &Site,
        outer: &Site,
        via: &str,
    ) -> Option<(NamedBytes, TypeId)> {
        let name = inner.scope.name.as_deref()?;
        let source = self.source_at(images, outer)?;
        let macros = self.macros(images, outer);
        let image = images.get(outer.image);
        let found = |val: Val| {
            let table = &image.types;
            let by_pointer = val.target.clone().zip(val.ty).map(|(p, t)| (p, t.id));
            let pointer = || {
                let to = match table.get(table.strip(val.ty.filter(|t| t.stars == 0)?.id)) {
                    Type::Pointer { to, .. } => *to,
                    _ => return None,
                };
                let via = val.place.as_ref().and_then(crate::expr::direct_place);
                let held = val.place.as_ref().and_then(NamedBytes::called);
                Some((NamedBytes::behind(table, to, via, held), to))
            };
            by_pointer.or_else(pointer)
        };
        let operator = name.strip_prefix("operator");
        if let (Some(op), "this") = (operator, via) {
            // gcc names the operator, clang the start of the expression.
            let tokens = &source.tokens;
            let exact = source.at(outer.frame.line, outer.frame.column).filter(|&i| tokens[i].is(op));
            let mut all = source.line(outer.frame.line).filter(|&i| tokens[i].is(op));
            let at = exact.or_else(|| all.next().filter(|_| all.next().is_none()))?;
            let slice = expand(lvalue_before(tokens, at)?, &|n| macros.get(n).cloned(), 0);
            let val = Eval::new(image, outer.svma, &outer.scope, &slice).unary_at(0);
            return val.place.zip(val.ty.filter(|t| t.stars == 0).map(|t| t.id));
        }
        let call = call_on_line(&source, outer.frame.line, outer.frame.column, name)?;
        if via == "this" {
            let dot = call.checked_sub(1)?;
            let arrow = source.tokens[dot].is("->");
            if !arrow && !source.tokens[dot].is(".") {
                // A member function calls another one on the same object.
                let own = Token { text: "this".into(), ..source.tokens[call].clone() };
                return found(Eval::new(image, outer.svma, &outer.scope, &[own]).unary_at(0));
            }
            let start = postfix_start(&source.tokens, dot.checked_sub(1)?);
            let slice = expand(&source.tokens[start..dot], &|n| macros.get(n).cloned(), 0);
            let val = Eval::new(image, outer.svma, &outer.scope, &slice).unary_at(0);
            return match arrow {
                true => found(val),
                false => val.place.zip(val.ty.filter(|t| t.stars == 0).map(|t| t.id)),
            };
        }
        let index = inner.scope.parameters.iter().filter(|p| *p != "this").position(|p| p == via)?;
        let close = closing(&source.tokens, call + 1)?;
        let args = arguments(&source.tokens[call + 2..close]);
        let slice = expand(args.get(index)?, &|n| macros.get(n).cloned(), 0);
        found(Eval::new(image, outer.svma, &outer.scope, &slice).unary_at(0))
    }

    /// Values of the lvalues that the source names at a frame.
    fn values_at(&mut self, images: &mut Images, site: &Site, kind: TouchKind) -> Vec<Val> {
        let Some(source) = self.source_at(images, site) else { return Vec::new() };
        let Some(at) = source.at(site.frame.line, site.frame.column) else { return Vec::new() };
        let macros = self.macros(images, site);
        let find = |n: &str| macros.get(n).cloned();
        let image = images.get(site.image);
        let tokens = &source.tokens;
        let token = &tokens[at];
        let eval = |slice: &[Token]| {
            let slice = expand(slice, &find, 0);
            vec![Eval::new(image, site.svma, &site.scope, &slice).unary_at(0)]
        };
        let one = |start: usize, end: usize| tokens.get(start..=end).map(eval).unwrap_or_default();
        match &*token.text {
            "->" | "." if at > 0 => one(postfix_start(tokens, at - 1), at + 1),
            "[" if at > 0 => {
                closing(tokens, at).map(|end| one(postfix_start(tokens, at - 1), end)).unwrap_or_default()
            }
            // g++ names the closing bracket.
            "]" => one(postfix_start(tokens, at), at),
            // g++ names the bracket of a call, clang the start of the operand of a subscript.
            "(" if at > 0 && tokens[at - 1].is_ident() && ends_operand(&tokens[at - 1]) => {
                self.at_identifier(image, site, &source, &macros, at - 1, kind)
            }
            "(" if at == 0 || !ends_operand(&tokens[at - 1]) => {
                self.bracketed(image, site, &source, &macros, at)
            }
            "=" if kind == TouchKind::Read => assigned(tokens, at).map(eval).unwrap_or_default(),
            "++" | "--" if at == 0 || !ends_operand(&tokens[at - 1]) => {
                one(at + 1, statement_end(tokens, at))
            }
            "=" | "+=" | "-=" | "*=" | "/=" | "%=" | "&=" | "|=" | "^=" | "<<=" | ">>=" | "++" | "--" => {
                lvalue_before(tokens, at).map(eval).unwrap_or_default()
            }
            "*" if at == 0 || !ends_operand(&tokens[at - 1]) => one(at, statement_end(tokens, at)),
            _ if token.is_ident() => self.at_identifier(image, site, &source, &macros, at, kind),
            _ => Vec::new(),
        }
    }

    /// `(..)->a[i]` from its first bracket: the whole chain.
    fn bracketed(
        &self,
        image: &crate::image::Image,
        site: &Site,
        source: &Source,
        macros: &Macros,
        at: usize,
    ) -> Vec<Val> {
        let end = statement_end(&source.tokens, at);
        let Some(slice) = source.tokens.get(at..=end) else { return Vec::new() };
        let slice = expand(slice, &|n| macros.get(n).cloned(), 0);
        let val = Eval::new(image, site.svma, &site.scope, &slice).unary_at(0);
        if val.place.is_some() { vec![val] } else { Vec::new() }
    }

    /// What the use of a macro names: the compiler tells no place inside of it.
    fn in_macro(
        &self,
        image: &crate::image::Image,
        site: &Site,
        tokens: &[Token],
        kind: TouchKind,
        find: &dyn Fn(&str) -> Option<Macro>,
    ) -> Vec<Val> {
        let expanded = expand(tokens, find, 0);
        let value = |slice: &[Token]| Eval::new(image, site.svma, &site.scope, slice).unary_at(0);
        let pointed = pointed_to_by_calls(&expanded, kind);
        if !pointed.is_empty() {
            return pointed.iter().map(|slice| value(slice)).collect();
        }
        // Which of several definitions was compiled is not known; an atomic operation is given its word's address.
        if let Some(list) = tokens.get(2..tokens.len().saturating_sub(1)).filter(|_| kind == TouchKind::Rmw) {
            let words = arguments(list).into_iter().map(|arg| expand(&starred(arg, &tokens[0]), find, 0));
            let named: Vec<Val> = words.map(|w| value(&w)).filter(|v| v.place.is_some()).collect();
            if !named.is_empty() {
                return named;
            }
        }
        // Any lvalue in it may be meant.
        let mut eval = Eval::new(image, site.svma, &site.scope, &expanded);
        eval.expression_at(0);
        eval.nodes.into_iter().filter(|n| n.val.member.is_some()).map(|n| n.val).collect()
    }

    fn at_identifier(
        &self,
        image: &crate::image::Image,
        site: &Site,
        source: &Source,
        macros: &Macros,
        at: usize,
        kind: TouchKind,
    ) -> Vec<Val> {
        let tokens = &source.tokens;
        let find = |n: &str| macros.get(n).cloned();
        let value =
            |slice: &[Token]| Eval::new(image, site.svma, &site.scope, &expand(slice, &find, 0)).unary_at(0);
        let nodes = |slice: &[Token]| -> Vec<Node> {
            let slice = expand(slice, &find, 0);
            let mut eval = Eval::new(image, site.svma, &site.scope, &slice);
            eval.expression_at(0);
            eval.nodes
        };
        let name = &*tokens[at].text;
        let called = tokens.get(at + 1).is_some_and(|t| t.is("("));
        let close = if called { closing(tokens, at + 1) } else { None };
        let local = site.scope.variables.iter().any(|(n, _)| n == name);
        if let Some(m) = macros.get(name).filter(|_| !local) {
            let end = if m.params.is_some() { close.unwrap_or(at) } else { at };
            return self.in_macro(image, site, &tokens[at..=end], kind, &find);
        }
        if at > 0 && (tokens[at - 1].is("->") || tokens[at - 1].is(".")) && !called {
            return vec![value(&tokens[postfix_start(tokens, at)..=at])];
        }
        if let Some(close) = close {
            let args = arguments(&tokens[at + 2..close]);
            let Some(arg) = pointer_argument(name, kind).and_then(|i| args.get(i).copied()) else {
                // The compiler names the call where it reads its arguments.
                let read = if kind == TouchKind::Read { nodes(&tokens[at + 2..close]) } else { Vec::new() };
                return read.into_iter().map(|n| n.val).collect();
            };
            return vec![value(&starred(arg, &tokens[at]))];
        }
        // `x = p->f` and `T x = p->f` read what is assigned; `p->f = x` at `p` (merged stores) writes the field.
        if kind == TouchKind::Read
            && tokens.get(at + 1).is_some_and(|t| t.is("="))
            && let Some(slice) = assigned(tokens, at + 1)
        {
            return vec![value(slice)];
        }
        if kind == TouchKind::Write
            && let Some(slice) = assigned_to(tokens, at)
        {
            return vec![value(slice)];
        }
        // A variable, or (clang) the subscript expression that begins with it.
        let mut end = at;
        while let Some(close) =
            tokens.get(end + 1).filter(|t| t.is("[")).and_then(|_| closing(tokens, end + 1))
        {
            end = close;
        }
        let all = nodes(&tokens[at..=end]);
        let outer = all.iter().filter(|n| n.operator == 0 || n.val.place.is_some());
        outer.map(|n| n.val.clone()).filter(|v| v.place.is_some()).collect()
    }
}

fn claims_of(images: &Images, image: ImageId, values: &[Val]) -> Vec<Claim> {
    let table = &images.get(image).types;
    let mut out: Vec<Claim> = Vec::new();
    for v in values {
        let size = v.ty.and_then(|t| if t.stars > 0 { Some(8) } else { table.size(t.id) });
        let bare = v.ty.map(|t| table.get(table.strip(t.id)));
        let scalar = size.is_some() && !matches!(bare, Some(Type::Aggregate(_) | Type::Array { .. }));
        let claim = match (&v.place, &v.member) {
            (Some(p), _) => {
                let (variable, via) = root_of(&p.root);
                Claim {
                    image,
                    ty: Some(p.ty),
                    offset: p.offset,
                    strides: p.strides.clone(),
                    size,
                    scalar,
                    field: p.field.clone(),
                    variable,
                    function: None,
                    via,
                    held: held_of(&p.root),
                }
            }
            (None, Some(member)) => Claim {
                image,
                ty: None,
                offset: 0,
                strides: Vec::new(),
                size: None,
                scalar: false,
                field: member.clone(),
                variable: None,
                function: None,
                via: None,
                held: None,
            },
            _ => continue,
        };
        if !out.contains(&claim) {
            out.push(claim);
        }
    }
    out
}

fn root_of(root: &Root) -> (Option<(String, bool)>, Option<String>) {
    match root {
        Root::Pointer { via, .. } => (None, via.clone()),
        Root::Variable { name, local } => (Some((name.clone(), *local)), None),
    }
}

/// The variable at `at` is what is assigned to, also in its declaration, and not what it points to.
fn is_target(tokens: &[Token], at: usize) -> bool {
    let stars = tokens[..at].iter().rev().take_while(|t| t.is("*")).count();
    let before = at.checked_sub(stars + 1).and_then(|i| tokens.get(i));
    stars == 0 || before.is_some_and(|t| t.is_ident() && ends_operand(t))
}

fn held_of(root: &Root) -> Option<String> {
    match root {
        Root::Pointer { held, .. } => held.clone(),
        Root::Variable { .. } => None,
    }
}

/// `*` before an expression; `at` is the token whose place it gets.
fn starred(expression: &[Token], at: &Token) -> Vec<Token> {
    let star = Token { text: "*".into(), kind: crate::tokens::Kind::Punct, ..at.clone() };
    std::iter::once(star).chain(expression.iter().cloned()).collect()
}

/// `*p` for every `p` that well-known functions are given in an expression, with all macros replaced.
fn pointed_to_by_calls(tokens: &[Token], kind: TouchKind) -> Vec<Vec<Token>> {
    let call = |i: usize| {
        let open = tokens.get(i + 1).filter(|t| t.is("("))?;
        let close = closing(tokens, i + 1)?;
        let index = pointer_argument(&tokens[i].text, kind)?;
        let args = arguments(&tokens[i + 2..close]);
        Some(starred(args.get(index)?, open))
    };
    (0..tokens.len()).filter(|&i| tokens[i].is_ident()).filter_map(call).collect()
}

/// The argument that points to what a well-known function touches.
fn pointer_argument(function: &str, kind: TouchKind) -> Option<usize> {
    let first = [
        "__atomic_",
        "__sync_",
        "atomic_",
        "__c11_atomic_",
        "pthread_mutex_",
        "pthread_cond_",
        "pthread_spin_",
        "pthread_rwlock_",
        "pthread_barrier_",
        "sem_",
    ];
    if first.iter().any(|f| function.starts_with(f)) {
        return Some(0);
    }
    match (function, kind) {
        ("memcpy" | "memmove" | "strcpy" | "strncpy", TouchKind::Read) => Some(1),
        ("memcpy" | "memmove" | "memset" | "strcpy" | "strncpy" | "bzero", _) => Some(0),
        _ => None,
    }
}

/// The call of `name` on a line: the one at the column, else the only one.
fn call_on_line(source: &Source, line: u32, column: u32, name: &str) -> Option<usize> {
    let tokens = &source.tokens;
    let is_call = |i: &usize| tokens[*i].is(name) && tokens.get(i + 1).is_some_and(|t| t.is("("));
    let calls: Vec<usize> = source.line(line).filter(is_call).collect();
    let exact = calls.iter().copied().find(|&i| tokens[i].column == column);
    // The column may be that of the expression's start or of the bracket.
    let near = || match calls.as_slice() {
        [only] => Some(*only),
        _ => None,
    };
    exact.or_else(near)
}

/// The token can be the end of an operand, so that an operator after it is binary or postfix.
pub(crate) fn ends_operand(t: &Token) -> bool {
    match t.kind {
        crate::tokens::Kind::Punct => matches!(&*t.text, ")" | "]"),
        crate::tokens::Kind::Ident => !matches!(&*t.text, "return" | "case" | "else" | "do" | "throw"),
        _ => true,
    }
}

/// The lvalue that ends before an assignment or postfix operator, with its `*`s.
pub(crate) fn lvalue_before(tokens: &[Token], at: usize) -> Option<&[Token]> {
    let end = at.checked_sub(1)?;
    let mut start = postfix_start(tokens, end);
    while start > 0 && tokens[start - 1].is("*") && (start == 1 || starts_after(&tokens[start - 2])) {
        start -= 1;
    }
    tokens.get(start..=end)
}

/// A `*` after this token is a dereference: not a product and not part of a declaration.
fn starts_after(t: &Token) -> bool {
    t.kind == crate::tokens::Kind::Punct && !matches!(&*t.text, ")" | "]") || t.is("else") || t.is("do")
}

/// First token of the postfix expression that ends with token `end`.
pub(crate) fn postfix_start(tokens: &[Token], end: usize) -> usize {
    let mut i = end;
    loop {
        let Some(t) = tokens.get(i) else { return end };
        if t.is(")") || t.is("]") {
            let Some(open) = opening(tokens, i) else { return i };
            let Some(before) = open.checked_sub(1) else { return open };
            let b = &tokens[before];
            let keyword =
                matches!(&*b.text, "if" | "while" | "for" | "switch" | "return" | "sizeof" | "else");
            let continues = (b.is_ident() && !keyword) || b.is("]") || (t.is("]") && b.is(")"));
            if !continues {
                return open;
            }
            i = before;
            continue;
        }
        let linked = |k: usize| ["->", ".", "::"].iter().any(|l| tokens[k].is(l));
        match i.checked_sub(1) {
            Some(link)
                if linked(link) && link > 0 && (tokens[link].is("::") || ends_operand(&tokens[link - 1])) =>
            {
                i = link - 1;
            }
            _ => return i,
        }
    }
}

/// The right side of the `=` at `at`, if it is a plain chain of members and subscripts up to the end of the statement.
fn assigned(tokens: &[Token], at: usize) -> Option<&[Token]> {
    let end = (at + 1..tokens.len().min(at + 200)).find(|&i| tokens[i].is(";") || tokens[i].is(","))?;
    let slice = tokens.get(at + 1..end)?;
    let first = slice.first().filter(|t| t.is_ident() || t.is("*"))?;
    let start = if first.is("*") { at + 2 } else { at + 1 };
    (postfix_start(tokens, end - 1) == start && end > start).then_some(slice)
}

/// The chain that begins at `at`, if an assignment follows it.
fn assigned_to(tokens: &[Token], at: usize) -> Option<&[Token]> {
    let end = (at + 1..tokens.len().min(at + 200)).find(|&i| {
        tokens[i].is(";")
            || (tokens[i].text.ends_with('=') && !["==", "!=", "<=", ">="].iter().any(|o| tokens[i].is(o)))
    })?;
    if tokens[end].is(";") || end < at + 2 {
        return None;
    }
    (postfix_start(tokens, end - 1) == at).then(|| &tokens[at..end])
}

fn statement_end(tokens: &[Token], at: usize) -> usize {
    let end = (at..tokens.len().min(at + 2000)).find(|&i| tokens[i].is(";") || tokens[i].is("{"));
    end.unwrap_or(tokens.len()).saturating_sub(1)
}
