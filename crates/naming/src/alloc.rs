//! Types that an allocation site speaks of: `sizeof`, casts, the variable that takes the result, `new T`, the
//! template argument of an allocator.

use tussle_evidence::Basis;
use tussle_model::{Type, TypeId, TypeTable};

use crate::expr::{Eval, Ty, type_name};
use crate::image::{Image, ImageId, Images};
use crate::nest;
use crate::rust;
use crate::site::{Site, Sites, lvalue_before};
use crate::tokens::{Kind, Macro, Source, Token, arguments, closing, expand, opening};

/// Callers looked at when the allocation itself says nothing (`xmalloc`, `slabs_newslab`).
const LEVELS_MAX: usize = 10;

/// A type that an allocation may have made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub image: ImageId,
    pub ty: TypeId,
    /// How far this kind of sign is to be trusted, 0 to 1.
    pub prior: f32,
    /// What kind of sign it is.
    pub basis: Basis,
    /// For people.
    pub why: String,
    /// The block has one, and something else behind it: the size is a sum.
    pub leads: bool,
}

impl Candidate {
    /// How it fits a block.
    pub fn fit(&self, table: &TypeTable, bytes: u64) -> Fit {
        match fit(table, self.ty, bytes) {
            Fit::Elements(n) if n > 1 && self.leads => Fit::Header,
            fit => fit,
        }
    }
}

/// How a type fits a block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Exactly so many elements.
    Elements(u64),
    /// One, and something behind it.
    Header,
    /// Not at all.
    No,
}

/// Compares sizes.
pub(crate) fn fit(table: &TypeTable, ty: TypeId, bytes: u64) -> Fit {
    match table.size(ty) {
        Some(size) if size > 0 && bytes >= size => match bytes % size {
            0 if bytes == size || !nest::unbounded(table, ty) => Fit::Elements(bytes / size),
            _ => Fit::Header,
        },
        _ => Fit::No,
    }
}

/// What the frames of an allocation say, nearest first. Stops at the first frame that names a structured type which
/// fits `bytes`.
pub(crate) fn candidates(
    sites: &mut Sites,
    images: &mut Images,
    frames: &[Site],
    bytes: u64,
) -> Vec<Candidate> {
    let frames = rust::past_allocator(frames);
    if rust::allocates(frames) {
        return rust::candidates(images, frames, bytes);
    }
    let mut out: Vec<Candidate> = Vec::new();
    for (level, site) in frames.iter().take(LEVELS_MAX).enumerate() {
        let mut found = from_templates(images.get(site.image), site);
        let (told, kept) = from_source(sites, images, site);
        found.extend(told);
        let table = &images.get(site.image).types;
        found.retain(|c| !nest::raw_bytes(table, c.ty) && fit(table, c.ty, bytes) != Fit::No);
        for c in &mut found {
            c.why = format!("{} at {}:{}", c.why, short(&site.frame.file), site.frame.line);
            // The further away, the more may have happened in between.
            c.prior -= 0.02 * level as f32;
        }
        let done = found.iter().any(|c| nest::structured(table, c.ty));
        out.extend(found);
        if done || kept {
            break;
        }
    }
    out
}

/// The element of `new T[n]`, if that is what the nearest frame says.
pub(crate) fn new_array(sites: &mut Sites, images: &mut Images, site: &Site) -> Option<Candidate> {
    let source = sites.source_at(images, site)?;
    let reader = Reader { image: images.get(site.image), site, source: &source, macros: &|_| None };
    let (ty, behind) = reader.new_type(source.at(site.frame.line, site.frame.column))?;
    source.tokens.get(behind).is_some_and(|t| t.is("[")).then_some(ty)
}

/// File name without folders.
pub(crate) fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `std::allocator<T>::allocate` and its like in any library: the allocator's element is its first argument.
fn from_templates(image: &Image, site: &Site) -> Vec<Candidate> {
    let allocates =
        site.scope.name.as_deref().is_some_and(|n| n.starts_with("allocate") && !n.contains("shared"));
    let element = site.scope.templates.iter().find_map(|(n, die)| {
        let plain = matches!(n.as_str(), "_Tp" | "T" | "_Ty" | "value_type");
        image.ty(*die).filter(|_| plain)
    });
    match (allocates, element) {
        (true, Some(ty)) => {
            vec![Candidate {
                image: site.image,
                ty,
                prior: 0.95,
                basis: Basis::Allocation,
                why: "element type of the allocator".into(),
                leads: false,
            }]
        }
        _ => Vec::new(),
    }
}

/// What the source says, and whether the memory is kept in a member or an element there (`space->buf = alloc(n)`): what
/// the function gives to its caller is something else then.
fn from_source(sites: &mut Sites, images: &mut Images, site: &Site) -> (Vec<Candidate>, bool) {
    let Some(source) = sites.source_at(images, site) else { return (Vec::new(), false) };
    let macros = sites.macros(images, site);
    let find = |n: &str| macros.get(n).cloned();
    let reader = Reader { image: images.get(site.image), site, source: &source, macros: &find };
    let at = source.at(site.frame.line, site.frame.column);
    if let Some(found) = reader.new_expression(at) {
        return (vec![found], false);
    }
    // g++ names the bracket of a call.
    let tokens = &source.tokens;
    let name =
        |at: usize| at.checked_sub(1).filter(|&i| tokens[at].is("(") && tokens[i].is_ident()).unwrap_or(at);
    at.map(|at| (reader.call(name(at)), reader.is_kept(name(at)))).unwrap_or_default()
}

/// What stands from `from` to `to` is added to something: `sizeof(struct head) + n`.
fn is_summand(tokens: &[Token], from: usize, to: usize) -> bool {
    let before = from.checked_sub(1).and_then(|i| tokens.get(i));
    let [before, after] = [before, tokens.get(to + 1)].map(|t| t.map_or("", |t| &*t.text));
    let ends = |t: &str, bracket: &str| t == "+" || t == "," || t == bracket;
    ends(before, "(") && ends(after, ")") && (before == "+" || after == "+")
}

struct Reader<'a> {
    image: &'a Image,
    site: &'a Site,
    source: &'a Source,
    macros: &'a dyn Fn(&str) -> Option<Macro>,
}

impl Reader<'_> {
    fn candidate(&self, ty: Ty, prior: f32, basis: Basis, why: &str) -> Option<Candidate> {
        if ty.stars > 0 || ty.id == TypeId::VOID {
            return None;
        }
        let mut id = ty.id;
        // An array of elements is told by its element and a count.
        if let Type::Array { elem, .. } = self.image.types.get(self.image.types.strip(id)) {
            id = *elem;
        }
        Some(Candidate { image: self.site.image, ty: id, prior, basis, why: why.into(), leads: false })
    }

    /// `new T(..)`, `new T[n]`: at the column, or the only one of the line.
    fn new_expression(&self, at: Option<usize>) -> Option<Candidate> {
        self.new_type(at).map(|(ty, _)| ty)
    }

    /// The same, and the token behind the type.
    fn new_type(&self, at: Option<usize>) -> Option<(Candidate, usize)> {
        let tokens = &self.source.tokens;
        let exact = at.filter(|&i| tokens[i].is("new"));
        let mut on_line = self.source.line(self.site.frame.line).filter(|&i| tokens[i].is("new"));
        let start = exact.or_else(|| on_line.next().filter(|_| on_line.next().is_none()))? + 1;
        // Arguments of the allocation function come first: `new (std::align_val_t(64)) T`. With others, a place, it
        // allocates nothing.
        let start = match tokens.get(start)? {
            t if t.is("(") => {
                let end = closing(tokens, start)?;
                let allocates = |t: &Token| t.is("align_val_t") || t.is("nothrow");
                tokens[start..end].iter().any(allocates).then_some(end + 1)?
            }
            _ => start,
        };
        let stop =
            |t: &Token| t.kind == Kind::Punct && matches!(&*t.text, "(" | "[" | "{" | ";" | "," | ")" | "}");
        let end = (start..tokens.len().min(start + 200)).find(|&i| stop(&tokens[i]))?;
        let ty = type_name(self.image, &self.site.scope, &tokens[start..end])?;
        Some((self.candidate(ty, 0.95, Basis::Allocation, "`new` expression")?, end))
    }

    /// A call whose name (or macro) is at `at`.
    fn call(&self, at: usize) -> Vec<Candidate> {
        let tokens = &self.source.tokens;
        let name = &*tokens[at].text;
        if !tokens[at].is_ident() {
            return Vec::new();
        }
        let close =
            tokens.get(at + 1).filter(|t| t.is("(")).and_then(|_| closing(tokens, at + 1)).unwrap_or(at);
        let slice = expand(&tokens[at..=close], self.macros, 0);
        let mut out = self.sizeofs(&slice);
        if (self.macros)(name).is_some() {
            out.extend(self.casts_inside(&slice));
        }
        out.extend(self.cast_before(at));
        out.extend(self.receiver(at));
        if name == "posix_memalign" {
            out.extend(self.first_argument(at, close));
        }
        out
    }

    /// `sizeof(struct x)`, `sizeof *p`, `sizeof(x)`.
    fn sizeofs(&self, slice: &[Token]) -> Vec<Candidate> {
        let mut out = Vec::new();
        for i in 0..slice.len() {
            if !slice[i].is("sizeof") {
                continue;
            }
            let mut eval = Eval::new(self.image, self.site.svma, &self.site.scope, slice);
            let inside = slice.get(i + 1).filter(|t| t.is("(")).and_then(|_| closing(slice, i + 1));
            let ty = match inside {
                Some(close) => eval.type_name(i + 2, close).or_else(|| eval.expression_at(i + 2).ty),
                None => eval.unary_at(i + 1).ty,
            };
            let found = ty.and_then(|t| self.candidate(t, 0.9, Basis::Sizeof, "sizeof at the allocation"));
            let leads = inside.is_some_and(|close| is_summand(slice, i, close));
            out.extend(found.map(|c| Candidate { leads, ..c }));
        }
        let several = |c: &Candidate| out.iter().filter(|o| o.ty == c.ty).count() > 1;
        let leads: Vec<bool> = out.iter().map(|c| c.leads && !several(c)).collect();
        out.iter_mut().zip(leads).for_each(|(c, leads)| c.leads = leads);
        out
    }

    /// `(struct x *)` before a call inside an expanded macro.
    fn casts_inside(&self, slice: &[Token]) -> Vec<Candidate> {
        let calls = (1..slice.len()).filter(|&i| {
            slice[i].is_ident() && slice.get(i + 1).is_some_and(|t| t.is("(")) && slice[i - 1].is(")")
        });
        calls.filter_map(|i| self.cast_of(slice, i - 1)).collect()
    }

    fn cast_before(&self, at: usize) -> Option<Candidate> {
        let close = at.checked_sub(1).filter(|&i| self.source.tokens[i].is(")"))?;
        self.cast_of(&self.source.tokens, close)
    }

    fn cast_of(&self, tokens: &[Token], close: usize) -> Option<Candidate> {
        let open = opening(tokens, close)?;
        let ty = type_name(self.image, &self.site.scope, tokens.get(open + 1..close)?)?;
        self.candidate(self.pointee(ty)?, 0.85, Basis::Allocation, "cast at the allocation")
    }

    fn pointee(&self, ty: Ty) -> Option<Ty> {
        if ty.stars > 0 {
            return Some(Ty { stars: ty.stars - 1, ..ty });
        }
        match self.image.types.get(self.image.types.strip(ty.id)) {
            Type::Pointer { to, .. } => Some(Ty { id: *to, stars: 0 }),
            _ => None,
        }
    }

    /// What stands before a call and the cast of its result.
    fn before_cast(&self, at: usize) -> Option<usize> {
        let before = at.checked_sub(1)?;
        match self.source.tokens[before].is(")") {
            true => opening(&self.source.tokens, before)?.checked_sub(1),
            false => Some(before),
        }
    }

    /// A member or an element takes the result of the call at `at`.
    fn is_kept(&self, at: usize) -> bool {
        let tokens = &self.source.tokens;
        let Some(before) = self.before_cast(at).filter(|&i| tokens[i].is("=")) else { return false };
        let target = lvalue_before(tokens, before).unwrap_or_default();
        target.iter().any(|t| t.is("->") || t.is(".") || t.is("["))
    }

    /// The variable or member that takes the result, or the type that the function returns.
    fn receiver(&self, at: usize) -> Option<Candidate> {
        let tokens = &self.source.tokens;
        let before = self.before_cast(at)?;
        if tokens[before].is("return") {
            let id = self.image.ty(self.site.scope.ret)?;
            return self.candidate(
                self.pointee(Ty { id, stars: 0 })?,
                0.7,
                Basis::Allocation,
                "type that the function returns",
            );
        }
        if !tokens[before].is("=") {
            return None;
        }
        let slice = expand(lvalue_before(tokens, before)?, self.macros, 0);
        let ty = Eval::new(self.image, self.site.svma, &self.site.scope, &slice).unary_at(0).ty?;
        self.candidate(
            self.pointee(ty)?,
            0.85,
            Basis::Allocation,
            "type of the pointer that takes the result",
        )
    }

    fn first_argument(&self, at: usize, close: usize) -> Option<Candidate> {
        let tokens = &self.source.tokens;
        let args = arguments(tokens.get(at + 2..close)?);
        let slice = expand(args.first()?, self.macros, 0);
        let ty = Eval::new(self.image, self.site.svma, &self.site.scope, &slice).unary_at(0).ty?;
        self.candidate(
            self.pointee(self.pointee(ty)?)?,
            0.85,
            Basis::Allocation,
            "type of the pointer that takes the result",
        )
    }
}
