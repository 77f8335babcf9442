//! What a verb says, in every format that the command line has.

use pyo3::prelude::*;
use tussle_calls::Answer;
use tussle_render::{Format, Style, render};

/// A report, a difference, advice: the view tree of the command line.
#[pyclass(frozen, module = "tussle")]
pub(crate) struct View {
    answer: Answer,
}

impl View {
    pub(crate) fn new(answer: Answer) -> View {
        View { answer }
    }

    fn render(&self, format: Format) -> String {
        render(&self.answer.view, format, Style::default())
    }
}

#[pymethods]
impl View {
    #[getter]
    fn kind(&self) -> &'static str {
        self.answer.view.kind
    }

    #[getter]
    fn status(&self) -> u8 {
        self.answer.status
    }

    fn text(&self) -> String {
        self.render(Format::Text)
    }

    fn json(&self) -> String {
        self.render(Format::Json)
    }

    fn markdown(&self) -> String {
        self.render(Format::Markdown)
    }

    pub(crate) fn html(&self) -> String {
        self.render(Format::Html)
    }

    fn dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (self.json(),))
    }

    fn __str__(&self) -> String {
        self.text()
    }

    fn __repr__(&self) -> String {
        format!("<tussle.View {}, status {}>", self.answer.view.kind, self.answer.status)
    }

    fn _repr_html_(&self) -> String {
        framed(&self.html())
    }
}

/// A page in a frame of its own, so that its style stays inside of it and the notebook's outside.
pub(crate) fn framed(page: &str) -> String {
    let lines = page.matches("</tr>").count() + page.matches("</dt>").count();
    let height = (140 + 32 * lines).clamp(200, 700);
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let style = format!("width:100%;height:{height}px;border:0");
    format!("<iframe sandbox=\"allow-scripts\" style=\"{style}\" srcdoc=\"{page}\"></iframe>")
}
