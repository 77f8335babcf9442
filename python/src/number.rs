//! Whole numbers as Python has them, of any size: what does not fit is said as the command line says it.

use crate::Error;
use pyo3::prelude::*;
use pyo3::types::PyInt;
use std::fmt::Display;
use std::str::FromStr;

/// A whole number, as text.
#[derive(Clone, Debug)]
pub(crate) struct Whole(String);

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Whole> {
        // What counts as a whole number (`numpy.int64`, too) is for Python to say; a float is none.
        let index = value.call_method0("__index__");
        let index = index.or_else(|_| Err(value.cast::<PyInt>().expect_err("no index")))?;
        Ok(Whole(index.str()?.to_string()))
    }
}

impl From<u32> for Whole {
    fn from(n: u32) -> Whole {
        Whole(n.to_string())
    }
}

impl Whole {
    /// Where it is of moderate size.
    pub(crate) fn as_it_is(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// As the command line reads an option that it shows as `option`.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&self, option: &str) -> PyResult<T> {
        self.0.parse().map_err(|e: T::Err| self.wrong(option, e))
    }

    /// The same of an option with a first and a last value.
    pub(crate) fn within<T: TryFrom<i64>>(&self, option: &str, first: i64, last: i64) -> PyResult<T> {
        let fits = self.as_it_is().filter(|n| (first..=last).contains(n));
        let found = fits.and_then(|n| T::try_from(n).ok());
        found.ok_or_else(|| self.wrong(option, format!("{} is not in {first}..={last}", self.0)))
    }

    /// The same of any number of 32 bits.
    pub(crate) fn of_32_bits(&self, option: &str) -> PyResult<u32> {
        self.within(option, 0, u32::MAX.into())
    }

    /// Not of this option.
    pub(crate) fn wrong(&self, option: &str, why: impl Display) -> PyErr {
        Error::new_err(format!("invalid value '{}' for '{option}': {why}", self.0))
    }
}
