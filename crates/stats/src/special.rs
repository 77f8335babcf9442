//! Special functions: log gamma, regularised incomplete beta and gamma, the normal distribution.

/// Lanczos coefficients for g = 7, n = 9 (P. Godfrey, "A note on the computation of the convergent Lanczos complex
/// Gamma approximation", 2001).
const LANCZOS: [f64; 9] = [
    0.999_999_999_999_809_9,
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

const TINY: f64 = 1e-300;
const MAX_STEPS: usize = 500;

/// ln Γ(x) for x > 0.
pub fn ln_gamma(x: f64) -> f64 {
    let x = x - 1.0;
    let t = x + 7.5;
    let sum = LANCZOS[1..].iter().enumerate().fold(LANCZOS[0], |a, (i, c)| a + c / (x + i as f64 + 1.0));
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Regularised incomplete beta I_x(a, b), by Lentz's continued fraction (Abramowitz and Stegun 26.5.8).
pub fn beta_inc(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    for m in 1..MAX_STEPS {
        let m = m as f64;
        for numerator in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            d = 1.0 / away_from_zero(1.0 + numerator * d);
            c = away_from_zero(1.0 + numerator / c);
            h *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-16 {
            break;
        }
    }
    h
}

/// Upper regularised incomplete gamma Q(a, x), by series or continued fraction (Abramowitz and Stegun 6.5.29, 6.5.31).
pub fn gamma_q(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..MAX_STEPS {
            term *= x / (a + n as f64);
            sum += term;
            if term < sum * 1e-17 {
                break;
            }
        }
        return 1.0 - front * sum;
    }
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut h = d;
    for n in 1..MAX_STEPS {
        let n = n as f64;
        let an = -n * (n - a);
        b += 2.0;
        d = 1.0 / (an * d + b);
        c = b + an / c;
        h *= c * d;
        if (c * d - 1.0).abs() < 1e-16 {
            break;
        }
    }
    front * h
}

/// P(Z > z) for a standard normal Z.
pub fn normal_sf(z: f64) -> f64 {
    let tail = 0.5 * gamma_q(0.5, z * z / 2.0);
    if z >= 0.0 { tail } else { 1.0 - tail }
}

/// P(Z ≤ z) for a standard normal Z.
pub fn normal_cdf(z: f64) -> f64 {
    normal_sf(-z)
}

/// The z with P(Z ≤ z) = p, for 0 < p < 1.
pub fn normal_quantile(p: f64) -> Option<f64> {
    invert(p, normal_cdf)
}

/// The x at which a distribution symmetric around 0 has cdf(x) = p: bracketing, then bisection down to rounding.
pub(crate) fn invert(p: f64, cdf: impl Fn(f64) -> f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0) {
        return None;
    }
    // The upper half has less precision in 1 − p than the lower half in p: solve in the lower half.
    if p > 0.5 {
        return invert_lower(1.0 - p, &cdf).map(|x| -x);
    }
    invert_lower(p, &cdf)
}

fn invert_lower(p: f64, cdf: &impl Fn(f64) -> f64) -> Option<f64> {
    let (mut low, mut high) = (-1.0, 0.0);
    while cdf(low) > p {
        high = low;
        low *= 2.0;
        if low < -1e300 {
            return None;
        }
    }
    for _ in 0..200 {
        let mid = 0.5 * (low + high);
        if mid <= low || mid >= high {
            break;
        }
        if cdf(mid) > p {
            high = mid;
        } else {
            low = mid;
        }
    }
    Some(0.5 * (low + high))
}
