//! How far E may be off where only stretches of the run were counted (`stretches`), each at a random place in a part of
//! the run of its own.
//!
//! Counts are scaled already, so that E is the sum of what the stretches contribute, `E = Σ E_b`. Neighbouring parts of
//! a run are more alike than distant ones: the variance within parts is estimated by successive differences (Wolter,
//! Introduction to Variance Estimation, 2nd ed., 8.2, estimator v2),
//!
//! ```text
//! var E ≈ (1 − 1/N) · B / (2 (B − 1)) · Σ (E_b − E_{b+1})²        B stretches, one part in N counted
//! ```

use crate::analysis::{Bases, Question};
use crate::lines;
use crate::window::{self, Piece};
use tussle_evidence::{Evidence, Object};

/// Fewer stretches say nothing of how they differ; nor do many of which fewer have it all.
const STRETCHES_MIN: usize = 6;

/// E of a sampled run and the half width of its 95% interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledE {
    /// Stretches that were counted.
    pub stretches: usize,
    /// Sum over all lines.
    pub e: f64,
    /// Half width of its interval; `None` of too few stretches, or where few of them have it all.
    pub error: Option<f64>,
    /// E of the line with the highest one.
    pub worst_e: f64,
    /// As `error`.
    pub worst_error: Option<f64>,
}

/// E of all lines and of the worst one, as observed; `None` unless the run was sampled, or where several processes have
/// stretches of their own.
pub fn sampled(e: &Evidence) -> Option<SampledE> {
    let every = f64::from(e.run.sample_every?.max(1));
    let rows = e.stretches.as_deref().unwrap_or(&[]);
    if rows.iter().any(|s| s.process != rows[0].process) {
        return None;
    }
    let mut starts: Vec<(u64, u64)> = rows.iter().map(|s| (s.vt0, s.vt1.unwrap_or(s.vt0 + 1))).collect();
    starts.sort_unstable();
    let question = Question::observed();
    let base = |_: u32, o: &Object| match question.bases {
        Bases::Observed => Some(o.base),
        Bases::Phase(_) => None,
    };
    let mut all = vec![0.0; starts.len()];
    let mut worst: (f64, Vec<f64>) = (0.0, vec![0.0; starts.len()]);
    let of_line = |l: lines::LinePieces| Some(by_stretch(&l.pieces, &starts, e.run.window_vt.max(1)));
    for parts in lines::map_fights(e, e.accesses.iter(), (question.line, 0.0), &base, &of_line).found {
        all.iter_mut().zip(&parts).for_each(|(sum, e)| *sum += e);
        let e = parts.iter().sum();
        if e > worst.0 {
            worst = (e, parts);
        }
    }
    Some(SampledE {
        stretches: starts.len(),
        e: all.iter().sum(),
        error: half_width(&all, every),
        worst_e: worst.0,
        worst_error: half_width(&worst.1, every),
    })
}

/// E of each stretch. Alike runs of several stretches may be one piece: each has what its share of the time stands for.
fn by_stretch(pieces: &[Piece], stretches: &[(u64, u64)], window_vt: u64) -> Vec<f64> {
    let mut of: Vec<Vec<Piece>> = vec![Vec::new(); stretches.len()];
    for p in pieces {
        let end = p.vt1.max(p.vt0 + 1);
        let first = stretches.partition_point(|s| s.1 <= p.vt0).min(stretches.len().saturating_sub(1));
        let after = stretches.partition_point(|s| s.0 < end).max(first + 1);
        let part = |k: usize| stretches.get(k).map_or((0, 0), |s| (s.0.max(p.vt0), s.1.min(end)));
        let length = |k: usize| part(k).1.saturating_sub(part(k).0) as f64;
        let all: f64 = (first..after).map(length).sum();
        for k in first..after {
            let share = if all > 0.0 { length(k) / all } else { 1.0 / (after - first) as f64 };
            let (vt0, vt1) = if all > 0.0 { part(k) } else { (p.vt0, end) };
            if let Some(to) = of.get_mut(k).filter(|_| share > 0.0) {
                let (reads, writes, rmws) = (p.reads * share, p.writes * share, p.rmws * share);
                to.push(Piece { vt0, vt1, reads, writes, rmws, ..*p });
            }
        }
    }
    of.iter().map(|p| if p.is_empty() { 0.0 } else { window::quick_e(p, window_vt) }).collect()
}

/// Half width of the 95% interval of a sum over stretches.
fn half_width(parts: &[f64], every: f64) -> Option<f64> {
    let b = parts.len();
    let sum: f64 = parts.iter().sum();
    if b < STRETCHES_MIN || (sum > 0.0 && effective(parts) < STRETCHES_MIN as f64) {
        return None;
    }
    let differences: f64 = parts.windows(2).map(|w| (w[0] - w[1]).powi(2)).sum();
    let variance = (1.0 - 1.0 / every) * b as f64 / (2.0 * (b - 1) as f64) * differences;
    // Student's t, 97.5%, within 1% from five degrees of freedom on.
    let freedom = (b - 1) as f64;
    // The run begins and ends within parts.
    let edge = sum / b as f64;
    Some((1.96 + 2.37 / freedom + 2.8 / (freedom * freedom)) * variance.sqrt() + edge)
}

/// Of how many equal stretches the sum could be (Kish, Survey Sampling, 1965, 11.7: the effective size of a sample). A
/// burst that fell into one of a hundred stretches may as well have fallen between them.
fn effective(parts: &[f64]) -> f64 {
    let squares: f64 = parts.iter().map(|e| e * e).sum();
    parts.iter().sum::<f64>().powi(2) / squares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_few_stretches_saw_has_no_interval() {
        let saw = |n: usize| {
            (0..100).map(|i| if i % 20 == 7 && i / 20 < n { 900.0 } else { 0.0 }).collect::<Vec<_>>()
        };
        assert_eq!((1..=5).filter(|&n| half_width(&saw(n), 10.0).is_some()).count(), 0);
        // One burst beside a little everywhere.
        let mut burst = vec![1.0; 100];
        burst[40] = 900.0;
        assert_eq!(half_width(&burst, 10.0), None);
        let phases: Vec<f64> = (0..100).map(|i| if i / 10 % 2 == 0 { 900.0 } else { 0.0 }).collect();
        assert!(half_width(&phases, 10.0).is_some_and(|w| w < 45_000.0));
        assert_eq!(half_width(&[0.0; 20], 10.0), Some(0.0));
    }

    #[test]
    fn stretches_that_are_alike_leave_no_doubt_and_few_leave_all() {
        assert_eq!(half_width(&[5.0; 5], 10.0), None);
        // But for one stretch: the run may end within its part.
        assert_eq!(half_width(&[5.0; 20], 10.0), Some(5.0));
        // A trend over the run is no doubt about its parts.
        let trend: Vec<f64> = (0..40).map(f64::from).collect();
        let mixed: Vec<f64> = (0..40).map(|i| f64::from((i * 17) % 40)).collect();
        assert!(half_width(&trend, 10.0).unwrap() * 3.0 < half_width(&mixed, 10.0).unwrap());
    }

    /// Of 400 runs how many intervals held the truth, where one part in ten was drawn from every ten in a row; phases
    /// of the run differ by `step`.
    fn held(step: i32) -> usize {
        let mut state = 1u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut one = || {
            let run: Vec<f64> = (0..300).map(|i| f64::from(i / 30 % 3 * step) + random(100) as f64).collect();
            let truth: f64 = run.iter().sum();
            let drawn: Vec<f64> = run.chunks(10).map(|part| 10.0 * part[random(10) as usize]).collect();
            (drawn.iter().sum::<f64>() - truth).abs() <= half_width(&drawn, 10.0).unwrap()
        };
        (0..400).filter(|_| one()).count()
    }

    /// 95 of 100 intervals hold the truth, about, and more where the run has phases: every phase is drawn from.
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let (even, phases) = (held(0), held(40));
        assert!((372..400).contains(&even) && phases >= even, "{even} and {phases} of 400");
    }
}
