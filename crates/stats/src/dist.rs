//! Student's t distribution.

use crate::special::{beta_inc, invert};

/// P(T ≤ t) with `df` degrees of freedom (`df` > 0, not necessarily whole): 1 − I_{df/(df+t²)}(df/2, 1/2)/2.
pub fn t_cdf(t: f64, df: f64) -> f64 {
    let tail = 0.5 * beta_inc(df / 2.0, 0.5, df / (df + t * t));
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// Two-sided p-value of `t`.
pub fn t_two_sided(t: f64, df: f64) -> f64 {
    beta_inc(df / 2.0, 0.5, df / (df + t * t))
}

/// The t with P(T ≤ t) = p, for 0 < p < 1.
pub fn t_quantile(p: f64, df: f64) -> Option<f64> {
    if df.is_nan() || df <= 0.0 {
        return None;
    }
    invert(p, |t| t_cdf(t, df))
}
