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

use super::job::{Arg, Given, Job};
use crate::dataset::key;
use anyhow::{Context, bail};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tussle_host::companions::kernel_config;
use tussle_host::project::Stamp;
use toml::Value;

/// Points of a plan at most.
const JOBS_MAX: u64 = 100_000_000;
/// Parameters that name files: their contents are part of a task's hash.
const FILES: &[&str] = &["build", "old", "new", "rules", "evidence", "before", "after", "machine"];

/// Of these, those that may be names of something that is no file.
const NAMES: &[&str] = &["machine", "before", "after"];

/// A parameter that names files.
pub(crate) fn is_file(parameter: &str) -> bool {
    FILES.contains(&parameter)
}

/// Parameters of each verb.
const VERBS: &[(&str, &[&str])] = &[
    ("check", &["build", "rules"]),
    ("diff", &["old", "new", "name", "hot", "line", "phase"]),
    ("predict", &["scenario", "evidence", "machine", "cpus", "before", "after", "draws", "seed"]),
    ("advise", &["evidence", "name", "line", "moves", "frozen"]),
];
/// What each verb cannot do without: one of these.
const NEEDS: &[(&str, &[&str])] = &[
    ("check", &["build"]),
    ("check", &["rules"]),
    ("diff", &["old"]),
    ("diff", &["new"]),
    ("predict", &["scenario", "evidence"]),
    ("advise", &["evidence"]),
    ("advise", &["name"]),
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
    pub(crate) name: Arc<str>,
    /// Hash of what it asks: the same plan under another name is the same plan.
    pub(crate) key: Arc<str>,
    /// `check`, `diff`, `predict`, `advise`.
    pub(crate) verb: Arc<str>,
    /// By name; one that is fixed has one value.
    parameters: Vec<(String, Vec<Given>)>,
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
    pub(crate) hash: String,
    stamp: Stamp,
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
        needed(&read).with_context(at)?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        if folder.to_str().is_none() {
            bail!("{}: in a folder whose name is not UTF-8", path.display());
        }
        let mut fixed = read.fixed;
        for (name, value) in &mut fixed {
            *value = tidy(name, value.clone());
        }
        let mut over: Vec<(String, Vec<Value>)> = Vec::new();
        for (name, values) in read.over {
            let values = expanded(&folder, &name, values).with_context(at)?;
            over.push((name, values));
        }
        let points = over.iter().try_fold(1u64, |n, o| n.checked_mul(o.1.len() as u64));
        if points.is_none_or(|n| n > JOBS_MAX) {
            bail!("{}: more than {JOBS_MAX} points", path.display());
        }
        let asked = serde_json::to_string(&(&read.verb, &fixed, &over))?;
        let all = fixed.into_iter().map(|(name, value)| (name, vec![value])).chain(over);
        let given = |(name, values): (String, Vec<Value>)| {
            let values = values.into_iter().map(Given::new).collect::<anyhow::Result<Vec<Given>>>()?;
            Ok((name, values))
        };
        let mut parameters = all.map(given).collect::<anyhow::Result<Vec<_>>>()?;
        parameters.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Plan {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into(),
            key: key(&[asked.as_bytes()])[..12].into(),
            verb: read.verb.into(),
            parameters,
            folder,
            seen: Mutex::default(),
            begun: BTreeMap::new(),
        })
    }

    /// Number of points.
    pub(crate) fn len(&self) -> u64 {
        self.parameters.iter().map(|o| o.1.len() as u64).product()
    }

    /// The point of that number.
    ///
    /// # Errors
    /// A file that it names cannot be read.
    pub(crate) fn job(&self, number: u64) -> anyhow::Result<Job<'_>> {
        let (mut rest, mut args) = (number, Vec::with_capacity(self.parameters.len()));
        for (name, values) in self.parameters.iter().rev() {
            let given = &values[usize::try_from(rest % values.len() as u64)?];
            rest /= values.len() as u64;
            args.push(Arg { name, given, path: self.path(name, given)? });
        }
        args.reverse();
        Ok(Job::new(number, &self.verb, args))
    }

    /// The path from here that a value stands for, if it names a file; the file is read then.
    fn path<'p>(&self, name: &str, given: &'p Given) -> anyhow::Result<Option<Cow<'p, str>>> {
        let Some(text) = given.value.as_str().filter(|_| is_file(name)) else { return Ok(None) };
        match given.seen.get_or_init(|| self.seen(self.file_part(name, text).1)) {
            Some(file) => Ok(Some(match self.file_part(name, text).0 {
                "" => Cow::Borrowed(&*file.path),
                before => Cow::Owned(format!("{before}{}", file.path)),
            })),
            // `machine` and the sides of a prediction may be names.
            None if NAMES.contains(&name) => Ok(None),
            None => bail!("{name}: {}: cannot be read", self.folder.join(text).display()),
        }
    }

    /// From now on no file of the plan may change.
    ///
    /// # Errors
    /// One is not there, or is no file: every point that needs it would say so.
    pub(crate) fn begin(&mut self) -> anyhow::Result<()> {
        let files = self.parameters.iter().filter(|p| is_file(&p.0));
        let mut begun = BTreeMap::new();
        for (name, value) in files.flat_map(|(name, values)| values.iter().map(move |v| (name, &v.value))) {
            let text = value.as_str().with_context(|| format!("{name} = {value}: the name of a file is needed"))?;
            let text = self.file_part(name, text).1;
            if begun.contains_key(text) {
                continue;
            }
            let path = self.folder.join(text);
            let named = NAMES.contains(&name.as_str()) && !path.exists();
            if !named {
                readable(&path).with_context(|| format!("{name}: {}: cannot be read", path.display()))?;
            }
            begun.insert(text.to_string(), stamp(&path));
        }
        self.begun = begun;
        Ok(())
    }

    /// The file that a parameter names, and what stands before it: a side of a prediction may be VARIANT@FILE.
    fn file_part<'t>(&self, name: &str, text: &'t str) -> (&'t str, &'t str) {
        let at = text.find('@').filter(|_| NAMES.contains(&name) && !self.folder.join(text).exists());
        text.split_at(at.map_or(0, |at| at + 1))
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
            // Some rules are for configurations only.
            let config = kernel_config(&path);
            let parts: Vec<&[u8]> = std::iter::once(&bytes[..]).chain(config.as_deref().map(str::as_bytes)).collect();
            Arc::new(Seen { path: path.display().to_string(), hash: key(&parts), stamp })
        });
        seen.insert(name.into(), made.clone());
        made
    }
}

/// Values of one parameter: of files, `*` in the last part of a path stands for all that are there, sorted.
fn expanded(folder: &Path, name: &str, values: Vec<Value>) -> anyhow::Result<Vec<Value>> {
    let mut out = Vec::new();
    for value in values {
        match value.as_str().filter(|v| FILES.contains(&name) && v.contains('*')) {
            None => out.push(tidy(name, value)),
            Some(pattern) => out.extend(matching(folder, pattern)?.into_iter().map(Value::String)),
        }
    }
    if out.is_empty() {
        bail!("`{name}` has no values");
    }
    Ok(out)
}

fn matching(plan: &Path, pattern: &str) -> anyhow::Result<Vec<String>> {
    let (folder, last) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let below = if pattern.starts_with('/') && folder.is_empty() { "/" } else { folder };
    let here = plan.join(below);
    let here = if here.as_os_str().is_empty() { PathBuf::from(".") } else { here };
    let entries = std::fs::read_dir(&here).with_context(|| here.display().to_string())?;
    let whole = |n: &str| tidied(&format!("{below}/{n}"), below.is_empty());
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.with_context(|| here.display().to_string())?.file_name();
        let text = name.to_string_lossy();
        if text.starts_with('.') || !tussle_calls::source::fits(last, &text) {
            continue;
        }
        if name.to_str().is_none() {
            bail!("{}: its name is not UTF-8, which every name in a plan is", here.join(&name).display());
        }
        found.push(whole(&text));
    }
    found.sort();
    Ok(found)
}

/// The verb has what it needs.
///
/// # Errors
/// It lacks something, or has two things for one.
fn needed(read: &Text) -> anyhow::Result<()> {
    for (_, one_of) in NEEDS.iter().filter(|n| n.0 == read.verb) {
        let there: Vec<&&str> =
            one_of.iter().filter(|n| read.fixed.contains_key(**n) || read.over.contains_key(**n)).collect();
        let words = one_of.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(" or ");
        match there.len() {
            0 => bail!("the plan has no {words}, which {} needs", read.verb),
            1 => {}
            _ => bail!("{words}: one of them"),
        }
    }
    Ok(())
}

/// A file, which its first point will read.
fn readable(path: &Path) -> std::io::Result<()> {
    match path.metadata()?.is_dir() {
        true => Err(std::io::Error::from(std::io::ErrorKind::IsADirectory)),
        false => Ok(()),
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

    /// docs/fleet.md says what is in it; datasets hold those of earlier versions.
    #[test]
    fn a_task_is_a_hash_of_verb_parameters_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.json"), "one").unwrap();
        let text = "verb = \"predict\"\n[fixed]\nscenario = \"x\"\nafter = \"lock@a.json\"\n[over]\nseed = [7]\n";
        let version = env!("CARGO_PKG_VERSION").as_bytes();
        let asked = br#"["predict",{"after":"lock@a.json","scenario":"x","seed":7}]"#;
        let whole = plan(text, folder.path()).unwrap();
        let job = whole.job(0).unwrap();
        assert_eq!(job.task, key(&[version, asked, key(&[b"one"]).as_bytes()]));
        let there = folder.path().join("a.json");
        assert_eq!(job.need("after").unwrap(), format!("lock@{}", there.display()));
        std::fs::write(there, "two").unwrap();
        assert_ne!(plan(text, folder.path()).unwrap().job(0).unwrap().task, job.task, "the file behind @ counts");
    }

    /// Rules may be for some configurations only.
    #[test]
    fn the_configuration_beside_a_build_counts() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["r.toml", "vmlinux-6"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let text = "verb = \"check\"\n[fixed]\nbuild = \"vmlinux-6\"\n[over]\nrules = [\"r.toml\"]\n";
        let task = || plan(text, folder.path()).unwrap().job(0).unwrap().task;
        let mut seen = vec![task()];
        for (name, config) in [("config-6", "CONFIG_SMP=y\n"), ("config-6", "\n"), ("vmlinux-6.config", "\n\n")] {
            std::fs::write(folder.path().join(name), config).unwrap();
            seen.push(task());
        }
        assert!((1..seen.len()).all(|i| !seen[..i].contains(&seen[i])), "{seen:?}");
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
            (plan.key.clone(), plan.job(1).unwrap().task, plan.job(1).unwrap().text)
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
        // A machine may be a name, until there is such a file.
        let text = "verb = \"predict\"\n[fixed]\nevidence = \"r\"\n[over]\nmachine = [\"a\", \"b\", \"none\"]\n";
        let after = |change: &dyn Fn()| {
            for name in ["r", "a", "b"] {
                std::fs::write(at(name), name).unwrap();
            }
            let _ = std::fs::remove_file(at("none"));
            let mut plan = plan(text, folder.path()).unwrap();
            plan.begin().unwrap();
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
        assert!(said("verb = \"check\"\n[fixed]\nrules = \"r\"\n[over]\nbuild = []").contains("no values"));
        let other = said("verb = \"diff\"\n[fixed]\nlines = 64");
        assert!(other.contains("`lines` is no parameter of diff; there are old,"), "{other}");
        assert!(said("verb = \"check\"\nwhat = 1").contains("unknown field"));
        assert!(said("verb = \"check\"\n[fixed]\nrules = 1\n[over]\nrules = [1]").contains("fixed and varied"));
    }
}
