//! Simulated (and real) memory as cells: one cell is one field of one object, with an address that its layout gives
//! it.

use std::sync::Arc;
use tussle_model::leaf::{Arrays, leaves};
use tussle_model::{TypeId, TypeTable};

/// Objects, with what follows them, may take at most this many bytes: 256 MiB.
pub const BYTES_MAX: u32 = 1 << 28;

/// Why a layout cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A field that the program touches is not in the type.
    #[error("{ty} has no field `{field}`; it has {known}")]
    UnknownField {
        /// Type.
        ty: String,
        /// Field that was asked for.
        field: String,
        /// A few of the fields that exist.
        known: String,
    },
    /// The field cannot be accessed atomically.
    #[error(
        "{ty}.{field} at offset {offset} with {size} bytes is not naturally aligned: it cannot be a lock word"
    )]
    Misaligned {
        /// Type.
        ty: String,
        /// Field.
        field: String,
        /// Byte offset.
        offset: u64,
        /// Bytes.
        size: u64,
    },
    /// The type's size does not cover its own field, in a file that lies.
    #[error("{ty} has {bytes} bytes, and its field {field} ends at {end}")]
    Outside {
        /// Type.
        ty: String,
        /// Field.
        field: String,
        /// One past its last byte.
        end: u64,
        /// Bytes of the type.
        bytes: u64,
    },
    /// The type is not in the table.
    #[error("type `{0}` not found")]
    UnknownType(String),
    /// More memory than the simulator is willing to lay out.
    #[error("objects need more than {BYTES_MAX} bytes")]
    TooLarge,
}

/// A field of a [`Shape`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Path as the type has it (`mmap_lock.count`).
    pub name: String,
    /// Byte offset.
    pub offset: u32,
    /// 1, 2, 4 or 8 bytes.
    pub size: u8,
}

/// The fields of one type that a program touches, with their offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Type name.
    pub name: String,
    /// Bytes.
    pub size: u32,
    /// Distance between neighbours in a slab, bytes.
    pub stride: u32,
    /// In the order that the program indexes them by.
    pub fields: Vec<Field>,
}

impl Shape {
    /// A shape from `(name, offset, size)` rows.
    pub fn new(name: &str, size: u32, fields: &[(&str, u32, u8)]) -> Shape {
        let fields = fields.iter().map(|&(n, offset, size)| Field { name: n.into(), offset, size }).collect();
        Shape { name: name.into(), size, stride: size, fields }
    }

    /// With another distance between neighbours.
    pub fn with_stride(mut self, stride: u32) -> Shape {
        self.stride = stride.max(self.size);
        self
    }

    /// The fields `wanted` of a type of a build. Each entry lists accepted paths, the first that exists wins; its
    /// first name is the one the program uses.
    ///
    /// # Errors
    /// Unknown types and fields, and fields that no atomic access can reach.
    pub fn from_types(table: &TypeTable, ty: &str, wanted: &[&[&str]]) -> Result<Shape, LayoutError> {
        let id = table.find(ty).ok_or_else(|| LayoutError::UnknownType(ty.into()))?;
        Shape::from_type(table, id, ty, wanted)
    }

    fn from_type(table: &TypeTable, id: TypeId, ty: &str, wanted: &[&[&str]]) -> Result<Shape, LayoutError> {
        let all = leaves(table, id, Arrays::Elements);
        let bytes = table.size(id).unwrap_or(0);
        if bytes > u64::from(BYTES_MAX) {
            return Err(LayoutError::TooLarge);
        }
        let mut fields = Vec::new();
        for paths in wanted {
            let leaf = paths.iter().find_map(|p| {
                all.iter().find(|l| l.path == *p).or_else(|| {
                    all.iter().find(|l| l.path.strip_prefix(*p).is_some_and(|r| r.starts_with(['.', '['])))
                })
            });
            let Some(leaf) = leaf else {
                let known: Vec<&str> = all.iter().take(12).map(|l| l.path.as_str()).collect();
                return Err(LayoutError::UnknownField {
                    ty: ty.into(),
                    field: paths.join(" or "),
                    known: format!("{}, ...", known.join(", ")),
                });
            };
            let size = leaf.size.min(8);
            let end = leaf.offset.saturating_add(size);
            if end > bytes {
                let field = leaf.path.clone();
                return Err(LayoutError::Outside { ty: ty.into(), field, end, bytes });
            }
            if !size.is_power_of_two() || !leaf.offset.is_multiple_of(size) {
                return Err(LayoutError::Misaligned {
                    ty: ty.into(),
                    field: leaf.path.clone(),
                    offset: leaf.offset,
                    size: leaf.size,
                });
            }
            let name = paths.first().copied().unwrap_or_default();
            fields.push(Field { name: name.into(), offset: leaf.offset as u32, size: size as u8 });
        }
        let size = bytes as u32;
        Ok(Shape { name: ty.into(), size, stride: size, fields })
    }

    /// Index of a field.
    ///
    /// # Errors
    /// Unknown fields.
    pub fn index(&self, field: &str) -> Result<u32, LayoutError> {
        let found = self.fields.iter().position(|f| f.name == field);
        found.map(|i| i as u32).ok_or_else(|| LayoutError::UnknownField {
            ty: self.name.clone(),
            field: field.into(),
            known: self.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// The same fields, each alone on its line pair: the "ideal split" of an ablation.
    pub fn split(&self) -> Shape {
        let mut out = self.clone();
        for (i, f) in out.fields.iter_mut().enumerate() {
            f.offset = i as u32 * 128;
        }
        out.size = out.fields.len() as u32 * 128;
        out.stride = out.size;
        out
    }
}

/// One field of one object; also the value of a pointer to the object when it is the object's first field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Cell(pub u32);

impl Cell {
    /// No cell; a null pointer.
    pub const NULL: Cell = Cell(0);

    /// The `index`-th field of the object whose first field this is.
    pub fn field(self, index: u32) -> Cell {
        Cell(self.0 + index)
    }

    /// As a pointer value.
    pub fn pointer(self) -> u64 {
        u64::from(self.0)
    }

    /// From a pointer value.
    pub fn from_pointer(value: u64) -> Cell {
        Cell(value as u32)
    }
}

/// Where one cell lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellAt {
    /// Byte address in the arena.
    pub addr: u32,
    /// Bytes.
    pub size: u8,
    /// Index into [`MemoryMap::objects`].
    pub object: u32,
}

/// An object that was laid out.
#[derive(Clone, Debug)]
pub struct ObjectInfo {
    /// Its shape.
    pub shape: Arc<Shape>,
    /// First cell.
    pub first: Cell,
    /// Byte address.
    pub addr: u32,
    /// Number within its slab.
    pub index: u32,
}

/// All objects of a program: which cell lies at which byte.
#[derive(Clone, Debug)]
pub struct MemoryMap {
    places: Vec<CellAt>,
    objects: Vec<ObjectInfo>,
    end: u32,
}

impl Default for MemoryMap {
    fn default() -> Self {
        MemoryMap::new()
    }
}

impl MemoryMap {
    /// Empty but for the null cell.
    pub fn new() -> MemoryMap {
        let null = Arc::new(Shape::new("null", 8, &[("null", 0, 8)]));
        let objects = vec![ObjectInfo { shape: null, first: Cell(0), addr: 0, index: 0 }];
        MemoryMap { places: vec![CellAt { addr: 0, size: 8, object: 0 }], objects, end: 128 }
    }

    /// One object on its own line pairs, beginning `phase` bytes after a 128-byte boundary.
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`].
    pub fn object(&mut self, shape: &Arc<Shape>, phase: u32) -> Result<Cell, LayoutError> {
        Ok(self.slab(shape, 1, phase)?[0])
    }

    /// `count` objects side by side at the shape's stride; the first begins `phase` bytes after a 128-byte boundary.
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`].
    pub fn slab(&mut self, shape: &Arc<Shape>, count: u32, phase: u32) -> Result<Vec<Cell>, LayoutError> {
        let start = self.end.next_multiple_of(128) + phase % 128;
        let bytes = u64::from(shape.stride) * u64::from(count);
        let end = u64::from(start) + bytes + 128;
        if end > u64::from(BYTES_MAX) {
            return Err(LayoutError::TooLarge);
        }
        self.end = end as u32;
        Ok((0..count).map(|i| self.place(shape, start + i * shape.stride, i)).collect())
    }

    /// Another object in the room of the one that begins with `host`, from its first byte: neighbours on one line. Its
    /// fields must not overlap those of the host.
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`] when it is larger than the host.
    pub fn over(&mut self, host: Cell, shape: &Arc<Shape>) -> Result<Cell, LayoutError> {
        let object = &self.objects[self.at(host).object as usize];
        if shape.size > object.shape.size {
            return Err(LayoutError::TooLarge);
        }
        let addr = object.addr;
        Ok(self.place(shape, addr, 0))
    }

    fn place(&mut self, shape: &Arc<Shape>, addr: u32, index: u32) -> Cell {
        let first = Cell(self.places.len() as u32);
        let object = self.objects.len() as u32;
        for f in &shape.fields {
            self.places.push(CellAt { addr: addr + f.offset, size: f.size, object });
        }
        self.objects.push(ObjectInfo { shape: shape.clone(), first, addr, index });
        first
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.places.len()
    }

    /// Bytes from address 0 to the end of the last object.
    pub fn bytes(&self) -> u32 {
        self.end
    }

    /// Where a cell lies; the null cell for an unknown one.
    pub fn at(&self, cell: Cell) -> CellAt {
        self.places.get(cell.0 as usize).copied().unwrap_or(self.places[0])
    }

    /// All objects, the null object first.
    pub fn objects(&self) -> &[ObjectInfo] {
        &self.objects
    }

    /// `mm_struct.mmap_lock.count`; slab objects keep their type's name only.
    pub fn name(&self, cell: Cell) -> String {
        let o = &self.objects[self.at(cell).object as usize];
        let field = o.shape.fields.get((cell.0 - o.first.0) as usize);
        format!("{}.{}", o.shape.name, field.map_or("?", |f| f.name.as_str()))
    }
}

/// Access to cells by code that runs to its end under a lock: tree operations, list operations.
pub trait Words {
    /// Reads a cell.
    fn get(&mut self, cell: Cell) -> u64;
    /// Writes a cell.
    fn set(&mut self, cell: Cell, value: u64);
    /// Computing that touches no shared memory, in ns.
    fn work(&mut self, ns: u32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_lie_where_the_layout_says() {
        let shape = Arc::new(Shape::new("lock", 40, &[("count", 0, 8), ("owner", 8, 8), ("osq", 16, 4)]));
        let mut m = MemoryMap::new();
        let a = m.object(&shape, 8).unwrap();
        let slab = m.slab(&shape, 3, 0).unwrap();
        assert_eq!(m.at(a).addr % 128, 8);
        assert_eq!(m.at(a.field(2)).addr, m.at(a).addr + 16);
        assert_eq!(m.at(slab[1]).addr, m.at(slab[0]).addr + 40);
        assert_eq!(m.name(a.field(1)), "lock.owner");
        assert_eq!(
            shape.index("nope").unwrap_err().to_string(),
            "lock has no field `nope`; it has count, owner, osq"
        );
    }

    #[test]
    fn too_much_memory_is_refused() {
        let shape = Arc::new(Shape::new("page", 4096, &[("x", 0, 8)]));
        assert_eq!(MemoryMap::new().slab(&shape, 1 << 20, 0), Err(LayoutError::TooLarge));
    }
}
