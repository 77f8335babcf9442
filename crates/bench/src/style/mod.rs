//! Output in the styles of other tools, value for value.

pub mod lkp;
pub mod mmtests;
