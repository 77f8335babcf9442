//! Regressions of a field between two builds: intervals over hosts.

use crate::args::Args;
use crate::dataset::Dataset;
use crate::query::{Rows, ask, known_builds, parameters, table};
use anyhow::bail;
use serde_json::{Value, json};
use tussle_render::{Cell, Fact, View};

/// Together, all intervals of one answer miss as rarely as one of them alone would.
const CONFIDENCE: f64 = 0.95;

/// The view, and 1 where something got worse, 2 where nothing could be compared.
///
/// # Errors
/// Fewer than two builds, or an engine that fails.
pub(crate) fn view(args: &Args, dataset: &Dataset) -> anyhow::Result<(View, u8)> {
    let mut asked = parameters(args)?;
    let (old, new) = builds(args, dataset, &asked)?;
    (asked["old"], asked["new"]) = (json!(old), json!(new));
    let rows = ask(args, dataset, "regressions", asked.clone())?;
    let compared = rows.rows.len();
    if compared == 0 {
        known_builds(args, dataset, &[Some(old.clone()), Some(new.clone())], false)?;
    }
    let all = intervals(rows);
    let worse = worse(all, asked["limit"].as_u64().unwrap_or(u64::MAX));
    let fact = |key: &str, label: &str, cell: Cell| Fact { key: key.into(), label: label.into(), cell };
    let facts = vec![
        fact("old", "older build", Cell::text(old)),
        fact("new", "newer build", Cell::text(new)),
        fact("fields_compared", "fields compared", Cell::count(compared as u64)),
        fact(
            "confidence",
            "interval",
            Cell::number(CONFIDENCE, "95% for all fields together (Bonferroni), Student's t"),
        ),
    ];
    // No field was on three hosts in both: not the same as none being worse.
    let status = if compared == 0 { 2 } else { u8::from(!worse.rows.is_empty()) };
    Ok((
        table(
            "fields that fight more than in the older build; hosts are the samples",
            dataset,
            &worse,
            facts,
        ),
        status,
    ))
}

/// Those asked for, else the two newest.
fn builds(args: &Args, dataset: &Dataset, asked: &Value) -> anyhow::Result<(String, String)> {
    match (args.text("old"), args.text("new")) {
        (Some(old), Some(new)) => return Ok((old, new)),
        (None, None) => {}
        _ => bail!("--old and --new go together"),
    }
    let mut two = asked.clone();
    two["limit"] = json!(2);
    let rows = ask(args, dataset, "builds", two)?;
    let dated = |row: usize| rows.cell(row, "first_s").is_number();
    let name = |row: usize| rows.cell(row, "build").as_str().filter(|_| dated(row)).map(str::to_string);
    match (name(1), name(0)) {
        (Some(old), Some(new)) => Ok((old, new)),
        _ => bail!("fewer than two builds with a time in this dataset: name them with --old and --new"),
    }
}

/// The rows with `low` and `high`: the ratio of the newer to the older build.
fn intervals(rows: Rows) -> Rows {
    let fields = rows.rows.len().max(1) as f64;
    let tail = (1.0 - CONFIDENCE) / 2.0 / fields;
    let mut out = Rows { columns: rows.columns.clone(), files: rows.files.clone(), ..Rows::default() };
    out.columns.retain(|c| c != "mean_log" && c != "sd_log");
    out.columns.extend(["ratio", "low", "high"].map(String::from));
    for row in 0..rows.rows.len() {
        let number = |column: &str| rows.cell(row, column).as_f64();
        let found = number("hosts").zip(number("mean_log")).zip(number("sd_log"));
        let interval = found.and_then(|((n, mean), sd)| {
            let half = tussle_stats::dist::t_quantile(1.0 - tail, n - 1.0)? * sd / n.sqrt();
            Some([mean, mean - half, mean + half].map(|log| digits(log.exp())))
        });
        let kept =
            rows.columns.iter().zip(&rows.rows[row]).filter(|(c, _)| *c != "mean_log" && *c != "sd_log");
        let mut cells: Vec<Value> = kept.map(|(_, v)| v.clone()).collect();
        cells.extend(interval.map_or(vec![Value::Null; 3], |i| i.map(|x| json!(x)).to_vec()));
        out.rows.push(cells);
    }
    out
}

/// As many digits as both engines agree on.
fn digits(x: f64) -> f64 {
    format!("{x:.10e}").parse().unwrap_or(x)
}

/// Rows whose whole interval is above 1, the surest first.
fn worse(rows: Rows, limit: u64) -> Rows {
    let low = |row: usize| rows.cell(row, "low").as_f64().filter(|l| *l > 1.0);
    let mut kept: Vec<(f64, usize)> = (0..rows.rows.len()).filter_map(|r| Some((low(r)?, r))).collect();
    kept.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    kept.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let found = kept.into_iter().map(|(_, r)| rows.rows[r].clone()).collect();
    Rows { rows: found, ..rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(cells: &[(u32, f64, f64)]) -> Rows {
        let columns = ["fields", "hosts", "mean_log", "sd_log"].map(String::from).to_vec();
        let row = |(i, c): (usize, &(u32, f64, f64))| {
            vec![json!(format!("f{i}")), json!(c.0), json!(c.1), json!(c.2)]
        };
        Rows { columns, rows: cells.iter().enumerate().map(row).collect(), ..Rows::default() }
    }

    #[test]
    fn a_field_is_worse_when_its_whole_interval_is() {
        // t(0.975, 3) = 3.1824 for one field: 0.2 +- 3.1824 * 0.1 / 2.
        let one = intervals(rows(&[(4, 0.2, 0.1)]));
        let low = one.cell(0, "low").as_f64().unwrap();
        assert!((low.ln() - (0.2 - 3.1824 * 0.05)).abs() < 1e-4, "{low}");
        assert_eq!(worse(one, 9).rows.len(), 1);
        // With two fields the same row is no longer sure.
        let two = worse(intervals(rows(&[(4, 0.2, 0.1), (4, 0.0, 0.1)])), 9);
        assert!(two.rows.is_empty(), "{two:?}");
    }

    /// The logarithm of 2 in twelve digits is 2 again, and no interval beside it.
    #[test]
    fn what_is_the_same_on_all_hosts_is_exact() {
        let one = intervals(rows(&[(3, 0.69314718056, 0.0)]));
        let all = ["ratio", "low", "high"].map(|c| one.cell(0, c).as_f64());
        assert_eq!(all, [Some(2.0); 3]);
    }

    #[test]
    fn without_a_spread_there_is_no_interval() {
        let mut all = rows(&[(3, 5.0, 0.0)]);
        all.rows[0][3] = Value::Null;
        assert!(worse(intervals(all), 9).rows.is_empty());
    }
}
