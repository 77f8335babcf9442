//! The recorder inside of a program against the one in the emulator, on the same sources: findings, E, cost.

use super::judge::{First, Outcome};
use super::manifest::{Case, Manifest, Twin};
use super::run::{How, Setting, Workshop};
use tussle_testkit::skip;

/// E may differ by so much from what one of two recordings says: threads share some programs' work otherwise each time.
const E_RATIO_MAX: f64 = 1.2;
/// Share of programs for which that must hold, of those whose two recordings are as alike: others have no E to compare
/// with.
const ALIKE_MIN: f64 = 0.9;

struct Row {
    name: String,
    recorded: [Option<First>; 2],
    emulated: Option<First>,
    cpu_s: [f64; 2],
}

impl Row {
    /// Both recordings say as much E.
    fn is_steady(&self) -> bool {
        match self.recorded.each_ref().map(|f| f.as_ref().map(|f| f.e.max(1.0))) {
            [Some(a), Some(b)] => a.max(b) <= E_RATIO_MAX * a.min(b),
            [a, b] => a.is_none() && b.is_none(),
        }
    }

    /// The same kind of finding with as much E.
    fn is_alike(&self) -> bool {
        let found: Vec<f64> = self.recorded.iter().flatten().map(|f| f.e.max(1.0)).collect();
        let (low, high) = (found.iter().copied().reduce(f64::min), found.iter().copied().reduce(f64::max));
        match (&self.emulated, low, high) {
            (Some(f), Some(low), Some(high)) => (low / E_RATIO_MAX..=high * E_RATIO_MAX).contains(&f.e),
            (f, _, _) => f.is_none() && found.len() < 2,
        }
    }

    fn words(&self) -> String {
        let of =
            |f: &Option<First>| f.as_ref().map_or("nothing".into(), |f| format!("{:.0} {}", f.e, f.fields));
        let [a, b] = self.recorded.each_ref().map(of);
        let [recorded, emulated] = self.cpu_s;
        format!("{}: {a} | {b} | {} | {recorded:.2} s, {emulated:.2} s", self.name, of(&self.emulated))
    }
}

/// Every program that a layout helps: recorded, recorded again, emulated.
pub fn all() {
    let emulated = Setting { level: "-O2", how: How::Emulated, ..Setting::usual() };
    let recorded = Setting { how: How::Recorded, ..emulated };
    let (workshop, manifest) = (Workshop::new(), Manifest::read());
    let twin = Twin { fixed: false, class: "layout".into() };
    let mut rows = Vec::new();
    for case in manifest.chosen().filter(|c| c.instrumented && c.buggy == "layout") {
        let name = format!("{} {}", case.source, case.flags.join(" "));
        match [recorded, recorded, emulated].map(|s| timed(&workshop, case, &twin, &s)) {
            [Ok(a), Ok(b), Ok(c)] => {
                let cpu_s = [(a.1 + b.1) / 2.0, c.1];
                rows.push(Row { name, recorded: [a.0.first, b.0.first], emulated: c.0.first, cpu_s });
            }
            [Err(why), ..] | [_, Err(why), _] | [_, _, Err(why)] => skip(&format!("{name}: {why}")),
        }
    }
    for r in &rows {
        let alike = if r.is_alike() { "alike" } else { "OTHER" };
        println!("{alike} {}{}", r.words(), if r.is_steady() { "" } else { " (the recordings differ)" });
    }
    let alike = rows.iter().filter(|r| r.is_alike()).count();
    let steady: Vec<&Row> = rows.iter().filter(|r| r.is_steady()).collect();
    let of_steady = steady.iter().filter(|r| r.is_alike()).count();
    let mut ratios: Vec<f64> = rows.iter().map(|r| r.cpu_s[1] / r.cpu_s[0].max(0.01)).collect();
    ratios.sort_by(f64::total_cmp);
    let median = ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN);
    println!(
        "{alike} of {} alike, {of_steady} of the {} whose recordings are; CPU emulated / recorded, build and report \
         included: median {median:.1}",
        rows.len(),
        steady.len()
    );
    assert!(!steady.is_empty() && of_steady as f64 >= ALIKE_MIN * steady.len() as f64);
}

/// What is said of it, and the CPU time of all that was run for it, s.
fn timed(workshop: &Workshop, case: &Case, twin: &Twin, setting: &Setting) -> Result<(Outcome, f64), String> {
    let before = children_cpu_s();
    let outcome = workshop.judge(case, twin, setting)?;
    Ok((outcome, children_cpu_s() - before))
}

/// User and system time of children that have ended.
fn children_cpu_s() -> f64 {
    const TICKS_PER_S: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = after.split_whitespace().skip(13).take(2).filter_map(|n| n.parse::<f64>().ok()).sum();
    ticks / TICKS_PER_S
}
