//! Edits of a struct, as the command line writes them and as the layout rules apply them.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tussle_model::{Aggregate, Language, MemberRole, TypeId, TypeTable, near};

use crate::abi::{Placed, Shape, Slot, place};

/// Name of the member that [`Edit::Pad`] appends.
pub const PAD_NAME: &str = "line_pad";

/// Where a moved member goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spot {
    /// To the front.
    First,
    /// Behind the named member.
    After(String),
    /// Before the named member.
    Before(String),
}

/// One change of a struct's declaration. Fields are direct members, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Edit {
    /// `FIELD:after:FIELD`, `FIELD:before:FIELD`, `FIELD:first`.
    Move {
        /// Member that moves.
        field: String,
        /// Its new place.
        to: Spot,
    },
    /// `swap:A,B`: two members change places.
    Swap {
        /// One.
        a: String,
        /// The other.
        b: String,
    },
    /// `align:FIELD=N`: the member begins on a multiple of N bytes; in Rust it also has whole multiples to itself.
    Align {
        /// Member.
        field: String,
        /// Bytes, a power of two.
        bytes: u64,
    },
    /// `element=N`: every object begins on a multiple of N bytes, its size becomes one.
    Element {
        /// Bytes, a power of two.
        bytes: u64,
    },
    /// `element:FIELD=N`: every element of the member, an array, begins on a multiple of N bytes and has whole
    /// multiples to itself; of an array of rows, every row.
    Spread {
        /// Member.
        field: String,
        /// Bytes, a power of two.
        bytes: u64,
    },
    /// `FIELD@OFFSET`: the field, nested ones by their path, changes places with as many bytes that begin there. In
    /// sources: a move or an exchange of members after which it begins there.
    Place {
        /// Path.
        field: String,
        /// Byte.
        byte: u64,
    },
    /// `alloc=N`: objects on the heap begin on a multiple of N bytes, and so does what lies behind them. The type
    /// stays.
    Alloc {
        /// Bytes, a power of two.
        bytes: u64,
    },
    /// `gap:FIELD=N`: N bytes before the member, as a member of their own. With a line's bytes it shares none with what
    /// is before it wherever the object begins, so that no allocation must align it.
    Gap {
        /// Member.
        field: String,
        /// Bytes.
        bytes: u64,
    },
    /// `pad=N`: bytes appended until the size is a multiple of N; the alignment stays, so plain `malloc` still serves.
    Pad {
        /// Bytes.
        bytes: u64,
    },
}

impl Edit {
    /// Whether members change their order, or their number in it.
    pub fn reorders(&self) -> bool {
        matches!(self, Edit::Move { .. } | Edit::Swap { .. } | Edit::Place { .. } | Edit::Gap { .. })
    }

    /// Whether the size of the type is chosen anew.
    pub fn resizes(&self) -> bool {
        matches!(
            self,
            Edit::Align { .. }
                | Edit::Element { .. }
                | Edit::Spread { .. }
                | Edit::Pad { .. }
                | Edit::Gap { .. }
        )
    }

    /// Whether it does nothing but part the elements of an array.
    pub fn parts_elements(&self) -> bool {
        matches!(self, Edit::Element { .. } | Edit::Pad { .. })
    }

    /// Whether somebody has to align the memory of objects for it.
    pub fn aligns(&self) -> bool {
        matches!(self, Edit::Align { .. } | Edit::Element { .. } | Edit::Spread { .. } | Edit::Alloc { .. })
    }

    /// Whether members get other offsets: by another order, or by alignment, which opens gaps.
    pub fn displaces(&self) -> bool {
        self.reorders() || matches!(self, Edit::Align { .. } | Edit::Spread { .. })
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Edit::Move { field, to: Spot::First } => write!(f, "{field}:first"),
            Edit::Move { field, to: Spot::After(x) } => write!(f, "{field}:after:{x}"),
            Edit::Move { field, to: Spot::Before(x) } => write!(f, "{field}:before:{x}"),
            Edit::Swap { a, b } => write!(f, "swap:{a},{b}"),
            Edit::Align { field, bytes } => write!(f, "align:{field}={bytes}"),
            Edit::Element { bytes } => write!(f, "element={bytes}"),
            Edit::Spread { field, bytes } => write!(f, "element:{field}={bytes}"),
            Edit::Gap { field, bytes } => write!(f, "gap:{field}={bytes}"),
            Edit::Pad { bytes } => write!(f, "pad={bytes}"),
            Edit::Alloc { bytes } => write!(f, "alloc={bytes}"),
            Edit::Place { field, byte } => write!(f, "{field}@{byte}"),
        }
    }
}

/// Text that is not an edit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a move: write FIELD:after:FIELD, FIELD:before:FIELD, FIELD:first, swap:A,B, align:FIELD=N, \
     gap:FIELD=N, element=N, element:FIELD=N, pad=N, alloc=N or FIELD@OFFSET"
)]
pub struct ParseEditError(pub String);

impl FromStr for Edit {
    type Err = ParseEditError;

    fn from_str(text: &str) -> Result<Edit, ParseEditError> {
        parse(text.trim()).filter(Edit::is_sound).ok_or_else(|| ParseEditError(text.into()))
    }
}

fn parse(text: &str) -> Option<Edit> {
    let parts: Vec<&str> = text.split(':').collect();
    if let [field, place] = parts[..]
        && place == "first"
    {
        return Some(Edit::Move { field: field.into(), to: Spot::First });
    }
    if let [field, place, other] = parts[..] {
        let to = match place {
            "after" => Spot::After(other.into()),
            "before" => Spot::Before(other.into()),
            _ => return None,
        };
        return Some(Edit::Move { field: field.into(), to });
    }
    if let Some((field, byte)) = text.split_once('@') {
        return Some(Edit::Place { field: field.trim().into(), byte: byte.trim().parse().ok()? });
    }
    if let Some(rest) = text.strip_prefix("swap:") {
        let (a, b) = rest.split_once(',')?;
        return Some(Edit::Swap { a: a.trim().into(), b: b.trim().into() });
    }
    if let Some(rest) = text.strip_prefix("align:") {
        let (field, bytes) = field_and_bytes(rest)?;
        return Some(Edit::Align { field, bytes });
    }
    if let Some(rest) = text.strip_prefix("gap:") {
        let (field, bytes) = field_and_bytes(rest)?;
        return Some(Edit::Gap { field, bytes });
    }
    if let Some(rest) = text.strip_prefix("element:") {
        let (field, n) = rest.split_once('=')?;
        return Some(Edit::Spread { field: field.trim().into(), bytes: n.trim().parse().ok()? });
    }
    if let Some(n) = text.strip_prefix("element=") {
        return Some(Edit::Element { bytes: n.parse().ok()? });
    }
    if let Some(n) = text.strip_prefix("alloc=") {
        return Some(Edit::Alloc { bytes: n.parse().ok()? });
    }
    text.strip_prefix("pad=").and_then(|n| n.parse().ok()).map(|bytes| Edit::Pad { bytes })
}

/// `FIELD=N`.
fn field_and_bytes(text: &str) -> Option<(String, u64)> {
    let (field, n) = text.split_once('=')?;
    Some((field.trim().into(), n.trim().parse().ok()?))
}

impl Edit {
    /// Statements of the struct's body that a patch changes.
    pub fn statements(&self) -> usize {
        match self {
            Edit::Swap { .. } | Edit::Place { .. } => 2,
            Edit::Alloc { .. } => 0,
            _ => 1,
        }
    }

    fn is_sound(&self) -> bool {
        let name = |s: &str| !s.is_empty() && s.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$');
        let line = |n: u64| n.is_power_of_two() && n <= 65_536;
        match self {
            Edit::Move { field, to: Spot::First } => name(field),
            Edit::Move { field, to: Spot::After(o) | Spot::Before(o) } => {
                name(field) && name(o) && field != o
            }
            Edit::Swap { a, b } => name(a) && name(b) && a != b,
            Edit::Align { field, bytes } | Edit::Gap { field, bytes } | Edit::Spread { field, bytes } => {
                name(field) && line(*bytes)
            }
            Edit::Element { bytes } | Edit::Pad { bytes } => line(*bytes),
            // C's functions take multiples of a pointer's size only.
            Edit::Alloc { bytes } => line(*bytes) && *bytes >= 16,
            Edit::Place { field, .. } => {
                !field.is_empty()
                    && field.split(['.', '[', ']']).all(|p| p.is_empty() || name(p))
                    && !field.contains(char::is_whitespace)
            }
        }
    }

    /// Members that the edit names.
    pub fn fields(&self) -> Vec<&str> {
        match self {
            Edit::Move { field, to: Spot::After(o) | Spot::Before(o) } => vec![field, o],
            Edit::Move { field, .. }
            | Edit::Align { field, .. }
            | Edit::Gap { field, .. }
            | Edit::Spread { field, .. } => vec![field],
            Edit::Swap { a, b } => vec![a, b],
            // Its path may lead into other structs.
            Edit::Element { .. } | Edit::Pad { .. } | Edit::Alloc { .. } | Edit::Place { .. } => vec![],
        }
    }

    /// Lines of source that change place or get a word more; the measure of how small a patch is.
    pub fn lines_touched(&self) -> u64 {
        if matches!(self, Edit::Swap { .. } | Edit::Place { .. }) { 2 } else { 1 }
    }

    /// What it does, as a sentence without a full stop.
    pub fn sentence(&self) -> String {
        match self {
            Edit::Move { field, to: Spot::First } => format!("move {field} to the front"),
            Edit::Move { field, to: Spot::After(x) } => format!("move {field} behind {x}"),
            Edit::Move { field, to: Spot::Before(x) } => format!("move {field} before {x}"),
            Edit::Swap { a, b } => format!("exchange {a} and {b}"),
            Edit::Align { field, bytes } => format!("align {field} to {bytes} bytes"),
            Edit::Element { bytes } => format!("align every element to {bytes} bytes"),
            Edit::Spread { field, bytes } => format!("align every element of {field} to {bytes} bytes"),
            Edit::Gap { field, bytes } => format!("put {bytes} bytes before {field}"),
            Edit::Pad { bytes } => format!("pad every element to a multiple of {bytes} bytes"),
            Edit::Alloc { bytes } => format!("align allocations to {bytes} bytes"),
            Edit::Place { field, byte } => format!("{field} changes places with the bytes from {byte}"),
        }
    }
}

impl EditError {
    /// No such field of a type, with what it may have meant.
    pub(crate) fn missing(table: &TypeTable, id: TypeId, field: &str) -> EditError {
        let close = near::also_fields(table, id, field);
        EditError::NoSuchField { ty: table.name(id), field: field.into(), close }
    }
}

/// Why an edit cannot be applied to a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// No direct member has that name.
    #[error("{ty} has no member {field}{close}")]
    NoSuchField {
        /// Type.
        ty: String,
        /// Name looked for.
        field: String,
        /// Names like it, as the sentence ends; may be empty.
        close: String,
    },
    /// Members of different structs.
    #[error(
        "{ty} does not hold {field} side by side (a base class, a nested struct or the compiler has them), and members \
         move only within the struct that holds them"
    )]
    Nested {
        /// Type.
        ty: String,
        /// Name looked for.
        field: String,
    },
    /// Members of a union share their bytes.
    #[error("{0} is a union: its members have no order")]
    Union(String),
    /// Bit-fields move only with their neighbours.
    #[error("{0} is a bit-field; bit-fields share their storage and do not move alone")]
    BitField(String),
    /// `element:FIELD=N` of something else.
    #[error("{0} is no array of several elements")]
    NoArray(String),
    /// A flexible array must stay last.
    #[error("{0} is a flexible array member and must stay last")]
    Flexible(String),
    /// `FIELD@OFFSET` in a source.
    #[error("no move or exchange of members puts {field} at byte {byte}")]
    NoOrder {
        /// Path.
        field: String,
        /// Byte asked for.
        byte: u64,
    },
    /// Compiler-made members and bases.
    #[error("{0} is not an ordinary member")]
    NotField(String),
}

/// A shape with some edits done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// Slots in their new order.
    pub slots: Vec<Slot>,
    /// For every new position the index in [`Aggregate::members`]; `None` for padding.
    pub members: Vec<Option<usize>>,
    /// The new layout, slot by slot.
    pub placed: Placed,
}

/// Applies `edits` one after the other to `shape`, the shape of `a`.
pub fn apply(a: &Aggregate, shape: &Shape, edits: &[Edit]) -> Result<Edited, EditError> {
    let mut state = State {
        a,
        slots: shape.slots.clone(),
        members: shape.members.iter().map(|&i| Some(i)).collect(),
        rules: shape.rules,
    };
    for edit in edits {
        state.edit(edit)?;
    }
    if a.language == Language::Rust {
        state.aligned_first(edits);
    }
    let placed = place(&state.slots, state.rules);
    // An edit that changes nothing keeps sizes that only C++ explains (an empty class has one byte).
    let placed = if edits.is_empty() { shape.placed.clone() } else { placed };
    Ok(Edited { slots: state.slots, members: state.members, placed })
}

struct State<'a> {
    a: &'a Aggregate,
    slots: Vec<Slot>,
    members: Vec<Option<usize>>,
    rules: crate::abi::Rules,
}

impl State<'_> {
    fn edit(&mut self, edit: &Edit) -> Result<(), EditError> {
        if self.rules.union {
            return Err(EditError::Union(self.a.display_name()));
        }
        match edit {
            Edit::Move { field, to } => {
                let from = self.movable(field)?;
                let slot = self.slots.remove(from);
                let member = self.members.remove(from);
                let at = match to {
                    Spot::First => self.first_field(),
                    Spot::Before(o) => self.anchor(o)?,
                    Spot::After(o) => self.anchor(o)? + 1,
                };
                if to != &Spot::First && matches!(to, Spot::After(_)) && at > 0 {
                    self.not_flexible(at - 1)?;
                }
                self.slots.insert(at, slot);
                self.members.insert(at, member);
            }
            Edit::Swap { a, b } => {
                let (a, b) = (self.movable(a)?, self.movable(b)?);
                self.slots.swap(a, b);
                self.members.swap(a, b);
            }
            Edit::Align { field, bytes } => {
                let at = self.find(field)?;
                if self.slots[at].width.is_some() {
                    return Err(EditError::BitField(field.clone()));
                }
                let slot = &mut self.slots[at];
                slot.declared = Some(slot.declared.unwrap_or(1).max(*bytes));
                if self.a.language == Language::Rust {
                    // Only types are aligned: the one around the field has a size that is a multiple, too.
                    slot.size = slot.size.next_multiple_of(*bytes);
                }
            }
            Edit::Spread { field, bytes } => {
                let at = self.movable(field)?;
                let slot = &mut self.slots[at];
                let n = slot.elements.filter(|n| *n > 1).ok_or_else(|| EditError::NoArray(field.clone()))?;
                slot.size = n.saturating_mul((slot.size / n).next_multiple_of(*bytes));
                slot.align = slot.align.max(*bytes);
            }
            Edit::Gap { field, bytes } => {
                let at = self.movable(field)?;
                self.slots.insert(at, Slot::plain(*bytes, 1));
                self.members.insert(at, None);
            }
            Edit::Element { bytes } => self.rules.align = self.rules.align.max(*bytes),
            Edit::Pad { bytes } => self.pad(*bytes)?,
            Edit::Alloc { .. } => {}
            Edit::Place { field, byte } => {
                return Err(EditError::NoOrder { field: field.clone(), byte: *byte });
            }
        }
        Ok(())
    }

    /// Where the compiler orders fields, those of the largest alignment come first and the others close up behind them:
    /// two on either side of one that is aligned are not parted by it. (`repr(C)` keeps the source's order, in which
    /// they would be; no more is promised than holds for both.)
    fn aligned_first(&mut self, edits: &[Edit]) {
        let bytes = |e: &Edit| if let Edit::Align { bytes, .. } = e { Some(*bytes) } else { None };
        let Some(least) = edits.iter().filter_map(bytes).min() else { return };
        let mut pairs: Vec<_> = self.slots.drain(..).zip(self.members.drain(..)).collect();
        let large = |slot: &Slot| Some(slot.align.max(slot.declared.unwrap_or(1))).filter(|a| *a >= least);
        pairs.sort_by_key(|(slot, _)| Reverse(large(slot)));
        (self.slots, self.members) = pairs.into_iter().unzip();
    }

    fn pad(&mut self, bytes: u64) -> Result<(), EditError> {
        if let Some(last) = self.slots.len().checked_sub(1) {
            self.not_flexible(last)?;
        }
        let pad = pad_bytes(&place(&self.slots, self.rules), bytes);
        if pad > 0 {
            self.slots.push(Slot::plain(pad, 1));
            self.members.push(None);
        }
        Ok(())
    }

    fn name(&self, at: usize) -> Option<&str> {
        self.members[at].and_then(|i| self.a.members[i].name.as_deref())
    }

    fn find(&self, field: &str) -> Result<usize, EditError> {
        match (0..self.members.len()).find(|&i| self.name(i) == Some(field)) {
            Some(at) => Ok(at),
            None => {
                let names = self.a.members.iter().filter_map(|m| m.name.as_deref());
                let close = near::also(&near::near_paths(names, field, 3));
                Err(EditError::NoSuchField { ty: self.a.display_name(), field: field.to_string(), close })
            }
        }
    }

    /// A place beside which members may be put: bit-fields are allowed, compiler-made members are not.
    fn anchor(&self, field: &str) -> Result<usize, EditError> {
        let at = self.find(field)?;
        self.ordinary(at, field)?;
        Ok(at)
    }

    fn movable(&self, field: &str) -> Result<usize, EditError> {
        let at = self.find(field)?;
        self.ordinary(at, field)?;
        self.not_flexible(at)?;
        if self.slots[at].width.is_some() {
            return Err(EditError::BitField(field.into()));
        }
        Ok(at)
    }

    fn ordinary(&self, at: usize, field: &str) -> Result<(), EditError> {
        match self.members[at].map(|i| self.a.members[i].role) {
            Some(MemberRole::Field) => Ok(()),
            _ => Err(EditError::NotField(field.into())),
        }
    }

    /// A flexible array stays last; elsewhere an array of length 0 is a marker and moves.
    fn not_flexible(&self, at: usize) -> Result<(), EditError> {
        if at + 1 == self.slots.len() && self.slots[at].flexible {
            return Err(EditError::Flexible(self.name(at).unwrap_or("the last member").into()));
        }
        Ok(())
    }

    /// Position of the first ordinary member, behind bases and virtual table pointers.
    fn first_field(&self) -> usize {
        self.slots.iter().take_while(|s| s.fixed_bits.is_some()).count()
    }
}

/// Bytes of the array that [`Edit::Pad`] appends to a struct laid out as `placed`; 0 when it already is a multiple.
pub fn pad_bytes(placed: &Placed, bytes: u64) -> u64 {
    let target = placed.size.max(1).div_ceil(bytes.max(1)).saturating_mul(bytes.max(1));
    if target == placed.size { 0 } else { target - placed.data_end }
}

#[cfg(test)]
mod tests {
    use tussle_model::{Aggregate, AggregateKind, Member, Type};

    use crate::relayout::Relayout;
    use crate::testing::table;

    #[test]
    fn a_struct_that_ends_in_an_open_array_stays_last() {
        let (mut t, s) = table();
        let int = t.aggregate(s).expect("s").members[0].ty;
        let open = t.push(Type::Array { elem: int, counts: vec![None] });
        let tail = vec![Member::field(Some("n"), int, 0), Member::field(Some("rest"), open, 4)];
        let tail = t.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, Some("tail"), 4, tail)));
        let members = ["a", "b"].iter().zip([0, 4]).map(|(n, at)| Member::field(Some(n), int, at));
        let members = members.chain([Member::field(Some("t"), tail, 8)]).collect();
        let outer =
            t.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, Some("outer"), 12, members)));
        let shapes = crate::abi::Shapes::new(&t);
        let run = |edit: &str| Relayout::new(&shapes, outer, &[edit.parse().expect("an edit")]).is_ok();
        assert!(run("swap:a,b"));
        assert!(!run("t:after:a") && !run("b:after:t") && !run("t:first"));
    }
}
