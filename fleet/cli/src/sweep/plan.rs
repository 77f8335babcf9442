//! A plan: a verb, what is fixed, and what is varied. Its jobs are the numbered points of the product, so that any
//! machine that has the file knows what job 4711 is.
//!
//! ```toml
//! verb = "check"
//! [fixed]
//! rules = "rules.toml"
//! [over]
//! build = ["snapshots/*.json"]
//! ```

use crate::dataset::key;
use anyhow::{Context, bail};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tussle_host::project::Stamp;
use toml::Value;

/// Points of a plan at most.
const JOBS_MAX: u64 = 100_000_000;
/// Parameters that name files: their contents are part of a task's hash.
const FILES: &[&str] = &["build", "old", "new", "rules", "evidence", "before", "after", "machine"];

/// Parameters of each verb.
const VERBS: &[(&str, &[&str])] = &[
    ("check", &["build", "rules"]),
    ("diff", &["old", "new", "name", "hot", "line", "phase"]),
    ("predict", &["scenario", "evidence", "machine", "cpus", "before", "after", "draws", "seed"]),
    ("advise", &["evidence", "name", "line", "moves", "frozen"]),
];

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    verb: String,
    #[serde(default)]
    fixed: BTreeMap<String, Value>,
    #[serde(default)]
    over: BTreeMap<String, Vec<Value>>,
}

/// A plan that was read.
pub(crate) struct Plan {
    /// Name of its file without folder and ending.
    pub(crate) name: String,
    /// Hash of what it asks: the same plan under another name is the same plan.
    pub(crate) key: String,
    /// `check`, `diff`, `predict`, `advise`.
    pub(crate) verb: String,
    fixed: BTreeMap<String, Value>,
    over: Vec<(String, Vec<Value>)>,
    folder: PathBuf,
    /// Files that were read, by their names in the plan; `None`: there is no such file.
    seen: Mutex<HashMap<String, Option<Arc<Seen>>>>,
    /// All files that it names, as they were when the sweep began.
    begun: BTreeMap<String, Option<Stamp>>,
}

/// A file as it was when its contents went into a task.
#[derive(Debug)]
pub(crate) struct Seen {
    path: String,
    hash: String,
    stamp: Stamp,
}

/// One point.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// From 0, in the order of the product; the last parameter by name varies fastest.
    pub(crate) number: u64,
    /// Its parameters; files with their path from here.
    pub(crate) parameters: BTreeMap<String, Value>,
    /// The same with names of files as in the plan: they are the same wherever it is asked.
    pub(crate) named: BTreeMap<String, Value>,
    /// Hash of verb, parameters, contents of files and version: the same task has the same answer.
    pub(crate) task: String,
    /// Files whose contents are in the task.
    pub(crate) files: Vec<Arc<Seen>>,
}

impl Job {
    /// A text parameter.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn text(&self, name: &str) -> anyhow::Result<Option<&str>> {
        let Some(value) = self.parameters.get(name) else { return Ok(None) };
        value.as_str().map(Some).with_context(|| format!("{name} = {value}: a text is needed"))
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
        let Some(value) = self.parameters.get(name) else { return Ok(None) };
        let number = value.as_integer().and_then(|n| T::try_from(n).ok());
        number.map(Some).with_context(|| format!("{name} = {value}: a whole number is needed"))
    }

    /// Texts of a list, or one text.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn list(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let Some(value) = self.parameters.get(name) else { return Ok(Vec::new()) };
        let text = |v: &Value| v.as_str().map(str::to_string);
        let texts = match value {
            Value::Array(many) => many.iter().map(text).collect::<Option<Vec<String>>>(),
            one => text(one).map(|t| vec![t]),
        };
        texts.with_context(|| format!("{name} = {value}: a text or a list of texts is needed"))
    }

    /// What a text parameter is called in the plan.
    pub(crate) fn name(&self, parameter: &str) -> String {
        self.named.get(parameter).and_then(Value::as_str).unwrap_or_default().into()
    }

    /// All parameters as JSON, as the plan names them.
    pub(crate) fn parameters_text(&self) -> String {
        serde_json::to_string(&self.named).unwrap_or_default()
    }
}

impl Plan {
    /// Reads a plan; names of files are relative to its folder.
    ///
    /// # Errors
    /// It cannot be read, is no plan, or has too many points.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Plan> {
        let at = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(at)?;
        let read: Text = toml::from_str(&text).with_context(at)?;
        let Some((_, known)) = VERBS.iter().find(|v| v.0 == read.verb) else {
            bail!("{}: verb `{}`: check, diff, predict or advise", path.display(), read.verb);
        };
        if let Some(other) = read.fixed.keys().chain(read.over.keys()).find(|k| !known.contains(&k.as_str())) {
            let known = known.join(", ");
            bail!("{}: `{other}` is no parameter of {}; there are {known}", path.display(), read.verb);
        }
        if let Some(both) = read.over.keys().find(|k| read.fixed.contains_key(*k)) {
            bail!("{}: `{both}` is fixed and varied", path.display());
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut plan = Plan {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            key: String::new(),
            verb: read.verb,
            fixed: read.fixed,
            over: Vec::new(),
            folder,
            seen: Mutex::default(),
            begun: BTreeMap::new(),
        };
        for (name, value) in &mut plan.fixed {
            *value = tidy(name, value.clone());
        }
        for (name, values) in read.over {
            let values = plan.expanded(&name, values).with_context(at)?;
            plan.over.push((name, values));
        }
        let points = plan.over.iter().try_fold(1u64, |n, o| n.checked_mul(o.1.len() as u64));
        if points.is_none_or(|n| n > JOBS_MAX) {
            bail!("{}: more than {JOBS_MAX} points", path.display());
        }
        let asked = serde_json::to_string(&(&plan.verb, &plan.fixed, &plan.over))?;
        plan.key = key(&[asked.as_bytes()])[..12].into();
        Ok(plan)
    }

    /// Values of one parameter: of files, `*` in the last part of a path stands for all that are there, sorted.
    fn expanded(&self, name: &str, values: Vec<Value>) -> anyhow::Result<Vec<Value>> {
        let mut out = Vec::new();
        for value in values {
            match value.as_str().filter(|v| FILES.contains(&name) && v.contains('*')) {
                None => out.push(tidy(name, value)),
                Some(pattern) => out.extend(self.matching(pattern)?.into_iter().map(Value::String)),
            }
        }
        if out.is_empty() {
            bail!("`{name}` has no values");
        }
        Ok(out)
    }

    fn matching(&self, pattern: &str) -> anyhow::Result<Vec<String>> {
        let (folder, last) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        let below = if pattern.starts_with('/') && folder.is_empty() { "/" } else { folder };
        let here = self.folder.join(below);
        let here = if here.as_os_str().is_empty() { PathBuf::from(".") } else { here };
        let entries = std::fs::read_dir(&here).with_context(|| here.display().to_string())?;
        let names = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned());
        let fits = |n: &String| !n.starts_with('.') && tussle_calls::source::fits(last, n);
        let whole = |n: String| tidied(&format!("{below}/{n}"), below.is_empty());
        let mut found: Vec<String> = names.filter(fits).map(whole).collect();
        found.sort();
        Ok(found)
    }

    /// Number of points.
    pub(crate) fn len(&self) -> u64 {
        self.over.iter().map(|o| o.1.len() as u64).product()
    }

    /// The point of that number.
    ///
    /// # Errors
    /// A file that it names cannot be read.
    pub(crate) fn job(&self, number: u64) -> anyhow::Result<Job> {
        let (mut rest, mut parameters) = (number, self.fixed.clone());
        for (name, values) in self.over.iter().rev() {
            let at = usize::try_from(rest % values.len() as u64)?;
            rest /= values.len() as u64;
            parameters.insert(name.clone(), values[at].clone());
        }
        let asked = serde_json::to_string(&(&self.verb, &parameters))?;
        let named = parameters.clone();
        let mut parts: Vec<Vec<u8>> = vec![env!("CARGO_PKG_VERSION").into(), asked.into_bytes()];
        let mut files = Vec::new();
        for (name, value) in parameters.iter_mut().filter(|(n, _)| FILES.contains(&n.as_str())) {
            let Some(text) = value.as_str() else { continue };
            match self.seen(text) {
                Some(file) => {
                    parts.push(file.hash.clone().into_bytes());
                    *value = Value::String(file.path.clone());
                    files.push(file);
                }
                // `machine` and the sides of a prediction may be names.
                None if ["machine", "before", "after"].contains(&name.as_str()) => {}
                None => bail!("{name}: {}: cannot be read", self.folder.join(text).display()),
            }
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        Ok(Job { number, parameters, named, task: key(&parts), files })
    }

    /// From now on no file of the plan may change.
    pub(crate) fn begin(&mut self) {
        let file = |n: &str| FILES.contains(&n);
        let fixed = self.fixed.iter().filter(|f| file(f.0)).map(|f| f.1);
        let varied = self.over.iter().filter(|o| file(&o.0)).flat_map(|o| &o.1);
        let names = fixed.chain(varied).filter_map(Value::as_str);
        self.begun = names.map(|n| (n.to_string(), stamp(&self.folder.join(n)))).collect();
    }

    /// Answers are of the files that were there when the sweep began.
    ///
    /// # Errors
    /// One of the plan's files was changed since, whether a point of it was answered or not.
    pub(crate) fn as_it_began(&self) -> anyhow::Result<()> {
        match self.begun.iter().find(|(name, was)| stamp(&self.folder.join(name)) != **was) {
            Some((name, _)) => Err(changed(&self.folder.join(name).display().to_string())),
            None => Ok(()),
        }
    }

    /// A file by its name in the plan; `None` when there is no such file.
    fn seen(&self, name: &str) -> Option<Arc<Seen>> {
        let mut seen = self.seen.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(known) = seen.get(name) {
            return known.clone();
        }
        let path = self.folder.join(name);
        let read = || Some((stamp(&path)?, std::fs::read(&path).ok()?));
        let made = read().map(|(stamp, bytes)| {
            Arc::new(Seen { path: path.display().to_string(), hash: key(&[&bytes]), stamp })
        });
        seen.insert(name.into(), made.clone());
        made
    }
}

/// An answer of other contents than those of its task would have the wrong name for good.
///
/// # Errors
/// One of these files was changed meanwhile.
pub(crate) fn unchanged(mut files: Vec<Arc<Seen>>) -> anyhow::Result<()> {
    files.sort_by_key(Arc::as_ptr);
    files.dedup_by_key(|f| Arc::as_ptr(f));
    match files.iter().find(|f| stamp(Path::new(&f.path)) != Some(f.stamp)) {
        Some(f) => Err(changed(&f.path)),
        None => Ok(()),
    }
}

fn changed(path: &str) -> anyhow::Error {
    anyhow::anyhow!("{path}: changed while the sweep ran; start it again, it goes on from here")
}

/// One spelling for one file: without `.` and double slashes. Names that are no files stay as they are.
fn tidy(parameter: &str, value: Value) -> Value {
    match value.as_str().filter(|v| FILES.contains(&parameter) && (v.contains('/') || *v == ".")) {
        Some(text) => Value::String(tidied(text, false)),
        None => value,
    }
}

/// `relative`: what begins with a slash here was put together of an empty folder and a name.
fn tidied(path: &str, relative: bool) -> String {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
    let start = if path.starts_with('/') && !relative { "/" } else { "" };
    match format!("{start}{}", parts.join("/")) {
        empty if empty.is_empty() => ".".into(),
        tidied => tidied,
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    Some(Stamp::of(&path.metadata().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str, folder: &Path) -> anyhow::Result<Plan> {
        let path = folder.join("p.toml");
        std::fs::write(&path, text).unwrap();
        Plan::open(&path)
    }

    #[test]
    fn jobs_are_a_function_of_the_plan() {
        let folder = tempfile::tempdir().unwrap();
        let text = "verb = \"predict\"\n[fixed]\nscenario = \"x\"\n[over]\ncpus = [1, 2, 4]\nseed = [7, 8]\n";
        let (a, b) = (plan(text, folder.path()).unwrap(), plan(text, folder.path()).unwrap());
        assert_eq!((a.len(), &a.key), (6, &b.key));
        let tasks: Vec<String> = (0..6).map(|n| a.job(n).unwrap().task).collect();
        let again: Vec<String> = (0..6).map(|n| b.job(n).unwrap().task).collect();
        assert_eq!(tasks, again);
        assert_eq!(tasks.iter().collect::<std::collections::BTreeSet<_>>().len(), 6);
        let four = a.job(4).unwrap();
        assert_eq!(
            (four.whole::<u32>("cpus").unwrap(), four.whole::<u64>("seed").unwrap()),
            (Some(4), Some(7))
        );
    }

    /// However it is spelled, a file has one name, and so has the same plan in a list of its files.
    #[test]
    fn a_file_has_one_name() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("x")).unwrap();
        for name in ["r0.toml", "r1.toml", "x/a.json"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let of = |build: &str, rules: &str| {
            let fixed = format!("[fixed]\nbuild = \"{build}\"\n");
            let text = format!("verb = \"check\"\n{fixed}[over]\nrules = [{rules}]\n");
            let plan = plan(&text, folder.path()).unwrap();
            (plan.key.clone(), plan.job(1).unwrap().task, plan.job(1).unwrap().parameters_text())
        };
        let listed = of("x/a.json", "\"r0.toml\", \"r1.toml\"");
        assert_eq!(listed.2, r#"{"build":"x/a.json","rules":"r1.toml"}"#);
        for rules in ["\"r*.toml\"", "\"./r*.toml\"", "\".//r0.toml\", \"./r1.toml\""] {
            assert_eq!(of("./x//a.json", rules), listed, "{rules}");
        }
        let root = folder.path().display();
        let whole = of("x/./a.json", &format!("\"{root}/r*.toml\""));
        assert!(whole.2.contains(&format!("\"{root}/r1.toml\"")), "{}", whole.2);
    }

    /// Whether it was read already, or not yet, or comes and goes.
    #[test]
    fn no_file_of_a_plan_may_change() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let text = "verb = \"check\"\n[fixed]\nrules = \"r\"\n[over]\nbuild = [\"a\", \"b\", \"none\"]\n";
        let after = |change: &dyn Fn()| {
            for name in ["r", "a", "b"] {
                std::fs::write(at(name), name).unwrap();
            }
            let _ = std::fs::remove_file(at("none"));
            let mut plan = plan(text, folder.path()).unwrap();
            plan.begin();
            plan.job(0).unwrap();
            change();
            plan.as_it_began().map_err(|e| e.to_string())
        };
        assert_eq!(after(&|| {}), Ok(()));
        let changes: [(&str, &dyn Fn()); 4] = [
            ("a", &|| std::fs::write(at("a"), "other").unwrap()),
            ("b", &|| std::fs::write(at("b"), "other").unwrap()),
            ("r", &|| std::fs::remove_file(at("r")).unwrap()),
            ("none", &|| std::fs::write(at("none"), "").unwrap()),
        ];
        for (name, change) in changes {
            let said = after(change).unwrap_err();
            assert!(said.contains(&format!("{name}: changed while the sweep ran")), "{said}");
        }
    }

    #[test]
    fn other_contents_are_another_task() {
        let folder = tempfile::tempdir().unwrap();
        let text = "verb = \"check\"\n[fixed]\nrules = \"r\"\n[over]\nbuild = [\"*.snap\"]\n";
        for name in ["r", "a.snap", "b.snap", ".hidden.snap"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let before = plan(text, folder.path()).unwrap();
        assert_eq!(before.len(), 2);
        let (a, b) = (before.job(0).unwrap().task, before.job(1).unwrap().task);
        std::fs::write(folder.path().join("b.snap"), "changed").unwrap();
        let after = plan(text, folder.path()).unwrap();
        assert_eq!(after.job(0).unwrap().task, a);
        assert_ne!(after.job(1).unwrap().task, b);
    }

    #[test]
    fn mistakes_are_said() {
        let folder = tempfile::tempdir().unwrap();
        let said =
            |text| plan(text, folder.path()).err().map(|e| tussle_calls::in_full(&e)).unwrap_or_default();
        assert!(said("verb = \"sing\"").contains("check, diff, predict or advise"));
        assert!(said("verb = \"check\"\n[over]\nbuild = []").contains("no values"));
        let other = said("verb = \"diff\"\n[fixed]\nlines = 64");
        assert!(other.contains("`lines` is no parameter of diff; there are old,"), "{other}");
        assert!(said("verb = \"check\"\nwhat = 1").contains("unknown field"));
        assert!(said("verb = \"check\"\n[fixed]\nrules = 1\n[over]\nrules = [1]").contains("fixed and varied"));
    }
}
