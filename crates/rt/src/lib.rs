//! The recorder runtime as bytes, its wire format and the reader of what it wrote.
