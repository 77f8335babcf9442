//! Types of a file: sizes, members, holes, lines, phases.

use crate::Error;
use crate::calls::{LINE, PHASE};
use crate::long::{error, long};
use crate::number::Whole;
use crate::table::Table;
use crate::view::View;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use tussle_calls::source::{Source, Types as Read};
use tussle_calls::{Answer, layouts};
use tussle_layout::holes::{Holes, order};
use tussle_layout::phases::{Where, object_align};
use tussle_layout::{lines, pahole};
use tussle_model::{Aggregate, AggregateKind, LineSize, TypeId};
use tussle_tables::layout;

/// A path, or the bytes of a file.
#[derive(FromPyObject)]
pub(crate) enum PathOrBytes {
    Bytes(Vec<u8>),
    Path(PathBuf),
}

/// A file that holds layouts. Types are read when they are asked for.
#[pyclass(frozen, module = "tussle")]
pub(crate) struct Types {
    pub(crate) source: Arc<Source>,
}

/// An executable, object, kernel, module, BTF file or snapshot.
///
/// ``btf_base``: the kernel whose BTF a module's continues.
#[pyfunction]
#[pyo3(signature = (path_or_bytes, *, btf_base = None))]
pub(crate) fn open(py: Python<'_>, path_or_bytes: PathOrBytes, btf_base: Option<PathBuf>) -> PyResult<Types> {
    let source = long(py, move || match path_or_bytes {
        PathOrBytes::Path(path) => Source::open(&path, btf_base.as_deref()),
        PathOrBytes::Bytes(bytes) => Source::of_bytes(bytes),
    })?;
    Ok(Types { source: Arc::new(source) })
}

impl Types {
    fn read(&self, py: Python<'_>) -> PyResult<Arc<Read>> {
        let source = self.source.clone();
        long(py, move || source.types(&[]))
    }
}

#[pymethods]
impl Types {
    /// What was opened, or ``bytes``.
    #[getter]
    fn path(&self) -> &str {
        &self.source.name
    }

    /// As the kernel names it; raw BTF and snapshots do not tell.
    #[getter]
    fn arch(&self) -> Option<String> {
        self.source.arch()
    }

    /// Build-id of an ELF file, hex.
    #[getter]
    fn build_id(&self) -> Option<String> {
        self.source.build_id()
    }

    /// What could not be read.
    #[getter]
    fn problems(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.read(py)?.problems.clone())
    }

    /// Names of all structs and unions, sorted.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let read = self.read(py)?;
        let mut names: Vec<String> = read.table.aggregates().filter_map(|(_, a)| a.name.clone()).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// All definitions of a name, where units disagree.
    fn definitions(&self, py: Python<'_>, name: String) -> PyResult<Vec<Type>> {
        let source = self.source.clone();
        let (read, ids) = long(py, move || source.find(&name))?;
        Ok(ids.into_iter().map(|id| Type { source: self.source.clone(), read: read.clone(), id }).collect())
    }

    /// The first definition. Raises ``Error`` with close names when there is none.
    fn __getitem__(&self, py: Python<'_>, name: String) -> PyResult<Type> {
        let first = self.definitions(py, name)?.into_iter().next();
        first.ok_or_else(|| Error::new_err("no such type"))
    }

    /// There is a type of that name.
    fn __contains__(&self, py: Python<'_>, name: String) -> PyResult<bool> {
        let source = self.source.clone();
        long(py, move || Ok(source.types(std::slice::from_ref(&name))?.table.find(&name).is_some()))
    }

    fn __repr__(&self) -> String {
        format!("<tussle.Types of {}>", self.source.name)
    }
}

/// One definition of a type.
#[pyclass(frozen, module = "tussle")]
pub(crate) struct Type {
    source: Arc<Source>,
    read: Arc<Read>,
    id: TypeId,
}

/// A member of a struct or union, or a base class.
#[pyclass(frozen, get_all, module = "tussle")]
pub(crate) struct Member {
    /// ``None``: it has none.
    name: Option<String>,
    /// Its type, as C writes it.
    r#type: String,
    /// From the object's start; of a bit-field its storage unit's. ``None``: its place is not known.
    offset_bytes: Option<u64>,
    /// Bytes; ``None``: not known.
    size_bytes: Option<u64>,
    /// First bit in the storage unit, of bit-fields.
    bit_offset: Option<u64>,
    /// Width of a bit-field in bits.
    bits: Option<u32>,
    /// Line of its declaration.
    line: Option<u32>,
}

#[pymethods]
impl Member {
    fn __repr__(&self) -> String {
        let name = self.name.as_deref().unwrap_or("(unnamed)");
        let at = self.offset_bytes.map_or("unknown".into(), |o| o.to_string());
        format!("<tussle.Member {} {name} at {at}>", self.r#type)
    }
}

/// Unused bytes between members; what is unused at the end is ``Type.padding_bytes``.
#[pyclass(frozen, get_all, module = "tussle")]
pub(crate) struct Hole {
    /// Name of the member before it; ``None``: at the start, or the member has no name.
    after: Option<String>,
    /// Its first byte, from the object's start.
    offset_bytes: u64,
    /// Bytes.
    size_bytes: u64,
}

#[pymethods]
impl Hole {
    fn __repr__(&self) -> String {
        format!("<tussle.Hole of {} bytes at {}>", self.size_bytes, self.offset_bytes)
    }
}

impl Type {
    fn aggregate(&self) -> Option<&Aggregate> {
        self.read.table.aggregate(self.read.table.strip(self.id))
    }

    fn at(&self, line_bytes: Whole, phase: Option<Whole>) -> PyResult<(LineSize, Where)> {
        let line = layouts::line_size(line_bytes.of_32_bits(LINE)?).map_err(error)?;
        let phase = phase.map(|p| p.parsed(PHASE)).transpose()?;
        Ok((line, layouts::at(phase, line).map_err(error)?))
    }

    fn member(&self, m: &tussle_model::Member) -> Member {
        let table = &self.read.table;
        let known = m.offset_bits != tussle_model::Member::UNPLACED;
        let place = tussle_layout::holes::Extent::of(table, m);
        Member {
            name: m.name.clone(),
            r#type: table.name(m.ty),
            offset_bytes: known.then_some(place.offset),
            size_bytes: table.size(m.ty),
            bit_offset: place.bits.map(|b| b.0),
            bits: m.bit_size,
            line: Some(m.decl_line).filter(|l| *l > 0),
        }
    }
}

#[pymethods]
impl Type {
    /// Its name, with ``struct`` or ``union`` where C needs it.
    #[getter]
    fn name(&self) -> String {
        self.read.table.name(self.id)
    }

    /// ``struct`` (classes, too), ``union`` or ``other``.
    #[getter]
    fn kind(&self) -> &'static str {
        self.aggregate().map_or("other", |a| match a.kind {
            AggregateKind::Union => "union",
            _ => "struct",
        })
    }

    /// Bytes; ``None``: not known.
    #[getter]
    fn size_bytes(&self) -> Option<u64> {
        self.read.table.size(self.id)
    }

    /// Alignment that objects have, bytes.
    #[getter]
    fn align_bytes(&self) -> u64 {
        object_align(&self.read.table, self.id, self.read.btf)
    }

    /// The alignment is guessed from gaps: BTF does not keep ``aligned``.
    #[getter]
    fn align_inferred(&self) -> bool {
        self.read.btf
    }

    /// Source file of its declaration.
    #[getter]
    fn file(&self) -> Option<String> {
        self.aggregate()?.decl.as_ref().map(|d| d.file.clone())
    }

    /// Line of its declaration.
    #[getter]
    fn line(&self) -> Option<u32> {
        self.aggregate()?.decl.as_ref().map(|d| d.line)
    }

    /// Members in order of offset.
    #[getter]
    fn members(&self) -> Vec<Member> {
        let Some(a) = self.aggregate() else { return Vec::new() };
        order(a).into_iter().map(|i| self.member(&a.members[i])).collect()
    }

    /// Holes in order of offset.
    #[getter]
    fn holes(&self) -> Vec<Hole> {
        let Some(a) = self.aggregate() else { return Vec::new() };
        let holes = Holes::of(&self.read.table, a);
        let place = |i: usize| tussle_layout::holes::Extent::of(&self.read.table, &a.members[i]);
        let start = holes.before.bytes;
        let mut out: Vec<Hole> = (start > 0)
            .then_some(Hole { after: None, offset_bytes: 0, size_bytes: start })
            .into_iter()
            .collect();
        for i in order(a).into_iter().filter(|&i| holes.after[i].bytes > 0) {
            let p = place(i);
            let end =
                if p.bits.is_some() { p.end_bit().div_ceil(8) } else { p.offset.saturating_add(p.size) };
            let (after, size_bytes) = (a.members[i].name.clone(), holes.after[i].bytes);
            out.push(Hole { after, offset_bytes: end, size_bytes });
        }
        out
    }

    /// Unused bytes at the end.
    #[getter]
    fn padding_bytes(&self) -> u64 {
        self.aggregate().map_or(0, |a| Holes::of(&self.read.table, a).padding)
    }

    /// Where in a line objects of this type can begin, bytes.
    #[pyo3(signature = (line_bytes = Whole::from(64)), text_signature = "($self, line_bytes = 64)")]
    fn phases(&self, line_bytes: Whole) -> PyResult<Vec<u64>> {
        let (line, at) = self.at(line_bytes, None)?;
        Ok(at.phases(&self.read.table, self.id, line, self.read.btf))
    }

    /// Leaf fields: type_name, path, offset_bytes, size_bytes, field_type, bits, overlaps.
    fn fields(&self) -> Table {
        Table::of_rows("fields", layout::FIELDS, layout::field_rows(&self.read.table, self.id))
    }

    /// Fields by line at one phase (bytes), or at all that are possible.
    #[pyo3(
        signature = (line_bytes = Whole::from(64), phase = None),
        text_signature = "($self, line_bytes = 64, phase = None)"
    )]
    fn lines(&self, line_bytes: Whole, phase: Option<Whole>) -> PyResult<Table> {
        let (line, at) = self.at(line_bytes, phase)?;
        let rows = layout::line_rows(&self.read.table, self.id, &at, line, self.read.btf);
        Ok(Table::of_rows("lines", layout::LINES, rows))
    }

    /// pahole's text.
    #[pyo3(signature = (line_bytes = Whole::from(64)), text_signature = "($self, line_bytes = 64)")]
    fn text(&self, line_bytes: Whole) -> PyResult<String> {
        let (line, _) = self.at(line_bytes, None)?;
        let options = pahole::Options { expand: false, line, btf: self.read.btf, hex: false };
        Ok(pahole::text(&self.read.table, self.id, options))
    }

    /// Every line as a row of bytes, as ``tussle layout --lines`` draws it.
    #[pyo3(
        signature = (line_bytes = Whole::from(64), phase = None),
        text_signature = "($self, line_bytes = 64, phase = None)"
    )]
    fn view(&self, line_bytes: Whole, phase: Option<Whole>) -> PyResult<View> {
        let (line, at) = self.at(line_bytes, phase)?;
        let node = lines::view(&self.read.table, self.id, &at, line, self.read.btf);
        let view = tussle_render::View { kind: "layout", schema_version: 1, nodes: vec![node] };
        Ok(View::new(Answer::new(view, 0)))
    }

    /// At phase 0: a notebook shows one picture, not eight.
    fn _repr_html_(&self) -> PyResult<String> {
        let view = self.view(Whole::from(64), Some(Whole::from(0)))?;
        Ok(crate::view::framed(&view.html()))
    }

    fn __repr__(&self) -> String {
        let size = self.size_bytes().map_or("unknown size".into(), |s| format!("{s} bytes"));
        format!("<tussle.Type {}: {size}, {}>", self.name(), self.source.name)
    }
}
