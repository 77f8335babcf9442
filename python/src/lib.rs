//! The Python module `tussle._tussle`. Each class is one file; `tussle/_tussle.pyi` documents them for users.

mod calls;
mod evidence;
mod long;
mod number;
mod table;
mod types;
mod view;

use pyo3::prelude::*;

pyo3::create_exception!(
    tussle,
    Error,
    pyo3::exceptions::PyException,
    "What the command line would say, and exit 2."
);

#[pymodule]
fn _tussle(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("Error", m.py().get_type::<Error>())?;
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<types::Types>()?;
    m.add_class::<types::Type>()?;
    m.add_class::<types::Member>()?;
    m.add_class::<types::Hole>()?;
    m.add_class::<evidence::Evidence>()?;
    m.add_class::<table::Table>()?;
    m.add_class::<view::View>()?;
    m.add_function(wrap_pyfunction!(types::open, m)?)?;
    m.add_function(wrap_pyfunction!(evidence::evidence, m)?)?;
    m.add_function(wrap_pyfunction!(evidence::contention, m)?)?;
    m.add_function(wrap_pyfunction!(evidence::report, m)?)?;
    m.add_function(wrap_pyfunction!(evidence::advise, m)?)?;
    m.add_function(wrap_pyfunction!(calls::diff, m)?)?;
    m.add_function(wrap_pyfunction!(calls::check, m)?)?;
    m.add_function(wrap_pyfunction!(calls::place, m)?)?;
    m.add_function(wrap_pyfunction!(calls::compare, m)?)?;
    m.add_function(wrap_pyfunction!(calls::bench, m)?)?;
    m.add_function(wrap_pyfunction!(calls::predict, m)?)
}
