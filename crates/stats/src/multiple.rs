//! Corrections for asking many questions at once.

/// Holm's step-down adjusted p-values (S. Holm, 1979), in the order given: family-wise error.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; p.len()];
    let mut highest = 0.0f64;
    for (rank, &i) in ascending(p).iter().enumerate() {
        highest = highest.max((p[i] * (p.len() - rank) as f64).min(1.0));
        out[i] = highest;
    }
    out
}

/// Benjamini and Hochberg's adjusted p-values (1995), in the order given: false discovery rate.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; p.len()];
    let mut lowest = 1.0f64;
    for (rank, &i) in ascending(p).iter().enumerate().rev() {
        lowest = lowest.min(p[i] * p.len() as f64 / (rank + 1) as f64);
        out[i] = lowest;
    }
    out
}

fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&i, &j| p[i].total_cmp(&p[j]));
    order
}
