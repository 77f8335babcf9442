//! What a verb says, in every format that the command line has.

use pyo3::prelude::*;
use tussle_calls::Answer;
use tussle_render::{Format, Style, render};

/// What a verb prints. In a notebook it shows itself as the command line's HTML.
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
    /// Name of the JSON document: ``report``, ``diff``, ``check``, ...
    #[getter]
    fn kind(&self) -> &'static str {
        self.answer.view.kind
    }

    /// As the command line would exit: 0 clean, 1 a finding, 2 something could not be judged.
    #[getter]
    fn status(&self) -> u8 {
        self.answer.status
    }

    /// What the command line prints.
    fn text(&self) -> String {
        self.render(Format::Text)
    }

    /// The JSON document (docs/schema) as text.
    fn json(&self) -> String {
        self.render(Format::Json)
    }

    /// As ``--format md`` prints it.
    fn markdown(&self) -> String {
        self.render(Format::Markdown)
    }

    /// One HTML page, its words explained at its end.
    pub(crate) fn html(&self) -> String {
        self.answer.page()
    }

    /// The JSON document (docs/schema).
    fn dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (self.json(),))
    }

    fn __str__(&self) -> String {
        self.text()
    }

    fn __repr__(&self) -> String {
        format!("<tussle.View {}, status {}>", self.answer.view.kind, self.answer.status)
    }

    /// The page in a frame, for a notebook.
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
