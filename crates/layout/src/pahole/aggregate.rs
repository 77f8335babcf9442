//! Bodies of structs, unions and enumerations.

use super::names::keyword;
use super::stats::Stats;
use super::{Options, member};
use crate::align::{inferred, natural, takes_room};
use crate::holes::{Extent, Holes, order};
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{
    Aggregate, AggregateKind, AlignmentSource, EnumType, Language, Member, MemberRole, TypeTable,
};

/// pahole indents no deeper than this.
const TABS_MAX: usize = 16;

/// Text of one type is cut here, bytes: `-E` of a hostile file can be endless.
const TEXT_MAX: usize = 4 << 20;

/// Where the next text goes and how wide its columns are.
#[derive(Clone, Debug)]
pub(super) struct Conf {
    /// Width of the type column; shrinks by a tab per level and may become negative, which C's printf allows.
    pub type_width: i64,
    /// Width of the name column.
    pub name_width: i64,
    /// Tabs in front of the closing brace.
    pub indent: usize,
    /// Offset of the aggregate in the outermost one, bytes.
    pub base: u64,
    /// Print the trailer.
    pub stats: bool,
    /// Offsets count from the start of the inner aggregate.
    pub relative: bool,
    /// What follows the closing brace (the member's name).
    pub suffix: Option<String>,
    /// The member is the first, or only, one.
    pub first: bool,
    /// The member is the last one.
    pub last: bool,
    /// The member is a direct alternative of a union.
    pub alternative: bool,
    /// The member lies somewhere inside a union.
    pub in_union: bool,
}

impl Conf {
    pub fn top(expand: bool, union: bool) -> Conf {
        let name_width = match (expand, union) {
            (true, _) => 55,
            (false, true) => 21,
            (false, false) => 23,
        };
        Conf {
            type_width: 26,
            name_width,
            indent: 0,
            base: 0,
            stats: false,
            relative: false,
            suffix: None,
            first: false,
            last: false,
            alternative: false,
            in_union: false,
        }
    }
}

pub(super) struct Writer<'a> {
    pub table: &'a TypeTable,
    pub options: Options,
    pub out: String,
    pub depth: usize,
}

impl Writer<'_> {
    /// Indentation, never more than [`TABS_MAX`].
    pub fn tabs(&mut self, n: usize) {
        self.out.extend(std::iter::repeat_n('\t', n.min(TABS_MAX)));
    }

    pub fn comment(&mut self, indent: usize, text: &str) {
        self.tabs(indent);
        self.out.push_str("/* ");
        self.out.push_str(text);
        self.out.push_str(" */");
    }

    /// Body of a struct, class or union. `line` is the last cacheline that a comment has announced.
    pub fn aggregate(&mut self, a: &Aggregate, conf: &Conf, line: &mut u64) {
        if self.depth > DEPTH_MAX || self.out.len() > TEXT_MAX {
            return self.out.push_str("...");
        }
        self.depth += 1;
        self.out.push_str(keyword(a.kind));
        if let Some(name) = &a.name {
            self.out.push(' ');
            self.out.push_str(name);
        }
        self.out.push_str(&bases(self.table, a));
        self.out.push_str(" {\n");
        if a.kind == AggregateKind::Union {
            self.union_body(a, conf, *line);
        } else {
            self.struct_body(a, conf, line);
        }
        self.depth -= 1;
    }

    /// Every member of a union starts at the line where the union starts, and so does what follows the union.
    fn union_body(&mut self, a: &Aggregate, conf: &Conf, line: u64) {
        let mut inner = Conf {
            indent: conf.indent + 1,
            stats: false,
            suffix: None,
            alternative: true,
            in_union: true,
            ..conf.clone()
        };
        for (i, m) in a.members.iter().enumerate() {
            let mut at = line;
            inner.first = i == 0;
            inner.last = i + 1 == a.members.len();
            self.tabs(inner.indent);
            member::write(self, m, m.align, &inner, &mut at);
            self.out.push('\n');
        }
        self.close(a, conf);
    }

    fn struct_body(&mut self, a: &Aggregate, conf: &Conf, line: &mut u64) {
        let holes = Holes::of(self.table, a);
        let mut stats = Stats::default();
        let mut inner = Conf { indent: conf.indent + 1, suffix: None, alternative: false, ..conf.clone() };
        let mut last: Option<(usize, Extent)> = None;
        let mut last_size = 0;
        let mut blank = false;
        let mut end = 0;
        let before = stats.gap(holes.before);
        for note in &before {
            self.out.push('\n');
            self.comment(inner.indent, note);
        }
        if !before.is_empty() {
            self.out.push_str("\n\n");
        }
        let order = order(a);
        for (n, &i) in order.iter().enumerate() {
            let m = &a.members[i];
            let p = Extent::of(self.table, m);
            let align = self.member_align(m, p.offset, end).filter(|_| a.language != Language::Rust);
            let gap = last.map_or(0, |(l, _)| holes.after[l].bytes);
            stats.forced(align, gap);
            if let Some((l, before)) = last.filter(|_| m.role != MemberRole::Static) {
                let bits = holes.after[l].bits;
                if p.bits.is_some() && bits > 0 {
                    self.unused_bits(m, bits, before.offset != p.offset, &inner);
                }
                // Elsewhere than in C, members overlap without bit-fields: a base's padding, a variant.
                let bits = p.bits.is_some() || before.bits.is_some();
                if bits || a.language == Language::C {
                    blank |= self.combined(&p, &before, last_size, inner.indent, blank);
                }
                if std::mem::take(&mut blank) {
                    self.out.push('\n');
                }
            }
            inner.first = n == 0;
            inner.last = n + 1 == order.len();
            self.tabs(inner.indent);
            member::write(self, m, align, &inner, line);
            blank = self.after_member(m, &holes, i, inner.indent, &mut stats);
            self.out.push('\n');
            if !takes_room(m.role) {
                continue;
            }
            stats.member(&p);
            if p.size != 0 {
                end = p.offset.saturating_add(p.size);
            }
            last_size = self.counted_size(&p, last.map(|l| l.1), last_size);
            last = Some((i, p));
        }
        self.force_padding(a, &holes, last.map(|l| l.0), &inner);
        if conf.stats {
            stats.trailer(self, a, &holes, &inner, conf.base);
        }
        self.close(a, conf);
    }

    /// Size that the next member is held against: bit-fields of one unit keep the first one's.
    fn counted_size(&self, p: &Extent, before: Option<Extent>, last_size: u64) -> u64 {
        match before {
            Some(b) if b.offset == p.offset && last_size != 0 && last_size >= p.size => last_size,
            _ => p.size,
        }
    }

    /// Notes that a bit-field shares bytes with its neighbour. True when a blank line must follow.
    fn combined(&mut self, p: &Extent, before: &Extent, last_size: u64, indent: usize, blank: bool) -> bool {
        if last_size == 0 {
            return false;
        }
        let into_previous = p.offset < before.offset
            || (p.offset == before.offset && before.bits.is_none() && p.bits.is_some());
        let text = if into_previous {
            "Bitfield combined with previous fields"
        } else if p.offset > before.offset && p.offset - before.offset < last_size {
            "Bitfield combined with next fields"
        } else {
            return false;
        };
        if !blank {
            self.out.push('\n');
        }
        self.comment(indent, text);
        self.out.push('\n');
        true
    }

    /// An unnamed bit-field in place of the bit hole in front of `m`; `:0` when `m` begins a new unit.
    fn unused_bits(&mut self, m: &Member, bits: u64, new_unit: bool, conf: &Conf) {
        if new_unit {
            self.out.push('\n');
            self.comment(conf.indent, "Force alignment to the next boundary:");
            self.out.push('\n');
        }
        self.unnamed(m, if new_unit { 0 } else { bits }, conf);
    }

    fn unnamed(&mut self, m: &Member, width: u64, conf: &Conf) {
        self.tabs(conf.indent);
        member::declarator(self, m.ty, "", conf, &mut 0);
        self.out.push_str(&format!(":{width};\n"));
    }

    /// Notes on padding inside and holes behind a member. True when a blank line must follow.
    fn after_member(
        &mut self,
        m: &Member,
        holes: &Holes,
        i: usize,
        indent: usize,
        stats: &mut Stats,
    ) -> bool {
        let mut notes = Vec::new();
        if let Some(inner) = member::direct_struct(self.table, m.ty) {
            let padding = Holes::of(self.table, inner).padding;
            if padding > 0 {
                stats.paddings += 1;
                stats.sum_paddings = stats.sum_paddings.saturating_add(padding);
                notes.push(format!("XXX last struct has {padding} byte{} of padding", plural(padding)));
            }
        }
        notes.extend(stats.gap(holes.after[i]));
        self.notes(&notes, indent);
        !notes.is_empty()
    }

    /// Lines behind a blank one, the last without its newline.
    fn notes(&mut self, notes: &[String], indent: usize) {
        for (i, note) in notes.iter().enumerate() {
            self.out.push_str(if i == 0 { "\n\n" } else { "\n" });
            self.comment(indent, note);
        }
    }

    /// Unnamed bit-fields in place of padding that no alignment explains.
    fn force_padding(&mut self, a: &Aggregate, holes: &Holes, last: Option<usize>, conf: &Conf) {
        let Some(last) = last.map(|i| &a.members[i]) else {
            return;
        };
        if self.table.aggregate(last.ty).is_some() || a.language != Language::C {
            return;
        }
        let size = self.table.size(last.ty).unwrap_or(0);
        if self.alignment(a).is_some() || !size.is_power_of_two() || holes.padding == 0 {
            return;
        }
        if holes.padding <= u64::from(self.table.pointer_size) || holes.padding / size > 4096 {
            return;
        }
        self.out.push('\n');
        self.comment(conf.indent, "Force padding:");
        self.out.push('\n');
        for _ in 0..holes.padding.div_ceil(size) {
            self.unnamed(last, size.saturating_mul(8), conf);
        }
    }

    fn close(&mut self, a: &Aggregate, conf: &Conf) {
        self.tabs(conf.indent);
        self.out.push('}');
        let packed = self.is_packed(a);
        if packed {
            self.out.push_str(" __attribute__((__packed__))");
        }
        self.suffix(conf);
        // Rust gives every type an alignment; only what differs from the natural one was written by somebody.
        let natural_rust = a.language == Language::Rust
            && a.align.is_some_and(|x| x.bytes <= members_natural(self.table, a));
        let shown = !packed && a.kind != AggregateKind::Union && !natural_rust;
        if let Some(n) = self.alignment(a).filter(|_| shown) {
            self.out.push_str(&format!(" __attribute__((__aligned__({n})))"));
        }
    }

    fn suffix(&mut self, conf: &Conf) {
        if let Some(suffix) = &conf.suffix {
            self.out.push(' ');
            self.out.push_str(suffix);
        }
    }

    /// `aligned` of the whole aggregate.
    pub fn alignment(&self, a: &Aggregate) -> Option<u64> {
        let declared = a.align.filter(|x| x.source == AlignmentSource::Declared).map(|x| x.bytes);
        if declared.is_some() || !self.options.btf || a.kind == AggregateKind::Union {
            return declared;
        }
        let natural = members_natural(self.table, a);
        let mut places = a.members.iter().filter(|m| takes_room(m.role)).map(|m| Extent::of(self.table, m));
        let end = places.rfind(|p| p.size != 0).map_or(0, |p| p.offset.saturating_add(p.size));
        inferred(a.size, end, natural, self.options.line.bytes())
    }

    /// `aligned` of a member that begins at `at`, where the one before it ends at `end`.
    fn member_align(&self, m: &Member, at: u64, end: u64) -> Option<u64> {
        let guess = self.options.btf && self.table.size(m.ty).unwrap_or(0) != 0;
        if m.align.is_some() || !guess {
            return m.align;
        }
        inferred(at, end, natural(self.table, m.ty), self.options.line.bytes())
    }

    /// No holes, and some member off its natural alignment or a size that no alignment explains.
    pub fn is_packed(&self, a: &Aggregate) -> bool {
        if a.kind == AggregateKind::Union {
            return false;
        }
        let holes = Holes::of(self.table, a);
        if holes.padding != 0 || holes.count != 0 {
            return false;
        }
        let mut widest = 1;
        for m in a.members.iter().filter(|m| takes_room(m.role)) {
            let natural = natural(self.table, m.ty);
            if !Extent::of(self.table, m).offset.is_multiple_of(natural) {
                return true;
            }
            widest = widest.max(natural);
        }
        !a.size.is_multiple_of(widest) || (widest != 1 && self.alignment(a) == Some(1))
    }

    /// `enum {` .. `}` of an enumeration written out in place.
    pub fn enumeration(&mut self, e: &EnumType, conf: &Conf) {
        self.out.push_str("enum");
        if let Some(name) = &e.name {
            self.out.push(' ');
            self.out.push_str(name);
        }
        self.out.push_str(" {\n");
        let width = e.values.iter().map(|v| v.name.len()).max().unwrap_or(0) as i64;
        for v in &e.values {
            self.tabs(conf.indent + 1);
            let name = super::names::pad_right(&v.name, width);
            let value = match (self.options.btf, self.options.hex && v.value != 0) {
                (true, true) => format!("{:#x}", v.value as u32),
                (true, false) => format!("{}", v.value as u32),
                (false, true) if v.high.is_none() => format!("{:#x}", v.value),
                (false, true) => format!("{:#x}", v.wide()),
                (false, false) => format!("{}", v.wide()),
            };
            self.out.push_str(&format!("{name} = {value},\n"));
        }
        self.tabs(conf.indent);
        self.out.push('}');
        if e.size != 4 {
            self.out.push_str(" __attribute__((__packed__))");
        }
        self.suffix(conf);
    }
}

/// ` : public Base, Other` of a C++ class.
fn bases(table: &TypeTable, a: &Aggregate) -> String {
    let names: Vec<String> = a
        .members
        .iter()
        .filter_map(|m| match m.role {
            MemberRole::Base => Some(table.name(m.ty)),
            MemberRole::VirtualBase => Some(format!("virtual {}", table.name(m.ty))),
            _ => None,
        })
        .collect();
    if names.is_empty() { String::new() } else { format!(" : {}", names.join(", ")) }
}

fn members_natural(table: &TypeTable, a: &Aggregate) -> u64 {
    a.members.iter().filter(|m| takes_room(m.role)).map(|m| natural(table, m.ty)).max().unwrap_or(1)
}

/// `s` unless `n` is 1.
pub(super) fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}
