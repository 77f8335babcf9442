//! Machine code of the exported names: all of it is in one file per architecture.

mod x86_64;
pub(crate) use x86_64::*;
