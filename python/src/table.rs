//! A table that any Arrow consumer takes without a copy.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde::Serialize;
use std::sync::Arc;
use tussle_tables::Field;
use tussle_tables::column::Column;
use tussle_tables::evidence::BATCH_ROWS;
use tussle_tables::ffi::{Batches, Schema, Stream};

type Open = Arc<dyn Fn() -> Option<Batches> + Send + Sync>;

/// Named columns as an Arrow stream. A null is unknown, never zero.
///
/// Rows are made in batches of at most 65,536 when somebody takes them, so that only one batch is in memory.
#[pyclass(frozen, module = "tussle")]
pub(crate) struct Table {
    name: &'static str,
    fields: &'static [Field],
    open: Open,
}

impl Table {
    pub(crate) fn new(name: &'static str, fields: &'static [Field], open: Open) -> Table {
        Table { name, fields, open }
    }

    /// Of rows that are there.
    pub(crate) fn of_rows<R>(name: &'static str, fields: &'static [Field], rows: Vec<R>) -> Table
    where
        R: Serialize + Send + Sync + 'static,
    {
        let rows = Arc::new(rows);
        let open = move || -> Option<Batches> {
            let (rows, mut from) = (rows.clone(), 0);
            Some(Box::new(move || {
                let end = (from + BATCH_ROWS).min(rows.len());
                let batch = Column::table(fields, &rows[from..end]).map_err(|e| e.to_string())?;
                from = end;
                Ok((!batch.is_empty()).then_some(batch))
            }))
        };
        Table::new(name, fields, Arc::new(open))
    }
}

#[pymethods]
impl Table {
    /// Name of the table.
    #[getter]
    fn name(&self) -> &'static str {
        self.name
    }

    /// Names of its columns; a unit is the last part of a name.
    #[getter]
    fn column_names(&self) -> Vec<&'static str> {
        self.fields.iter().map(|f| f.name).collect()
    }

    /// The Arrow PyCapsule interface. A requested schema is ignored, as producers may.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A request is a wish that a producer may ignore; consumers then cast by themselves.
        let _ = requested_schema;
        let batches = (self.open)().ok_or_else(|| PyNotImplementedError::new_err("the table is gone"))?;
        PyCapsule::new_with_value(py, Stream::new(self.fields, batches), c"arrow_array_stream")
    }

    /// The columns' types, by the Arrow PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, Schema::table(self.fields), c"arrow_schema")
    }

    fn __repr__(&self) -> String {
        format!("<tussle.Table {}: {}>", self.name, self.column_names().join(", "))
    }
}
