//! Bytes of ELF/DWARF/BTF and snapshots to the model. No I/O: companion files are asked for through
//! [`companion::Companions`], everything else comes in as bytes.

pub mod companion;
pub mod dwarf;
pub mod elf;
pub mod error;
pub mod symbols;

pub use companion::{CompanionRequest, Companions, NoCompanions};
pub use elf::{Bytes, Elf};
pub use error::{Error, Problem};
