//! Tables on their way into Parquet: our Arrow columns taken over without a copy, with a key in front.

use anyhow::Context;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::{ArrayRef, LargeStringArray, RecordBatch, StructArray, UInt64Array};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use tussle_tables::ffi::{Array, Schema};
use tussle_tables::{Column, Field};

/// A table of ours as a batch of arrow-rs.
///
/// # Errors
/// arrow-rs does not take it: a fault of ours.
pub(crate) fn batch(fields: &'static [Field], column: Column) -> anyhow::Result<RecordBatch> {
    let (mut array, mut schema) =
        (ManuallyDrop::new(Array::new(column)), ManuallyDrop::new(Schema::table(fields)));
    // SAFETY: both follow the Arrow C data interface, whose layout arrow-rs' structs have, too; they are moved out of
    // here and released by it, once.
    let data = unsafe {
        let array = FFI_ArrowArray::from_raw((&raw mut *array).cast());
        let schema = FFI_ArrowSchema::from_raw((&raw mut *schema).cast());
        from_ffi(array, &schema)
    };
    Ok(RecordBatch::from(StructArray::from(data.context("an Arrow table")?)))
}

/// The batch with columns of one text each before its own (`None`: not known), and with row numbers from `row`,
/// where given.
///
/// # Errors
/// As [`batch`].
pub(crate) fn keyed(
    batch: &RecordBatch,
    keys: &[(&str, Option<&str>)],
    row: Option<u64>,
) -> anyhow::Result<RecordBatch> {
    let n = batch.num_rows();
    let mut fields: Vec<Arc<ArrowField>> = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (name, text) in keys {
        fields.push(Arc::new(ArrowField::new(*name, DataType::LargeUtf8, true)));
        columns.push(Arc::new(LargeStringArray::from_iter(std::iter::repeat_n(*text, n))));
    }
    if let Some(row) = row {
        fields.push(Arc::new(ArrowField::new("row", DataType::UInt64, true)));
        columns.push(Arc::new(UInt64Array::from_iter_values(row..row + n as u64)));
    }
    fields.extend(batch.schema().fields().iter().cloned());
    columns.extend(batch.columns().iter().cloned());
    RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns).context("an Arrow table")
}
