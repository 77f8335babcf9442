//! The trailer: sizes, holes and paddings as comments.

use super::aggregate::{Conf, Writer, plural};
use crate::holes::{Extent, Gap, Holes};
use tussle_model::{Aggregate, Language, MemberRole};

/// What the trailer counts while members go by.
#[derive(Default)]
pub(super) struct Stats {
    pub paddings: u64,
    pub sum_paddings: u64,
    sum_holes: u64,
    sum_bit_holes: u64,
    sum_bytes: u64,
    sum_bits: u64,
    forced: u64,
    forced_holes: u64,
    sum_forced_holes: u64,
}

impl Stats {
    pub fn forced(&mut self, align: Option<u64>, gap_bytes: u64) {
        if align.is_some() {
            self.forced += 1;
            self.forced_holes += u64::from(gap_bytes > 0);
            self.sum_forced_holes = self.sum_forced_holes.saturating_add(gap_bytes);
        }
    }

    /// Counts a gap and words the notes about it.
    pub fn gap(&mut self, gap: Gap) -> Vec<String> {
        let mut notes = Vec::new();
        if gap.bits > 0 {
            self.sum_bit_holes = self.sum_bit_holes.saturating_add(gap.bits);
            notes.push(format!("XXX {} bit{} hole, try to pack", gap.bits, plural(gap.bits)));
        }
        if gap.bytes > 0 {
            self.sum_holes = self.sum_holes.saturating_add(gap.bytes);
            notes.push(format!("XXX {} byte{} hole, try to pack", gap.bytes, plural(gap.bytes)));
        }
        notes
    }

    pub fn member(&mut self, p: &Extent) {
        match p.bits {
            Some((_, width)) => self.sum_bits += u64::from(width),
            None => self.sum_bytes = self.sum_bytes.saturating_add(p.size),
        }
    }

    pub fn trailer(&self, w: &mut Writer<'_>, a: &Aggregate, holes: &Holes, conf: &Conf, base: u64) {
        let bytes = w.options.line.bytes();
        w.out.push('\n');
        let statics = a.members.iter().filter(|m| m.role == MemberRole::Static).count();
        let members = a.members.iter().filter(|m| is_counted(m.role)).count();
        let lines = a.size.div_ceil(bytes);
        let mut first = format!("size: {}, cachelines: {lines}, members: {members}", a.size);
        if statics > 0 {
            first.push_str(&format!(", static members: {statics}"));
        }
        let mut notes = vec![first];
        self.sums(holes, &mut notes);
        if holes.padding > 0 {
            notes.push(format!("padding: {}", holes.padding));
        }
        if self.paddings > 0 {
            notes.push(format!("paddings: {}, sum paddings: {}", self.paddings, self.sum_paddings));
        }
        if holes.bit_padding > 0 {
            notes.push(format!("bit_padding: {} bits", holes.bit_padding));
        }
        if self.forced > 0 {
            let mut text = format!("forced alignments: {}", self.forced);
            if self.forced_holes > 0 {
                let (n, sum) = (self.forced_holes, self.sum_forced_holes);
                text.push_str(&format!(", forced holes: {n}, sum forced holes: {sum}"));
            }
            notes.push(text);
        }
        let rest = base.saturating_add(a.size) % bytes;
        if rest != 0 {
            notes.push(format!("last cacheline: {rest} bytes"));
        }
        for note in notes {
            w.comment(conf.indent, &note);
            w.out.push('\n');
        }
        self.unexplained(w, a, holes, conf.indent);
    }

    /// What the members, holes and paddings do not add up to: overlapping members or broken debug information.
    fn unexplained(&self, w: &mut Writer<'_>, a: &Aggregate, holes: &Holes, indent: usize) {
        let bits = |bytes: u64| i128::from(bytes) * 8;
        let known = bits(self.sum_bytes) + bits(self.sum_holes) + bits(holes.padding);
        let known = known
            + i128::from(self.sum_bits)
            + i128::from(self.sum_bit_holes)
            + i128::from(holes.bit_padding);
        let diff = bits(a.size) - known;
        if diff == 0 || a.members.is_empty() || a.language != Language::C {
            return;
        }
        w.out.push('\n');
        let text = format!(
            "BRAIN FART ALERT! {} bytes != {} (member bytes) + {} (member bits) + {} (byte holes) + {} (bit holes), \
             diff = {diff} bits",
            a.size, self.sum_bytes, self.sum_bits, self.sum_holes, self.sum_bit_holes
        );
        w.comment(indent, &text);
        w.out.push('\n');
    }

    fn sums(&self, holes: &Holes, notes: &mut Vec<String>) {
        if self.sum_holes == 0 && self.sum_bit_holes == 0 {
            return;
        }
        if self.sum_bytes > 0 {
            let mut text = format!("sum members: {}", self.sum_bytes);
            if self.sum_holes > 0 {
                text.push_str(&format!(", holes: {}, sum holes: {}", holes.count, self.sum_holes));
            }
            notes.push(text);
        }
        if self.sum_bits > 0 {
            let mut text = format!("sum bitfield members: {} bits", self.sum_bits);
            if self.sum_bit_holes > 0 {
                let (n, sum) = (holes.bit_count, self.sum_bit_holes);
                text.push_str(&format!(", bit holes: {n}, sum bit holes: {sum} bits"));
            } else {
                text.push_str(&format!(" ({} bytes)", self.sum_bits / 8));
            }
            notes.push(text);
        }
    }
}

fn is_counted(role: MemberRole) -> bool {
    !matches!(role, MemberRole::Static | MemberRole::Base | MemberRole::VirtualBase)
}
