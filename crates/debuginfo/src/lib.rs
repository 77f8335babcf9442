//! Bytes of ELF/DWARF/BTF and snapshots to the model.
