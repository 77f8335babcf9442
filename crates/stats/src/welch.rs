//! Two-sample t tests.

use crate::dist::t_two_sided;
use crate::summary::{mean, variance};

/// The result of a t test of "mean of b = mean of a".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TTest {
    /// The statistic; positive when b is larger.
    pub t: f64,
    /// Degrees of freedom.
    pub df: f64,
    /// Two-sided p-value.
    pub p: f64,
}

/// Welch's test with Satterthwaite's degrees of freedom (B. L. Welch, Biometrika 34, 1947; R's `t.test`).
pub fn welch(a: &[f64], b: &[f64]) -> Option<TTest> {
    let (va, vb) = (variance(a)? / a.len() as f64, variance(b)? / b.len() as f64);
    let df = (va + vb).powi(2) / (va * va / (a.len() - 1) as f64 + vb * vb / (b.len() - 1) as f64);
    finish(mean(b)? - mean(a)?, va + vb, df)
}

/// Student's test with a common variance (R's `t.test(var.equal = TRUE)`).
pub fn pooled(a: &[f64], b: &[f64]) -> Option<TTest> {
    let (na, nb) = (a.len() as f64, b.len() as f64);
    let df = na + nb - 2.0;
    let common = (variance(a)? * (na - 1.0) + variance(b)? * (nb - 1.0)) / df;
    finish(mean(b)? - mean(a)?, common * (1.0 / na + 1.0 / nb), df)
}

/// Both tests from printed summaries (mean, standard deviation, n of each side): what a pasted table allows.
pub fn from_summaries(a: (f64, f64, usize), b: (f64, f64, usize), equal_variance: bool) -> Option<TTest> {
    if a.2 < 2 || b.2 < 2 {
        return None;
    }
    let (na, nb) = (a.2 as f64, b.2 as f64);
    let (va, vb) = (a.1 * a.1, b.1 * b.1);
    if equal_variance {
        let df = na + nb - 2.0;
        let common = (va * (na - 1.0) + vb * (nb - 1.0)) / df;
        return finish(b.0 - a.0, common * (1.0 / na + 1.0 / nb), df);
    }
    let (ea, eb) = (va / na, vb / nb);
    finish(b.0 - a.0, ea + eb, (ea + eb).powi(2) / (ea * ea / (na - 1.0) + eb * eb / (nb - 1.0)))
}

fn finish(difference: f64, variance_of_it: f64, df: f64) -> Option<TTest> {
    let t = difference / variance_of_it.sqrt();
    t.is_finite().then(|| TTest { t, df, p: t_two_sided(t, df) })
}
