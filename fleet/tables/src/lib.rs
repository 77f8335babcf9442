//! Evidence, reports and layouts as Arrow tables, through the Arrow C data interface: no Arrow library in here, and
//! none is forced upon who takes them.

pub mod bench;
pub mod column;
pub mod evidence;
pub mod ffi;
mod kind;
pub mod layout;
pub mod report;

pub use column::Column;
pub use kind::{Field, Kind};
