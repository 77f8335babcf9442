//! One point of a plan. There may be a hundred million of them, each a few microseconds of work: a job borrows what
//! the plan holds already.

use super::plan::{Seen, is_file};
use crate::dataset::key;
use anyhow::Context;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use toml::Value;

/// A value of a parameter.
pub(crate) struct Given {
    pub(crate) value: Value,
    /// The same as JSON.
    json: String,
    /// The file that it names, once it was read; `None`: there is no such file.
    pub(crate) seen: OnceLock<Option<Arc<Seen>>>,
}

impl Given {
    /// # Errors
    /// JSON does not have such a value.
    pub(crate) fn new(value: Value) -> anyhow::Result<Given> {
        Ok(Given { json: serde_json::to_string(&value)?, value, seen: OnceLock::new() })
    }
}

/// A parameter with its value in a point.
pub(crate) struct Arg<'p> {
    pub(crate) name: &'p str,
    pub(crate) given: &'p Given,
    /// The file with its path from here, as the verb takes it.
    pub(crate) path: Option<Cow<'p, str>>,
}

/// One point.
pub(crate) struct Job<'p> {
    /// From 0, in the order of the product; the last parameter by name varies fastest.
    pub(crate) number: u64,
    args: Vec<Arg<'p>>,
    /// All parameters as JSON, as the plan names them.
    pub(crate) text: String,
    /// Hash of verb, parameters, contents of files and version: the same task has the same answer.
    pub(crate) task: String,
    /// Files whose contents are in the task.
    pub(crate) files: Vec<Arc<Seen>>,
}

impl<'p> Job<'p> {
    /// The point with these parameters, sorted by name, whose files were read.
    pub(crate) fn new(number: u64, verb: &str, args: Vec<Arg<'p>>) -> Job<'p> {
        let of = |a: &Arg<'p>| a.given.seen.get().cloned().flatten().filter(|_| is_file(a.name));
        let files: Vec<Arc<Seen>> = args.iter().filter_map(of).collect();
        let bytes = args.iter().map(|a| a.name.len() + a.given.json.len() + 4).sum::<usize>();
        let mut text = String::with_capacity(bytes + 2);
        for arg in &args {
            // Names of parameters are plain words.
            text.push(if text.is_empty() { '{' } else { ',' });
            for part in ["\"", arg.name, "\":", &arg.given.json] {
                text.push_str(part);
            }
        }
        text.push_str(if args.is_empty() { "{}" } else { "}" });
        // As a list of both would be in JSON.
        let asked = ["[\"", verb, "\",", &text, "]"].concat();
        let mut parts = vec![env!("CARGO_PKG_VERSION").as_bytes(), asked.as_bytes()];
        parts.extend(files.iter().map(|f| f.hash.as_bytes()));
        let task = key(&parts);
        Job { number, args, text, task, files }
    }

    fn arg(&self, name: &str) -> Option<&Arg<'p>> {
        self.args.iter().find(|a| a.name == name)
    }

    /// A text parameter; a file with its path from here.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn text(&self, name: &str) -> anyhow::Result<Option<&str>> {
        let Some(arg) = self.arg(name) else { return Ok(None) };
        let text = arg.path.as_deref().or(arg.given.value.as_str());
        text.map(Some).with_context(|| format!("{name} = {}: a text is needed", arg.given.value))
    }

    /// A text parameter that the verb needs.
    ///
    /// # Errors
    /// The plan has none.
    pub(crate) fn need(&self, name: &str) -> anyhow::Result<&str> {
        self.text(name)?.with_context(|| format!("the plan has no text `{name}`"))
    }

    /// A whole number.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn whole<T: TryFrom<i64>>(&self, name: &str) -> anyhow::Result<Option<T>> {
        let Some(Arg { given: Given { value, .. }, .. }) = self.arg(name) else { return Ok(None) };
        let number = value.as_integer().and_then(|n| T::try_from(n).ok());
        number.map(Some).with_context(|| format!("{name} = {value}: a whole number is needed"))
    }

    /// Texts of a list, or one text.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn list(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let Some(Arg { given: Given { value, .. }, .. }) = self.arg(name) else { return Ok(Vec::new()) };
        let text = |v: &Value| v.as_str().map(str::to_string);
        let texts = match value {
            Value::Array(many) => many.iter().map(text).collect::<Option<Vec<String>>>(),
            one => text(one).map(|t| vec![t]),
        };
        texts.with_context(|| format!("{name} = {value}: a text or a list of texts is needed"))
    }

    /// What a text parameter is called in the plan: the same wherever it is asked.
    pub(crate) fn name(&self, parameter: &str) -> &'p str {
        self.arg(parameter).and_then(|a| a.given.value.as_str()).unwrap_or_default()
    }
}
