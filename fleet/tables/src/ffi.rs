//! The Arrow C data and stream interfaces: structs that the Arrow format's specification fixes ("The Arrow C data
//! interface", "The Arrow C stream interface"), so that no Arrow library is needed to hand tables over without a copy.

use crate::column::{Column, Data};
use crate::kind::{Field, Kind};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

/// Cells may be null.
const NULLABLE: i64 = 2;

/// What a column is called and holds.
#[repr(C)]
pub struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private: *mut c_void,
}

/// The cells of a column.
#[repr(C)]
pub struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private: *mut c_void,
}

/// Batches of rows, made as they are asked for.
#[repr(C)]
pub struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private: *mut c_void,
}

/// Where a stream gets its batches: the next one, or `None` at the end.
pub type Batches = Box<dyn FnMut() -> Result<Option<Column>, String> + Send>;

/// What a schema points at.
struct SchemaParts {
    _format: CString,
    _name: CString,
    children: Vec<*mut Schema>,
}

/// What an array points at.
struct ArrayParts {
    _data: Vec<Vec<u8>>,
    _numbers: Vec<Numbers>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

/// Numbers as they are: their memory is handed over, not copied.
enum Numbers {
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl Numbers {
    fn start(&self) -> *const c_void {
        match self {
            Numbers::U64(v) => v.as_ptr().cast(),
            Numbers::I64(v) => v.as_ptr().cast(),
            Numbers::F64(v) => v.as_ptr().cast(),
        }
    }
}

impl Schema {
    /// Of a table with these columns.
    pub fn table(fields: &'static [Field]) -> Schema {
        Schema::new("", Kind::Struct(fields))
    }

    fn new(name: &str, kind: Kind) -> Schema {
        let (format, children) = match kind {
            Kind::U64 => ("L", Vec::new()),
            Kind::I64 => ("l", Vec::new()),
            Kind::F64 => ("g", Vec::new()),
            Kind::Bool => ("b", Vec::new()),
            Kind::Text | Kind::Json => ("U", Vec::new()),
            Kind::List(of) => ("+L", vec![Schema::new("item", *of)]),
            Kind::Struct(fields) => ("+s", fields.iter().map(|f| Schema::new(f.name, f.kind)).collect()),
        };
        let children: Vec<*mut Schema> = children.into_iter().map(|c| Box::into_raw(Box::new(c))).collect();
        let text = |s: &str| CString::new(s).unwrap_or_default();
        let mut parts = Box::new(SchemaParts { _format: text(format), _name: text(name), children });
        Schema {
            format: parts._format.as_ptr(),
            name: parts._name.as_ptr(),
            metadata: ptr::null(),
            flags: NULLABLE,
            n_children: parts.children.len() as i64,
            children: parts.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_schema),
            private: Box::into_raw(parts).cast(),
        }
    }
}

impl Array {
    /// Hands a column over.
    pub fn new(mut column: Column) -> Array {
        let (length, nulls) = (column.len() as i64, column.nulls() as i64);
        let known = column.take_known();
        let mut parts = Box::new(ArrayParts {
            _data: vec![known],
            _numbers: Vec::new(),
            buffers: Vec::new(),
            children: Vec::new(),
        });
        parts.buffers.push(if nulls == 0 { ptr::null() } else { parts._data[0].as_ptr().cast() });
        parts.fill(column.data);
        Array {
            length,
            null_count: nulls,
            offset: 0,
            n_buffers: parts.buffers.len() as i64,
            n_children: parts.children.len() as i64,
            buffers: parts.buffers.as_mut_ptr(),
            children: parts.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_array),
            private: Box::into_raw(parts).cast(),
        }
    }
}

impl ArrayParts {
    fn fill(&mut self, data: Data) {
        match data {
            Data::U64(v) => self.numbers(Numbers::U64(v)),
            Data::I64(v) => self.numbers(Numbers::I64(v)),
            Data::F64(v) => self.numbers(Numbers::F64(v)),
            Data::Bool(bits) => self.bytes(bits.bytes),
            Data::Text { ends, bytes } => {
                self.numbers(Numbers::I64(ends));
                self.bytes(bytes);
            }
            Data::List { ends, cells } => {
                self.numbers(Numbers::I64(ends));
                self.child(*cells);
            }
            Data::Struct(parts) => parts.into_iter().for_each(|(_, c)| self.child(c)),
        }
    }

    fn numbers(&mut self, numbers: Numbers) {
        self.buffers.push(numbers.start());
        self._numbers.push(numbers);
    }

    fn bytes(&mut self, bytes: Vec<u8>) {
        self.buffers.push(bytes.as_ptr().cast());
        self._data.push(bytes);
    }

    fn child(&mut self, column: Column) {
        self.children.push(Box::into_raw(Box::new(Array::new(column))));
    }
}

/// SAFETY of the three: the specification has the consumer call `release` once, on a struct that we made; it may have
/// moved the struct, and children may have been moved out, whose `release` is then null.
unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: as above; `private` is what `Schema::new` put there.
    unsafe {
        let parts = Box::from_raw((*schema).private.cast::<SchemaParts>());
        for child in &parts.children {
            drop(Box::from_raw(*child));
        }
        (*schema).release = None;
    }
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: as above; `private` is what `Array::new` put there.
    unsafe {
        let parts = Box::from_raw((*array).private.cast::<ArrayParts>());
        for child in &parts.children {
            drop(Box::from_raw(*child));
        }
        (*array).release = None;
    }
}

/// What a stream keeps.
struct Source {
    fields: &'static [Field],
    batches: Batches,
    error: CString,
}

impl Stream {
    /// Of a table with these columns.
    pub fn new(fields: &'static [Field], batches: Batches) -> Stream {
        let source = Box::new(Source { fields, batches, error: CString::default() });
        Stream {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(get_last_error),
            release: Some(release_stream),
            private: Box::into_raw(source).cast(),
        }
    }
}

// What they own is `Send`; the pointers are to nothing else.
// SAFETY: as said.
unsafe impl Send for Stream {}
// SAFETY: as said.
unsafe impl Send for Array {}
// SAFETY: as said.
unsafe impl Send for Schema {}

macro_rules! dropped {
    ($($type:ty),+) => {
        $(impl Drop for $type {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: nobody took it over, or `release` would be null.
                    unsafe { release(self) };
                }
            }
        })+
    };
}

dropped!(Schema, Array, Stream);

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: a live stream of ours, and room for a schema.
    unsafe {
        let source = &*(*stream).private.cast::<Source>();
        out.write(Schema::table(source.fields));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: a live stream of ours, and room for an array.
    unsafe {
        let source = &mut *(*stream).private.cast::<Source>();
        let next = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (source.batches)()));
        match next.unwrap_or_else(|_| Err("tussle: making a batch failed".into())) {
            Ok(Some(batch)) => out.write(Array::new(batch)),
            // The end is an array that is released already.
            Ok(None) => ptr::addr_of_mut!((*out).release).write(None),
            Err(what) => {
                source.error = CString::new(what).unwrap_or_default();
                return 5; // EIO
            }
        }
    }
    0
}

unsafe extern "C" fn get_last_error(stream: *mut Stream) -> *const c_char {
    // SAFETY: a live stream of ours.
    unsafe { (*(*stream).private.cast::<Source>()).error.as_ptr() }
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: called once by who holds the stream.
    unsafe {
        drop(Box::from_raw((*stream).private.cast::<Source>()));
        (*stream).release = None;
    }
}
