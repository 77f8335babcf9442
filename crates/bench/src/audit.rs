//! Audit of pasted tables: do the percentages follow from the numbers, and which rule explains the stars?

use tussle_stats::welch;

use crate::read::{ChangeKind, Direction, Document, Format, Printed, Row};

/// Largest number of samples a side for which star rules are tried.
pub const SAMPLES_MAX: usize = 200;

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Audit {
    /// Rows whose change was recomputed.
    pub checked: usize,
    /// Rows whose printed change does not follow from the printed numbers: index and why.
    pub wrong: Vec<(usize, String)>,
    /// Coefficients of variation recomputed, and those that do not follow.
    pub deviations: (usize, Vec<String>),
    /// Star rules that were tried, with the numbers of samples for which each explains every star.
    pub star_rules: Vec<StarRule>,
    /// Remarks.
    pub notes: Vec<String>,
}

impl Audit {
    /// Whether something in the text contradicts itself.
    pub fn accuses(&self) -> bool {
        !self.wrong.is_empty() || !self.deviations.1.is_empty()
    }
}

/// A rule that stars rows.
#[derive(Clone, Debug, PartialEq)]
pub struct StarRule {
    /// In words.
    pub rule: &'static str,
    /// Numbers of samples a side (first, last) for which every star and every missing star follows.
    pub samples: Vec<(usize, usize)>,
}

/// Recomputes everything that can be.
pub fn audit(document: &Document) -> Audit {
    let mut out = Audit::default();
    for (i, row) in document.rows.iter().enumerate() {
        match follows(row) {
            None => {}
            Some((_, None)) => out.checked += 1,
            Some((_, Some(why))) => {
                out.checked += 1;
                out.wrong.push((i, why));
            }
        }
    }
    out.deviations = coefficients(&document.rows);
    stars(&document.rows, &mut out);
    robot_notes(document, &mut out);
    out
}

/// The recomputed change, and why the printed one does not follow. `None` where there is nothing to recompute.
pub fn follows(row: &Row) -> Option<(f64, Option<String>)> {
    let printed = row.change?;
    let ranges = |p: &Printed| if row.format == Format::Lkp { p.range_cut() } else { p.range() };
    let (old, new) = (ranges(&row.old), ranges(&row.new));
    let (low, high, exact) = match row.change_kind {
        ChangeKind::PValue => return None,
        ChangeKind::Difference => (new.0 - old.1, new.1 - old.0, row.new.value - row.old.value),
        ChangeKind::Percent | ChangeKind::PercentBetter => {
            if old.0 <= 0.0 && old.1 >= 0.0 {
                return None;
            }
            let change = |n: f64, o: f64| 100.0 * (n - o) / o;
            let corners =
                [(new.0, old.0), (new.0, old.1), (new.1, old.0), (new.1, old.1)].map(|(n, o)| change(n, o));
            let low = corners.iter().copied().fold(f64::INFINITY, f64::min);
            let high = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            (low, high, change(row.new.value, row.old.value))
        }
    };
    let (seen_low, seen_high) = printed.range();
    // Two numbers that were rounded in binary may stick out by a hair.
    let hair = 1e-9 * exact.abs().max(1.0);
    let meets = |low: f64, high: f64| seen_low <= high + hair && low - hair <= seen_high;
    let flipped = row.change_kind == ChangeKind::PercentBetter
        && (row.direction == Direction::Lower
            || (row.direction == Direction::Unknown && exact * printed.value < 0.0));
    let (low, high, exact) = if flipped { (-high, -low, -exact) } else { (low, high, exact) };
    if meets(low, high) {
        return Some((exact, None));
    }
    let why = format!("printed {}, but {} → {} is {exact:+.2}", printed.value, row.old.value, row.new.value);
    Some((exact, Some(why)))
}

/// `CoeffVar` against 100·`Stddev`/mean. The arithmetic mean is not printed below a harmonic one; it is larger by
/// about the
/// square of the coefficient, and the tolerance allows for that.
fn coefficients(rows: &[Row]) -> (usize, Vec<String>) {
    let of = |statistics: &[&str], like: &Row| {
        rows.iter().find(|r| {
            r.name == like.name
                && r.column == like.column
                && r.statistic.as_deref().is_some_and(|s| statistics.contains(&s))
        })
    };
    let (mut checked, mut wrong) = (0, Vec::new());
    for row in rows.iter().filter(|r| matches!(r.statistic.as_deref(), Some("CoeffVar" | "HCoeffVar"))) {
        let (Some(mean), Some(sd)) = (of(&["Hmean", "Amean"], row), of(&["Stddev", "HStddev"], row)) else {
            continue;
        };
        for (which, cv, sd, mean) in [("old", row.old, sd.old, mean.old), ("new", row.new, sd.new, mean.new)]
        {
            checked += 1;
            let exact = 100.0 * sd.value / mean.value;
            let share = exact / 100.0;
            let allowed = 0.5 * cv.unit + exact * (2.0 * share * share) + 100.0 * sd.unit / mean.value;
            if (cv.value - exact).abs() > allowed * 1.000_001 {
                let name = &row.name;
                wrong.push(format!(
                    "{name}, {which}: CoeffVar {} but 100·{}/{} is {exact:.4}",
                    cv.value, sd.value, mean.value
                ));
            }
        }
    }
    (checked, wrong)
}

/// One starred or unstarred mean with its deviations.
struct Judged {
    old: (f64, f64),
    new: (f64, f64),
    starred: bool,
}

fn stars(rows: &[Row], out: &mut Audit) {
    let starrable: Vec<&Row> =
        rows.iter().filter(|r| r.format == Format::Mmtests && r.starred.is_some()).collect();
    let starred = starrable.iter().filter(|r| r.starred == Some(true)).count();
    if starred == 0 {
        return;
    }
    out.notes.push(format!("{starred} of {} means are starred", starrable.len()));
    if starred == starrable.len() && starred >= 3 {
        let least =
            starrable.iter().filter_map(|r| Some(r.change?.value.abs())).fold(f64::INFINITY, f64::min);
        let text = format!(
            "every row starred, down to {least:.2}%: looks like mmtests without R, \
         where every row is; the stars say nothing"
        );
        out.notes.push(text);
    }
    let judged: Vec<Judged> = starrable.iter().filter_map(|r| judged(rows, r)).collect();
    if judged.len() < 2 {
        out.notes.push("no deviations printed: the stars cannot be checked".into());
        return;
    }
    surprise(&starrable, out);
    out.star_rules = rules(&judged);
}

fn judged(rows: &[Row], mean: &Row) -> Option<Judged> {
    let sd = rows.iter().find(|r| {
        r.name == mean.name
            && r.column == mean.column
            && matches!(r.statistic.as_deref(), Some("Stddev" | "HStddev"))
    })?;
    let side = |m: &Printed, s: &Printed| (m.value, s.value);
    Some(Judged { old: side(&mean.old, &sd.old), new: side(&mean.new, &sd.new), starred: mean.starred? })
}

/// A larger change without a star beside a smaller one with: what readers stumble over.
fn surprise(rows: &[&Row], out: &mut Audit) {
    let size = |r: &Row| r.change.map(|c| c.value.abs());
    let unstarred = rows.iter().filter(|r| r.starred == Some(false)).max_by(|a, b| by(size(a), size(b)));
    let starred = rows.iter().filter(|r| r.starred == Some(true)).min_by(|a, b| by(size(a), size(b)));
    if let (Some(no), Some(yes)) = (unstarred, starred)
        && size(no) > size(yes)
    {
        let percent = |r: &Row| r.change.map_or(f64::NAN, |c| c.value);
        out.notes.push(format!(
            "{} {:+.2}% is not starred but {} {:+.2}% is: a star weighs the change against its deviation",
            no.name,
            percent(no),
            yes.name,
            percent(yes)
        ));
    }
}

fn by(a: Option<f64>, b: Option<f64>) -> std::cmp::Ordering {
    a.unwrap_or(0.0).total_cmp(&b.unwrap_or(0.0))
}

/// A rule: whether a row is starred with this many samples a side.
type Rule = (&'static str, fn(&Judged, usize) -> bool);

fn test(j: &Judged, n: usize, pooled: bool, alpha: f64) -> bool {
    welch::from_summaries((j.old.0, j.old.1, n), (j.new.0, j.new.1, n), pooled).is_some_and(|t| t.p < alpha)
}

const RULES: [Rule; 5] = [
    ("pooled t test, p < 0.10 (mmtests until November 2024)", |j, n| test(j, n, true, 0.10)),
    ("Welch's t test, p < 0.10", |j, n| test(j, n, false, 0.10)),
    ("pooled t test, p < 0.05", |j, n| test(j, n, true, 0.05)),
    ("Welch's t test, p < 0.05", |j, n| test(j, n, false, 0.05)),
    ("change above 1.96 times the sum of both deviations (mmtests' middle period)", |j, _| {
        (j.new.0 - j.old.0).abs() > 1.96 * (j.old.1 + j.new.1)
    }),
];

fn rules(judged: &[Judged]) -> Vec<StarRule> {
    let fits = |rule: &Rule, n: usize| judged.iter().all(|j| rule.1(j, n) == j.starred);
    let ranges = |rule: &Rule| {
        let mut out: Vec<(usize, usize)> = Vec::new();
        for n in (2..=SAMPLES_MAX).filter(|&n| fits(rule, n)) {
            match out.last_mut() {
                Some(last) if last.1 + 1 == n => last.1 = n,
                _ => out.push((n, n)),
            }
        }
        out
    };
    RULES.iter().map(|rule| StarRule { rule: rule.0, samples: ranges(rule) }).collect()
}

fn robot_notes(document: &Document, out: &mut Audit) {
    let robot: Vec<&Row> = document.rows.iter().filter(|r| r.format == Format::Lkp).collect();
    if robot.is_empty() {
        return;
    }
    let silent =
        robot.iter().filter(|r| r.old_deviation_percent.is_none() || r.new_deviation_percent.is_none());
    let silent = silent.count();
    if silent > 0 {
        let rows = robot.len();
        out.notes.push(format!(
            "{silent} of {rows} rows print no deviation on a side: it was 2% or less there, not zero"
        ));
    }
    out.notes.push(
        "the robot makes no significance test; a change below about twice the larger deviation is noise"
            .into(),
    );
    for series in document.series.iter().filter(|s| s.format == Format::StatsJson) {
        let Some(mean) = tussle_stats::mean(&series.values) else { continue };
        let inside = |p: &Printed| {
            let (low, high) = p.range_cut();
            low <= mean && mean <= high
        };
        if let Some(row) = robot.iter().find(|r| r.name == series.name && (inside(&r.old) || inside(&r.new)))
        {
            let (n, name) = (series.values.len(), &row.name);
            out.notes.push(format!("{name}: the mean of the {n} raw samples is {mean}, as printed"));
        }
    }
}

/// Relative noise of a row: the larger deviation of both sides; 2% where the robot prints none. `None` where a format
/// prints none and promises nothing.
pub fn noise_percent(row: &Row) -> Option<f64> {
    let side = |d: Option<f64>| d.or_else(|| (row.format == Format::Lkp).then_some(2.0));
    Some(side(row.old_deviation_percent)?.max(side(row.new_deviation_percent)?))
}
