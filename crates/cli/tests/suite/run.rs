//! Builds, records and reports one twin.

use super::judge::Outcome;
use super::manifest::{Case, Twin, folder};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Who looks at a program.
#[derive(Clone, Copy, PartialEq)]
pub enum How {
    /// The recorder, in an instrumented build.
    Recorded,
    /// The recorder under an emulator, as the compiler leaves it.
    Emulated,
    /// Nobody, or one who looks from outside.
    Bare,
}

/// How a program is built and run.
#[derive(Clone, Copy)]
pub struct Setting {
    pub compiler: &'static str,
    pub level: &'static str,
    pub threads: u32,
    pub cpus: u32,
    pub how: How,
    /// Names of compilers begin so: Debian's cross compilers.
    pub target: &'static str,
    /// Linked with the libraries in it.
    pub whole: bool,
}

impl Setting {
    /// That of the fixed forty.
    pub fn usual() -> Setting {
        Setting {
            compiler: "gcc",
            level: "-O1",
            threads: 4,
            cpus: 2,
            how: How::Recorded,
            target: "",
            whole: false,
        }
    }

    /// Nothing rebuilt; for this machine and for another, dynamic and static.
    pub fn emulated() -> Vec<Setting> {
        let one = Setting { level: "-O2", how: How::Emulated, ..Setting::usual() };
        let targets = ["", "aarch64-linux-gnu-"];
        targets
            .iter()
            .flat_map(|&target| [false, true].map(|whole| Setting { target, whole, ..one }))
            .collect()
    }

    /// As it ships, two threads.
    pub fn bare() -> Setting {
        Setting { level: "-O2", threads: 2, how: How::Bare, ..Setting::usual() }
    }

    /// Every compiler and level; all of them, or those whose words have a word of `TUSSLE_SUITE_BUILDS`.
    pub fn builds() -> Vec<Setting> {
        let all = ["gcc", "clang"].iter().flat_map(|&compiler| {
            ["-O0", "-O1", "-O2"].map(|level| Setting { compiler, level, ..Setting::usual() })
        });
        let only = std::env::var("TUSSLE_SUITE_BUILDS").unwrap_or_default();
        let asked = |s: &Setting| only.is_empty() || only.split(',').any(|word| s.words().contains(word));
        all.filter(asked).collect()
    }

    /// What one build is run with: every number of threads, on two CPUs and on one.
    pub fn runs(&self) -> Vec<Setting> {
        let all =
            [2, 4, 16, 64].iter().flat_map(|&threads| [2, 1].map(|cpus| Setting { threads, cpus, ..*self }));
        all.collect()
    }

    /// It can be built so: Rust has its library for this machine alone, Go links statically.
    pub fn is_for(&self, case: &Case) -> bool {
        match case.language() {
            "rs" => self.target.is_empty(),
            "go" => self.whole,
            _ => true,
        }
    }

    pub fn words(&self) -> String {
        let how = match self.how {
            How::Recorded => "",
            How::Emulated => "emulated ",
            How::Bare => "bare ",
        };
        let linked = if self.whole { " -static" } else { "" };
        let built = format!("{}{} {}{linked}", self.target, self.compiler, self.level);
        format!("{how}{built} {} threads {} CPUs", self.threads, self.cpus)
    }

    /// The compiler of C or of C++.
    pub fn tool(&self, cxx: bool) -> String {
        let name = match (self.compiler, cxx) {
            ("gcc", true) => "g++",
            ("clang", true) => "clang++",
            (c, _) => c,
        };
        format!("{}{name}", self.target)
    }
}

/// Where programs are built.
pub struct Workshop {
    dir: tempfile::TempDir,
}

impl Workshop {
    pub fn new() -> Workshop {
        Workshop { dir: tempfile::tempdir().unwrap() }
    }

    /// What `tussle report` says of one twin; `Err` is why it cannot be judged here.
    pub fn judge(&self, case: &Case, twin: &Twin, setting: &Setting) -> Result<Outcome, String> {
        let program = self.build(case, twin, setting)?;
        self.judge_built(&program, case, setting)
    }

    /// The same of what is built already.
    pub fn judge_built(&self, program: &Path, case: &Case, setting: &Setting) -> Result<Outcome, String> {
        let data = self.dir.path().join("suite.data");
        // libstdc++ 12 lets threads sleep for ever at a semaphore that is free (GCC's bug 104928), with or without us.
        let mut record = self.command("timeout");
        record.args(["120"]);
        record.args((setting.cpus == 1).then_some(["taskset", "-c", "0"]).iter().flatten());
        record
            .arg(env!("CARGO_BIN_EXE_tussle"))
            .arg("record")
            .args((setting.how == How::Emulated).then_some("--emulate"));
        record.arg("-o").arg(&data).arg("--").arg(program).arg(setting.threads.to_string());
        let recorded = run(&mut record)?;
        if !recorded.status.success() {
            return Err(format!("not recorded: {}", String::from_utf8_lossy(&recorded.stderr)));
        }
        let own = String::from_utf8_lossy(&recorded.stdout).into_owned();
        let report =
            run(self.command(env!("CARGO_BIN_EXE_tussle")).args(["report", "--format", "json"]).arg(&data))?;
        let status = report.status.code().unwrap_or(-1);
        let mut outcome = Outcome::new(status, &report.stdout, &own, case.pair.as_ref());
        outcome.broken_next = self.next_fails(&report.stdout)?;
        Ok(outcome)
    }

    /// Runs the command that a report names next, where the evidence lies; the command if it failed.
    fn next_fails(&self, report: &[u8]) -> Result<Option<String>, String> {
        let view: serde_json::Value = serde_json::from_slice(report).unwrap_or_default();
        let Some(next) = view["next"].as_str().and_then(|n| n.strip_prefix("tussle ")) else {
            return Ok(None);
        };
        let line = format!("{} {next}", env!("CARGO_BIN_EXE_tussle"));
        let out = run(self.command("sh").args(["-c", &line]))?;
        let said = || format!("{next}: {}", String::from_utf8_lossy(&out.stderr));
        Ok((!matches!(out.status.code(), Some(0 | 1))).then(said))
    }

    /// Builds it.
    pub fn build(&self, case: &Case, twin: &Twin, setting: &Setting) -> Result<PathBuf, String> {
        match case.language() {
            "rs" => self.build_rust(case, twin, setting),
            "go" => self.build_go(case, twin, setting),
            _ => self.build_c(case, twin, setting),
        }
    }

    fn build_rust(&self, case: &Case, twin: &Twin, setting: &Setting) -> Result<PathBuf, String> {
        let program = self.dir.path().join("rust");
        let mut rustc = self.command("rustc");
        rustc.args(["--edition", "2021", "-O", "-g"]).arg(folder().join("languages").join(&case.source));
        rustc.args(twin.fixed.then_some(["--cfg", "fixed"]).iter().flatten());
        rustc.args(setting.whole.then_some(["-C", "target-feature=+crt-static"]).iter().flatten());
        done(rustc.arg("-o").arg(&program))?;
        Ok(program)
    }

    fn build_go(&self, case: &Case, twin: &Twin, setting: &Setting) -> Result<PathBuf, String> {
        let program = self.dir.path().join("go");
        let mut go = self.command("go");
        go.env("CGO_ENABLED", "0").env("GOARCH", if setting.target.is_empty() { "amd64" } else { "arm64" });
        go.arg("build").args(twin.fixed.then_some(["-ldflags", "-X main.fixed=1"]).iter().flatten());
        done(go.arg("-o").arg(&program).arg(folder().join("languages").join(&case.source)))?;
        Ok(program)
    }

    fn build_c(&self, case: &Case, twin: &Twin, setting: &Setting) -> Result<PathBuf, String> {
        let source = folder().join("programs").join(&case.source);
        let cxx = case.source.ends_with(".cc");
        let compiler = &setting.tool(cxx);
        if let Some(header) = &case.needs {
            self.has(compiler, header)?;
        }
        let program = self.dir.path().join(if twin.fixed { "fixed" } else { "buggy" });
        let object = self.dir.path().join("object.o");
        let mut flags: Vec<&str> = vec![setting.level, "-g", "-pthread"];
        flags.extend(case.flags.iter().map(String::as_str));
        flags.extend(twin.fixed.then_some("-DFIXED"));
        flags.extend(setting.whole.then_some("-static"));
        let tool = |instrumented| match instrumented && setting.how == How::Recorded {
            true => self.wrapper(cxx, compiler),
            false => self.command(compiler),
        };
        done(tool(case.instrumented).args(&flags).arg("-c").arg(&source).arg("-o").arg(&object))?;
        let mut link = tool(true);
        done(link.args(&flags).arg(&object).arg("-o").arg(&program).arg("-lrt"))?;
        Ok(program)
    }

    /// Whether the compiler finds a header and links what it stands for.
    fn has(&self, compiler: &str, header: &str) -> Result<(), String> {
        let probe = self.dir.path().join("probe.c");
        std::fs::write(&probe, format!("#include <{header}>\nint main(void) {{ return 0; }}\n")).unwrap();
        let out = self.dir.path().join("probe");
        done(self.command(compiler).arg("-fopenmp").arg(&probe).arg("-o").arg(out))
            .map_err(|_| format!("{compiler} has no {header}"))
    }

    fn wrapper(&self, cxx: bool, compiler: &str) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_tussle"));
        command.arg(if cxx { "c++" } else { "cc" });
        command.env(if cxx { "TUSSLE_CXX" } else { "TUSSLE_CC" }, compiler);
        command
    }

    /// Hunts the buggy twin in a folder of its own, with the suite's headers beside it; status and document.
    pub fn hunt(&self, case: &Case) -> Result<(i32, serde_json::Value), String> {
        let from = folder().join("programs");
        let project = tempfile::tempdir_in(self.dir.path()).map_err(|e| e.to_string())?;
        let headers = std::fs::read_dir(&from).map_err(|e| e.to_string())?.flatten().map(|e| e.file_name());
        let headers = headers.filter(|n| n.to_string_lossy().ends_with(".h"));
        for name in headers.chain([case.source.clone().into()]) {
            std::fs::copy(from.join(&name), project.path().join(&name)).map_err(|e| e.to_string())?;
        }
        let compiler = if case.source.ends_with(".cc") { "c++" } else { "cc" };
        let flags: String = case.flags.iter().map(|f| format!("'{f}' ")).collect();
        let build = format!("{compiler} -O1 -g -pthread {flags}{} -o program -lrt", case.source);
        let mut hunt = self.command(env!("CARGO_BIN_EXE_tussle"));
        hunt.arg("hunt").arg(project.path()).args(["--build", &build, "--run", "./program 4", "--no-bench"]);
        let out = run(hunt.args(["--format", "json"]))?;
        let said = serde_json::from_slice(&out.stdout).unwrap_or_default();
        Ok((out.status.code().unwrap_or(-1), said))
    }

    /// A command that runs where programs are built.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .env("XDG_CACHE_HOME", cache(self.dir.path()))
            .env("NO_COLOR", "1");
        command
    }
}

fn cache(dir: &Path) -> PathBuf {
    dir.join("cache")
}

fn run(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|e| format!("{}: {e}", command.get_program().to_string_lossy()))
}

fn done(command: &mut Command) -> Result<(), String> {
    let out = run(command)?;
    match out.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&out.stderr).into_owned()),
    }
}
