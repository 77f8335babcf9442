//! Bytes of ELF/DWARF/BTF and snapshots to the model. No I/O: companion files are asked for through
//! [`companion::Companions`], everything else comes in as bytes.

pub mod btf;
pub mod companion;
mod definitions;
pub mod dwarf;
pub mod elf;
pub mod error;
mod functions;
pub mod golang;
mod ikconfig;
mod open;
pub mod snapshot;
pub mod symbols;
mod text;
mod vtables;

pub use companion::{CompanionRequest, Companions, NoCompanions};
pub use elf::{Bytes, Elf, arch};
pub use error::{Damage, Error};
pub use functions::{function_ranges, loads};
pub use ikconfig::ikconfig;
pub use open::open;
