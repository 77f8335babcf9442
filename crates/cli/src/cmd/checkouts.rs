//! Arms of `tussle bench --checkout`: revisions of a git repository, each built in a folder of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tussle_host::bench::Command;
use tussle_host::revisions::{self, Builds};

use crate::global::Global;

/// Which revisions, how they are built and what runs in each.
#[derive(clap::Args)]
pub struct Revisions {
    /// Compare revisions instead of commands: the command runs in a checkout of each (`.` is the working tree)
    #[arg(long, value_name = "REV")]
    checkout: Vec<String>,
    /// Builds a checkout, in its folder
    #[arg(long, value_name = "CMD", requires = "checkout")]
    build: Option<String>,
    /// The repository; it is only read
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    repository: PathBuf,
    /// Keeps checkouts and builds from one benchmark to the next [default: a temporary folder]
    #[arg(long, value_name = "FOLDER", requires = "checkout")]
    cache: Option<PathBuf>,
}

/// Revisions ready to run.
pub struct Checkouts {
    /// One arm per revision.
    pub arms: Vec<Command>,
    /// Their commits.
    pub commits: Vec<String>,
    /// Removes a temporary cache when dropped: keep it until the last run.
    _folder: Option<tempfile::TempDir>,
}

impl Revisions {
    /// Whether revisions were asked for.
    pub fn given(&self) -> bool {
        !self.checkout.is_empty()
    }

    /// Checks out and builds every revision; the only command runs in each.
    pub fn prepare(
        &self,
        commands: &[String],
        one_is_enough: bool,
        global: &Global,
    ) -> anyhow::Result<Checkouts> {
        let [command] = commands else {
            bail!("--checkout needs one command, which runs in each checkout; {} were given", commands.len());
        };
        if self.checkout.len() < 2 && !one_is_enough {
            bail!(
                "give --checkout twice or more: tussle bench --checkout v1.0 --checkout HEAD --build make ./prog"
            );
        }
        let repository = revisions::top(&self.repository)?;
        let (folder, cache) = match &self.cache {
            Some(cache) => (None, cache.clone()),
            None => {
                let folder = tempfile::tempdir().context("a temporary folder")?;
                let path = folder.path().to_path_buf();
                (Some(folder), path)
            }
        };
        let builds =
            Builds { cache: absolute(&cache)?, repository, build: self.build.clone().unwrap_or_default() };
        let mut out = Checkouts { arms: Vec::new(), commits: Vec::new(), _folder: folder };
        for name in &self.checkout {
            let revision = revisions::named(&builds.repository, name)?;
            if out.commits.contains(&revision.hash) {
                global.remark(format_args!(
                    "{name} is {}, which was given before: equal arms",
                    revision.short()
                ));
            }
            global.remark(format_args!(
                "{name}: {} \"{}\": {}",
                revision.short(),
                revision.subject,
                builds.build
            ));
            let built = builds.ensure(&revision)?;
            let arm = if name == "." { "working tree" } else { name };
            out.arms.push(Command::shell(arm, command).in_folder(built.folder));
            out.commits.push(revision.hash);
        }
        Ok(out)
    }
}

fn absolute(folder: &Path) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    folder.canonicalize().with_context(|| folder.display().to_string())
}
