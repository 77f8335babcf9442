//! What the statistics cost: `cargo bench -p tussle-stats`.
//!
//! What runs after every pair of a benchmark (`excludes`, `confidence_sequence`) must stay far below the cost of a run.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tussle_stats::change::{Search, e_divisive};
use tussle_stats::{Rng, bootstrap, eprocess, paired_t, permutation, rank};

fn noise(n: usize) -> Vec<f64> {
    let mut rng = Rng::new(1);
    (0..n).map(|_| 0.005 + 0.02 * rng.normal()).collect()
}

fn costs(c: &mut Criterion) {
    let (d20, d200, d400) = (noise(20), noise(200), noise(400));
    let values = |xs: &[f64]| xs.iter().map(|x| x.exp()).collect::<Vec<f64>>();
    let (a, b) = (values(&d200[..12]), values(&d200[12..24]));
    c.bench_function("paired_t/20", |x| x.iter(|| paired_t(black_box(&d20), 0.95)));
    c.bench_function("sign_flip/20 exact", |x| {
        x.iter(|| permutation::sign_flip(black_box(&d20), 0, &mut Rng::new(1)))
    });
    c.bench_function("sign_flip/200 by 20,000 draws", |x| {
        x.iter(|| permutation::sign_flip(black_box(&d200), 20_000, &mut Rng::new(1)))
    });
    c.bench_function("mann_whitney/12 and 12", |x| {
        x.iter(|| rank::mann_whitney(black_box(&a), black_box(&b)))
    });
    c.bench_function("bootstrap/12 and 12, 2,000 draws", |x| {
        x.iter(|| bootstrap::ratio(black_box(&a), black_box(&b), false, 0.95, 2_000, &mut Rng::new(1)))
    });
    c.bench_function("excludes/200", |x| x.iter(|| eprocess::excludes(black_box(&d200), 0.0, 0.95)));
    c.bench_function("confidence_sequence/200", |x| {
        x.iter(|| eprocess::confidence_sequence(black_box(&d200), 0.95))
    });
    c.bench_function("e_divisive/400", |x| {
        let search = Search { permutations: 19, ..Search::default() };
        x.iter(|| e_divisive(black_box(&d400), search, &mut Rng::new(1)))
    });
}

criterion_group!(benches, costs);
criterion_main!(benches);
