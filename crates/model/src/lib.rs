//! The vocabulary that every other crate speaks: types and their members, leaf fields, cache lines and placement.
//!
//! No I/O, no clock, no errors: every function here is total. Sizes and offsets are bytes unless a name ends in
//! `_bits`. Recursion over types is bounded by [`leaf::DEPTH_MAX`] because type graphs come from hostile files.

pub mod bases;
pub mod check;
mod doubt;
mod exact;
mod extract;
mod fetched;
pub mod leaf;
pub mod line;
pub mod near;
mod one_line;
pub mod path;
pub mod placement;
mod spelling;
pub mod types;

pub use bases::{VirtualBase, virtual_bases};
pub use doubt::misfit;
pub use exact::Exact;
pub use fetched::is_fetched;
pub use leaf::{Leaf, fields, fields_of_both, leaves, leaves_told, leaves_within};
pub use line::{LineSize, LineSpan};
pub use path::{Spot, resolve};
pub use placement::Placement;
pub use spelling::canonical;
pub use types::{
    Aggregate, AggregateKind, Alignment, AlignmentSource, Base, Encoding, EnumType, Enumerator, Language,
    Member, MemberRole, SourceLoc, Type, TypeId, TypeTable,
};
