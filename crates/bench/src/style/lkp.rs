//! The comparison table of the kernel test robot (0day, lkp).

use std::fmt::Write;

use tussle_stats::{mean, std_dev};

/// One metric measured several times under both commits.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// `will-it-scale.per_thread_ops`.
    pub name: String,
    /// Samples of the parent.
    pub old: Vec<f64>,
    /// Samples of the commit.
    pub new: Vec<f64>,
}

/// The table. Deviations below 2% are left out, as there. `None` when a metric has no finite values.
pub fn table(commits: [&str; 2], metrics: &[Metric]) -> Option<String> {
    let mut out = format!("{:>16} {:<27}\n{} {}\n", commits[0], commits[1], "-".repeat(16), "-".repeat(27));
    out.push_str(
        "         %stddev     %change         %stddev\n             \\          |                \\  \n",
    );
    for m in metrics {
        let (old, new) = (mean(&m.old)?, mean(&m.new)?);
        let change =
            if old == 0.0 { format!("{new:+.1} ") } else { format!("{:+.1}%", 100.0 * (new - old) / old) };
        let (old, new) = (value(&m.old)?, value(&m.new)?);
        let _ = writeln!(out, "{old:<16} {change:>10} {new:>16}  {}", m.name);
    }
    Some(out)
}

/// `    310805 ±  2%`: whole numbers (cut, not rounded) from 1,000 on, exponents from 10 million on.
fn value(xs: &[f64]) -> Option<String> {
    let m = mean(xs)?;
    let number = if m.abs() >= 1e8 {
        exponent(m)
    } else if m.abs() >= 1000.0 {
        format!("{}", m.trunc())
    } else {
        format!("{m:.2}")
    };
    let percent = std_dev(xs).filter(|_| m != 0.0).map_or(0.0, |sd| 100.0 * sd / m.abs());
    let deviation = if percent >= 2.0 { format!(" ±{percent:3.0}%") } else { String::from("      ") };
    Some(format!("{number:>10}{deviation}"))
}

/// `3.105e+09`.
fn exponent(x: f64) -> String {
    let power = x.abs().log10().floor() as i32;
    let digits = format!("{:.3}", x / 10f64.powi(power));
    format!("{}e{power:+03}", digits.trim_end_matches('0').trim_end_matches('.'))
}
