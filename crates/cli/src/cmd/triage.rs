//! `tussle triage`.

mod suspects;
mod view;

use super::import::{input, view as naming};
use super::source::Source;
use crate::global::Global;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tussle_advise::signs::{self, Signs};
use tussle_bench::read;
use tussle_model::TypeTable;
use tussle_perf::text::TextLine;
use tussle_perf::{import_text, joint, mail, text};

/// Say what a mail about a regression is about, and what to try and measure.
///
/// Which fields meet, what the blamed commit did, what would part them. Reads the text of a kernel test robot's
/// report, of a pasted `perf c2c report --stdio`, or of a patch, quoted or wrapped as mailers do. Types come from -k
/// or --layout (before and after the commit, where there are both), or from the vmlinux of --tree. Sizes of effects are
/// not known from a mail, and none is given.
#[derive(clap::Args)]
pub struct Args {
    /// The mail's text, and what belongs to it (the blamed commit as a patch); `-` is the standard input.
    #[arg(value_name = "MAIL", required = true)]
    mails: Vec<PathBuf>,
    /// Linux sources: the blamed commit is looked up in their git history, and a vmlinux built there gives the types.
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// Kernel with debug information or BTF.
    #[arg(short = 'k', value_name = "VMLINUX", conflicts_with = "layout")]
    kernel: Option<PathBuf>,
    /// Files with layouts to try (binary, BTF, snapshot); several builds may be given.
    #[arg(long, value_name = "FILE")]
    layout: Vec<PathBuf>,
    /// The blamed commit, if the mail does not say or says another.
    #[arg(long, value_name = "HASH", requires = "tree")]
    commit: Option<String>,
    /// Which table of a text that holds several, from 1.
    #[arg(long, value_name = "N", default_value_t = 1)]
    table: usize,
}

impl Args {
    fn name(&self) -> String {
        self.mails.iter().map(|m| m.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

/// Everything that was found.
pub struct Found {
    /// Rows of the benchmark that the mail is about.
    pub rows: Vec<read::Row>,
    /// Commit before, and the blamed one.
    pub commits: (Option<mail::Commit>, Option<mail::Commit>),
    /// What a diff does to structs, and where the diff comes from.
    pub changes: (Vec<mail::Change>, String),
    /// Hot functions by what they work on.
    pub families: Vec<mail::Family>,
    /// Lines of the chosen table, and their names.
    pub lines: Vec<TextLine>,
    /// Candidates.
    pub naming: naming::Naming,
    /// Pairs in the named lines.
    pub signs: Vec<Signs>,
    /// Members that the profile and the diff point at.
    pub suspects: Vec<suspects::Suspect>,
    /// There was no file with types.
    pub no_types: bool,
    /// Workloads of `record-kernel` that the text names.
    pub workloads: Vec<&'static str>,
}

/// Runs the verb. Exit status 1 when two places of a line meet, with names or without.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let words = args.mails.iter().map(|m| mail_text(m)).collect::<anyhow::Result<Vec<String>>>()?.join("\n");
    let builds = builds(args, global)?;
    let found = find(args, global, &words, &builds)?;
    global.print(&view::view(&found))?;
    Ok(ExitCode::from(u8::from(view::meets(&found))))
}

/// No mail is longer, bytes.
const MAIL_MAX: u64 = 64 << 20;

fn mail_text(path: &Path) -> anyhow::Result<String> {
    match input::find(path, MAIL_MAX)? {
        input::Found::Bytes(bytes) if !input::is_perf_data(&bytes) => {
            Ok(mail::plain(&mail::decoded(&String::from_utf8_lossy(&bytes))))
        }
        _ => bail!("{}: a recording, no text: tussle import reads it, with more to say", path.display()),
    }
}

fn builds(args: &Args, global: &Global) -> anyhow::Result<Vec<Source>> {
    let built = args.tree.iter().map(|t| t.join("vmlinux")).find(|v| v.is_file());
    let mut paths: Vec<PathBuf> = args.kernel.iter().chain(&args.layout).cloned().collect();
    if paths.is_empty() {
        paths.extend(built);
    }
    paths.iter().map(|p| Source::open(p, &[], global)).collect()
}

fn find(args: &Args, global: &Global, words: &str, builds: &[Source]) -> anyhow::Result<Found> {
    let types: Vec<&TypeTable> = builds.iter().map(|b| &b.table).collect();
    let (commits, changes) = history(args, global, words)?;
    let mut found = Found {
        rows: benchmark(words),
        commits,
        changes,
        families: mail::families(&mail::hot(words)),
        lines: Vec::new(),
        naming: naming::Naming::default(),
        signs: Vec::new(),
        suspects: Vec::new(),
        no_types: builds.is_empty(),
        workloads: workloads(words),
    };
    tables(args, global, words, builds, &mut found)?;
    found.suspects = suspects::find(&found.families, &found.changes.0, &types, builds, None);
    if found.suspects.is_empty() && found.lines.is_empty() {
        let named = mail::named_members(words);
        found.suspects = suspects::find(&named, &found.changes.0, &types, builds, Some(words));
    }
    let silent = found.rows.is_empty() && found.lines.is_empty() && found.families.is_empty();
    if silent && found.changes.0.is_empty() && found.commits.1.is_none() {
        bail!(
            "{}: no table, profile, commit or diff in it that is known; known are kernel test robot and mmtests \
             tables, `perf c2c report --stdio`, `perf report --stdio` and diffs",
            args.name()
        );
    }
    Ok(found)
}

/// The table of `perf c2c`, named, with what parts its pairs.
fn tables(
    args: &Args,
    global: &Global,
    words: &str,
    builds: &[Source],
    found: &mut Found,
) -> anyhow::Result<()> {
    let read = text::read(words);
    let all = import_text::split(&read);
    if all.is_empty() {
        return Ok(());
    }
    let Some(table) = args.table.checked_sub(1).and_then(|i| all.get(i)) else {
        bail!("{}: there is no table {}; it has {}", args.name(), args.table, all.len());
    };
    let types: Vec<&TypeTable> = builds.iter().map(|b| &b.table).collect();
    found.naming.builds = builds.iter().map(|b| b.path.display().to_string()).collect();
    found.naming.lines = joint::name(table, &types, 64, naming::DECIDED);
    found.naming.primitives = joint::primitives(table, &types, 64, naming::DECIDED);
    let (mut evidence, problems) = import_text::c2c_text(&read, table);
    for p in problems.iter().take(5) {
        global.remark(format_args!("{}: {p}", args.name()));
    }
    found.naming.apply(builds, &mut evidence);
    found.lines = table.to_vec();
    let mut names: Vec<String> = Vec::new();
    for o in evidence.objects.iter().filter_map(|o| o.ty) {
        let name = evidence.types.name(o);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        found.signs.push(signs::signs(&evidence, &name, 64)?);
    }
    Ok(())
}

/// Rows of the first table of results, those of the benchmark itself.
fn benchmark(words: &str) -> Vec<read::Row> {
    let Ok((document, _)) = read::read(words) else { return Vec::new() };
    let suite = |r: &read::Row| (r.format, r.name.split(['.', '/']).next().unwrap_or_default().to_string());
    let Some(first) = document.rows.first().map(suite) else { return Vec::new() };
    document.rows.into_iter().filter(|r| suite(r) == first).collect()
}

/// Workloads of our own that a mail's benchmark is known by.
fn workloads(words: &str) -> Vec<&'static str> {
    let known = ["mmap1", "page_fault1", "page_fault2", "pft", "sem_ops"];
    let named = |w: &str| words.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|x| x == w);
    known.into_iter().filter(|w| named(w)).collect()
}

type History = ((Option<mail::Commit>, Option<mail::Commit>), (Vec<mail::Change>, String));

/// Commits of the mail, and the blamed one's diff: from the tree, else from the mail.
fn history(args: &Args, global: &Global, words: &str) -> anyhow::Result<History> {
    let (base, mut head) = mail::blamed(words);
    if let Some(hash) = &args.commit {
        head = Some(mail::Commit { hash: hash.clone(), title: String::new() });
    }
    if let (Some(tree), Some(commit)) = (&args.tree, &mut head) {
        match diff(tree, &commit.hash) {
            Ok((title, patch)) => {
                commit.title = title;
                let from = format!("commit {}", commit.hash);
                return Ok(((base, head), (mail::changes(&patch), from)));
            }
            Err(e) if args.commit.is_some() => return Err(e),
            Err(e) => global.remark(format_args!("{}: {e:#}; the mail's own diff is read", tree.display())),
        }
    }
    Ok(((base, head), (mail::changes(words), "the mail".into())))
}

/// Title and diff of a commit.
fn diff(tree: &Path, hash: &str) -> anyhow::Result<(String, String)> {
    if !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
        bail!("`{hash}` is no hash");
    }
    let git = |words: &[&str]| -> anyhow::Result<String> {
        let out = Command::new("git").arg("-C").arg(tree).args(words).output().context("cannot start git")?;
        let said = String::from_utf8_lossy(&out.stderr).trim().to_string();
        if !out.status.success() {
            bail!("git does not know commit {hash} there: {}", said.lines().last().unwrap_or_default());
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let title = git(&["show", "--no-patch", "--format=%s", hash, "--"])?;
    let patch = git(&["show", "--format=", "--no-color", "-U8", "--no-ext-diff", hash, "--"])?;
    Ok((title.trim().to_string(), patch))
}
