//! Columns that grow cell by cell. A cell is whatever serde can write; it goes straight into the Arrow buffers.

use crate::kind::{Field, Kind};
use serde::Serialize;
use serde::ser::{self, Impossible};
use std::fmt;

/// A cell that does not fit its column.
#[derive(Debug, PartialEq, Eq)]
pub struct Mismatch(String);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a cell that does not fit its column: {}", self.0)
    }
}

impl std::error::Error for Mismatch {}

impl ser::Error for Mismatch {
    fn custom<T: fmt::Display>(what: T) -> Mismatch {
        Mismatch(what.to_string())
    }
}

/// One bit per cell, least significant first, as Arrow has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    pub(crate) bytes: Vec<u8>,
    len: usize,
    unset: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.len % 8);
        }
        self.len += 1;
        self.unset += usize::from(!bit);
    }
}

/// The values of a column. Nulls have a value, too: zero, or nothing.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
    Bool(Bits),
    Text { ends: Vec<i64>, bytes: Vec<u8> },
    List { ends: Vec<i64>, cells: Box<Column> },
    Struct(Vec<(&'static Field, Column)>),
}

impl Kind {
    fn but(self, what: impl fmt::Display) -> Mismatch {
        Mismatch(format!("{what} where {self:?} is expected"))
    }
}

/// A column while it grows.
#[derive(Clone, Debug)]
pub struct Column {
    kind: Kind,
    known: Bits,
    pub(crate) data: Data,
}

impl Column {
    /// Without cells.
    pub fn new(kind: Kind) -> Column {
        let data = match kind {
            Kind::U64 => Data::U64(Vec::new()),
            Kind::I64 => Data::I64(Vec::new()),
            Kind::F64 => Data::F64(Vec::new()),
            Kind::Bool => Data::Bool(Bits::default()),
            Kind::Text | Kind::Json => Data::Text { ends: vec![0], bytes: Vec::new() },
            Kind::List(of) => Data::List { ends: vec![0], cells: Box::new(Column::new(*of)) },
            Kind::Struct(fields) => Data::Struct(fields.iter().map(|f| (f, Column::new(f.kind))).collect()),
        };
        Column { kind, known: Bits::default(), data }
    }

    /// A table: one struct per row.
    pub fn table<R: Serialize>(fields: &'static [Field], rows: &[R]) -> Result<Column, Mismatch> {
        let mut table = Column::new(Kind::Struct(fields));
        rows.iter().try_for_each(|r| table.push(r))?;
        Ok(table)
    }

    /// What its cells are.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.known.len
    }

    /// No cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of cells that are null.
    pub fn nulls(&self) -> usize {
        self.known.unset
    }

    pub(crate) fn take_known(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.known.bytes)
    }

    /// Appends a cell.
    ///
    /// # Errors
    /// It is of another kind than the column; the column then must not be used any more.
    pub fn push<T: Serialize + ?Sized>(&mut self, cell: &T) -> Result<(), Mismatch> {
        if self.kind != Kind::Json {
            return cell.serialize(&mut *self);
        }
        match serde_json::to_string(cell).map_err(|e| Mismatch(e.to_string()))?.as_str() {
            "null" => self.null(),
            text => self.text(text),
        }
        Ok(())
    }

    fn null(&mut self) {
        match &mut self.data {
            Data::U64(v) => v.push(0),
            Data::I64(v) => v.push(0),
            Data::F64(v) => v.push(0.0),
            Data::Bool(v) => v.push(false),
            Data::Text { ends, bytes } => ends.push(bytes.len() as i64),
            Data::List { ends, cells } => ends.push(cells.len() as i64),
            Data::Struct(parts) => parts.iter_mut().for_each(|(_, c)| c.null()),
        }
        self.known.push(false);
    }

    fn text(&mut self, text: &str) {
        if let Data::Text { ends, bytes } = &mut self.data {
            bytes.extend_from_slice(text.as_bytes());
            ends.push(bytes.len() as i64);
            self.known.push(true);
        }
    }

    fn wrong(&self, what: impl fmt::Display) -> Mismatch {
        self.kind.but(what)
    }

    fn whole(&mut self, n: i128) -> Result<(), Mismatch> {
        // Words are made for what fails only: this is done for every cell.
        let kind = self.kind;
        match &mut self.data {
            Data::U64(v) => v.push(u64::try_from(n).map_err(|_| kind.but(n))?),
            Data::I64(v) => v.push(i64::try_from(n).map_err(|_| kind.but(n))?),
            Data::F64(v) => v.push(n as f64),
            _ => return Err(kind.but(n)),
        }
        self.known.push(true);
        Ok(())
    }

    /// Ends a list or a struct whose parts are all there; a part that did not come is null.
    fn close(&mut self) {
        self.known.push(true);
        let len = self.known.len;
        match &mut self.data {
            Data::List { ends, cells } => ends.push(cells.len() as i64),
            Data::Struct(parts) => {
                parts.iter_mut().filter(|(_, c)| c.len() < len).for_each(|(_, c)| c.null())
            }
            _ => {}
        }
    }
}

/// A list or a struct on its way into a column.
pub struct Parts<'a> {
    column: &'a mut Column,
    /// Position of the next part of a struct.
    next: usize,
}

impl Parts<'_> {
    fn positional<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Mismatch> {
        let kind = self.column.kind;
        let wrong = || kind.but("one part too many");
        self.next += 1;
        match &mut self.column.data {
            Data::List { cells, .. } => cells.push(value),
            Data::Struct(parts) => parts.get_mut(self.next - 1).ok_or_else(wrong)?.1.push(value),
            _ => Err(wrong()),
        }
    }

    fn named<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Mismatch> {
        let kind = self.column.kind;
        let Data::Struct(parts) = &mut self.column.data else { return Err(kind.but(name)) };
        // Fields come in order, but for those that are left out.
        let fits = |(f, _): &(&Field, Column)| f.name == name;
        let at = match parts.get(self.next).is_some_and(fits) {
            true => self.next,
            false => parts.iter().position(fits).ok_or_else(|| kind.but(name))?,
        };
        self.next = at + 1;
        parts[at].1.push(value)
    }

    fn done(self) -> Result<(), Mismatch> {
        self.column.close();
        Ok(())
    }
}

type Made<'a> = Result<Parts<'a>, Mismatch>;

impl<'a> Column {
    fn parts(&'a mut self, what: &str) -> Made<'a> {
        match self.data {
            Data::List { .. } | Data::Struct(_) => Ok(Parts { column: self, next: 0 }),
            _ => Err(self.wrong(what)),
        }
    }
}

macro_rules! whole {
    ($($method:ident $type:ty),+) => {
        $(fn $method(self, v: $type) -> Result<(), Mismatch> {
            self.whole(i128::from(v))
        })+
    };
}

impl<'a> ser::Serializer for &'a mut Column {
    type Ok = ();
    type Error = Mismatch;
    type SerializeSeq = Parts<'a>;
    type SerializeTuple = Parts<'a>;
    type SerializeTupleStruct = Parts<'a>;
    type SerializeTupleVariant = Impossible<(), Mismatch>;
    type SerializeMap = Impossible<(), Mismatch>;
    type SerializeStruct = Parts<'a>;
    type SerializeStructVariant = Impossible<(), Mismatch>;

    whole!(serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64);
    whole!(serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64);

    fn serialize_bool(self, v: bool) -> Result<(), Mismatch> {
        let Data::Bool(bits) = &mut self.data else { return Err(self.wrong(v)) };
        bits.push(v);
        self.known.push(true);
        Ok(())
    }

    fn serialize_f32(self, v: f32) -> Result<(), Mismatch> {
        self.serialize_f64(f64::from(v))
    }

    fn serialize_f64(self, v: f64) -> Result<(), Mismatch> {
        let Data::F64(list) = &mut self.data else { return Err(self.wrong(v)) };
        list.push(v);
        self.known.push(true);
        Ok(())
    }

    fn serialize_char(self, v: char) -> Result<(), Mismatch> {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, v: &str) -> Result<(), Mismatch> {
        match self.data {
            Data::Text { .. } => self.text(v),
            _ => return Err(self.wrong(v)),
        }
        Ok(())
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<(), Mismatch> {
        Err(self.wrong("bytes"))
    }

    fn serialize_none(self) -> Result<(), Mismatch> {
        self.null();
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, v: &T) -> Result<(), Mismatch> {
        self.push(v)
    }

    fn serialize_unit(self) -> Result<(), Mismatch> {
        self.serialize_none()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Mismatch> {
        self.serialize_none()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, name: &'static str) -> Result<(), Mismatch> {
        self.serialize_str(name)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, v: &T) -> Result<(), Mismatch> {
        self.push(v)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: &T,
    ) -> Result<(), Mismatch> {
        Err(self.wrong(name))
    }

    fn serialize_seq(self, _: Option<usize>) -> Made<'a> {
        self.parts("a list")
    }

    fn serialize_tuple(self, _: usize) -> Made<'a> {
        self.parts("a tuple")
    }

    fn serialize_tuple_struct(self, name: &'static str, _: usize) -> Made<'a> {
        self.parts(name)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Mismatch> {
        Err(self.wrong(name))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Mismatch> {
        Err(self.wrong("a map"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Made<'a> {
        self.parts(name)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Mismatch> {
        Err(self.wrong(name))
    }
}

macro_rules! positional {
    ($($of:ident $method:ident),+) => {
        $(impl ser::$of for Parts<'_> {
            type Ok = ();
            type Error = Mismatch;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Mismatch> {
                self.positional(value)
            }

            fn end(self) -> Result<(), Mismatch> {
                self.done()
            }
        })+
    };
}

positional!(SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field);

impl ser::SerializeStruct for Parts<'_> {
    type Ok = ();
    type Error = Mismatch;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Mismatch> {
        self.named(name, value)
    }

    fn end(self) -> Result<(), Mismatch> {
        self.done()
    }
}
