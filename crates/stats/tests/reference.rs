//! Figures of scipy and numpy (`data/reference.py`) and of published tables.

use tussle_stats::*;

fn compute(name: &str, a: &[Vec<f64>]) -> f64 {
    let one = |i: usize| a[i][0];
    let value = match name {
        "ln_gamma" => Some(special::ln_gamma(one(0))),
        "beta_inc" => Some(special::beta_inc(one(0), one(1), one(2))),
        "normal_cdf" => Some(special::normal_cdf(one(0))),
        "normal_quantile" => special::normal_quantile(one(0)),
        "t_cdf" => Some(dist::t_cdf(one(0), one(1))),
        "t_quantile" => dist::t_quantile(one(0), one(1)),
        "welch_p" => welch::welch(&a[0], &a[1]).map(|t| t.p),
        "welch_t" => welch::welch(&a[0], &a[1]).map(|t| t.t),
        "pooled_p" => welch::pooled(&a[0], &a[1]).map(|t| t.p),
        "paired_p" => paired(a).map(|t| t.p),
        "paired_low" => paired(a).map(|t| t.interval.low),
        "paired_high" => paired(a).map(|t| t.interval.high),
        "geometric_mean" => summary::geometric_mean(&a[0]),
        "harmonic_mean" => summary::harmonic_mean(&a[0]),
        "coeff_var_percent" => summary::coeff_var_percent(&a[0]),
        "quantile" => quantile(&a[0], one(1)),
        "mann_whitney" => rank::mann_whitney(&a[0], &a[1]).map(|t| t.p),
        "sign_flip" => permutation::sign_flip(&a[0], 1000, &mut Rng::new(1)),
        "autocorrelation" => series::autocorrelation(&a[0]),
        _ => panic!("the table has a function {name} that this test does not know"),
    };
    value.unwrap_or(f64::NAN)
}

fn paired(a: &[Vec<f64>]) -> Option<LogRatio> {
    paired_t(&log_ratios(&a[0], &a[1])?, 0.95)
}

#[test]
fn figures_of_scipy() {
    let mut rows = 0;
    for line in include_str!("data/reference.tsv").lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        let list = |t: &str| t.split(',').map(|x| x.parse().unwrap()).collect::<Vec<f64>>();
        let arguments: Vec<Vec<f64>> = cells[1].split(';').map(list).collect();
        let (got, expect) = (compute(cells[0], &arguments), cells[2].parse::<f64>().unwrap());
        let near = (got - expect).abs() <= 1e-9 * expect.abs() + 1e-14;
        assert!(near, "{} of {}: {got}, scipy {expect}", cells[0], cells[1]);
        rows += 1;
    }
    assert!(rows > 100, "{rows}");
}

/// Student's table as printed in textbooks (two-sided 95%), three decimals.
#[test]
fn the_printed_table_of_student() {
    for (df, t) in [(1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (20, 2.086), (30, 2.042), (120, 1.980)]
    {
        let got = dist::t_quantile(0.975, f64::from(df)).unwrap();
        assert!((got - t).abs() < 0.0006, "df {df}: {got}");
    }
}

/// Critical values of U, two-sided 5% (Mann and Whitney's table): the largest U that is significant.
#[test]
fn the_printed_table_of_mann_and_whitney() {
    for (n, m, critical) in [(4, 4, 0), (5, 5, 2), (6, 8, 8), (8, 8, 13), (10, 10, 23)] {
        let p_of = |u: usize| {
            // Samples whose U is `u`: shift elements of b below elements of a one swap at a time.
            let mut ranks: Vec<bool> = [vec![true; m], vec![false; n]].concat();
            let mut have = 0;
            'outer: loop {
                for i in 0..n + m - 1 {
                    if have == u {
                        break 'outer;
                    }
                    if ranks[i] && !ranks[i + 1] {
                        ranks.swap(i, i + 1);
                        have += 1;
                    }
                }
            }
            let pick = |of_b: bool| -> Vec<f64> {
                ranks.iter().enumerate().filter(|(_, b)| **b == of_b).map(|(i, _)| i as f64).collect()
            };
            let test = rank::mann_whitney(&pick(false), &pick(true)).unwrap();
            assert_eq!((test.u, test.exact), (u as f64, true));
            test.p
        };
        assert!(p_of(critical) <= 0.05 && p_of(critical + 1) > 0.05, "{n} {m}: {}", p_of(critical));
    }
}

/// The example of Benjamini and Hochberg's paper (1995, table of the thrombolysis study): 4 rejections by BH, 3 by
/// Holm.
#[test]
fn the_published_example_of_false_discovery() {
    let p = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
        0.6528, 0.7590, 1.0,
    ];
    let count = |adjusted: Vec<f64>| adjusted.iter().filter(|&&p| p <= 0.05).count();
    assert_eq!(count(multiple::benjamini_hochberg(&p)), 4);
    assert_eq!(count(multiple::holm(&p)), 3);
    assert_eq!(multiple::holm(&[0.03, 0.01, 0.02]), [0.04, 0.03, 0.04]);
    assert!(multiple::holm(&[]).is_empty());
}

#[test]
fn questions_without_an_answer_have_none() {
    assert_eq!(mean(&[]), None);
    assert_eq!(mean(&[1.0, f64::NAN]), None);
    assert_eq!(std_dev(&[1.0]), None);
    assert_eq!(summary::harmonic_mean(&[1.0, 0.0]), None);
    assert_eq!(summary::geometric_mean(&[-1.0]), None);
    assert_eq!(summary::coeff_var_percent(&[1.0, -1.0]), None);
    assert_eq!(summary::best_percent(&[1.0], 50, true), None);
    assert_eq!(quantile(&[1.0], 1.5), None);
    assert_eq!(dist::t_quantile(0.5, 0.0), None);
    assert_eq!(dist::t_quantile(1.0, 5.0), None);
    assert_eq!(welch::welch(&[1.0, 1.0], &[2.0, 2.0]), None);
    assert_eq!(log_ratios(&[1.0], &[1.0, 2.0]), None);
    assert_eq!(log_ratios(&[1.0], &[-2.0]), None);
    assert_eq!(paired_t(&[0.1], 0.95), None);
    assert_eq!(rank::mann_whitney(&[], &[1.0]), None);
    assert_eq!(permutation::sign_flip(&[], 10, &mut Rng::new(1)), None);
    assert_eq!(bootstrap::ratio(&[1.0], &[2.0], true, 0.95, 100, &mut Rng::new(1)), None);
    assert_eq!(eprocess::confidence_sequence(&[0.1], 0.95), None);
    assert_eq!(power::pairs_for_half_width(0.1, 0.0, 0.95), None);
    assert_eq!(series::autocorrelation(&[1.0, 1.0, 1.0]), None);
    assert_eq!(series::two_modes(&[1.0; 20]), None);
    assert!(change::e_divisive(&[f64::NAN; 30], change::Search::default(), &mut Rng::new(1)).is_empty());
}

#[test]
fn no_spread_is_certainty_not_an_error() {
    let same = paired_t(&[0.0; 4], 0.95).unwrap();
    assert_eq!((same.p, same.larger_probability, same.interval.low), (1.0, 0.5, 0.0));
    let other = paired_t(&[0.5; 4], 0.95).unwrap();
    assert_eq!((other.p, other.larger_probability), (0.0, 1.0));
}

/// Exact and drawn sign flips agree, and never say zero.
#[test]
fn drawn_sign_flips_agree_with_all_of_them() {
    let mut rng = Rng::new(5);
    let d: Vec<f64> = (0..20).map(|_| 0.3 + rng.normal()).collect();
    let exact = permutation::sign_flip(&d, 0, &mut rng).unwrap();
    let longer: Vec<f64> = d.iter().copied().chain([0.0]).collect();
    let drawn = permutation::sign_flip(&longer, 40_000, &mut rng).unwrap();
    assert!((exact - drawn).abs() < 0.01, "{exact} {drawn}");
    assert!(permutation::sign_flip(&[1.0; 30], 99, &mut rng).unwrap() >= 0.01);
}

/// Power and pairs needed by simulation: the design that promises 80% finds the effect in 75..85% of trials.
#[test]
fn the_detectable_effect_is_detected_as_often_as_promised() {
    let (pairs, std_dev) = (15, 0.04);
    let effect = power::detectable_effect(std_dev, pairs, 0.05, 0.8).unwrap();
    let mut rng = Rng::new(11);
    let found = (0..2000)
        .filter(|_| {
            let d: Vec<f64> = (0..pairs).map(|_| effect + std_dev * rng.normal()).collect();
            paired_t(&d, 0.95).unwrap().p < 0.05
        })
        .count();
    assert!((1500..1700).contains(&found), "{found}");
    let n = power::pairs_for_half_width(std_dev, 0.02, 0.95).unwrap();
    let width = |n: usize| dist::t_quantile(0.975, (n - 1) as f64).unwrap() * std_dev / (n as f64).sqrt();
    assert!(width(n) <= 0.02 && width(n - 1) > 0.02, "{n}");
    assert!((power::power(effect, std_dev, pairs, 0.05).unwrap() - 0.8).abs() < 0.01);
}

#[test]
fn two_modes_are_told_from_one_and_from_uniform_noise() {
    let mut rng = Rng::new(2);
    let mut seen = [0, 0, 0];
    for _ in 0..200 {
        let draws: [Vec<f64>; 3] = [
            (0..40).map(|_| rng.normal()).collect(),
            (0..40).map(|_| rng.uniform()).collect(),
            (0..40).map(|i| f64::from(i % 3 / 2) * 9.0 + rng.normal()).collect(),
        ];
        for (count, xs) in seen.iter_mut().zip(&draws) {
            *count += usize::from(series::two_modes(xs).is_some());
        }
    }
    assert!(seen[0] == 0 && seen[1] == 0 && seen[2] > 190, "{seen:?}");
}

#[test]
fn change_points_are_found_where_they_are_and_not_where_they_are_not() {
    let mut rng = Rng::new(9);
    let steps: Vec<f64> = (0..90).map(|i| [0.0, 3.0, 1.0][i / 30] + 0.5 * rng.normal()).collect();
    let found = change::e_divisive(&steps, change::Search::default(), &mut rng);
    let at: Vec<usize> = found.iter().map(|c| c.index).collect();
    assert_eq!(at.len(), 2, "{at:?}");
    assert!(at[0].abs_diff(30) <= 1 && at[1].abs_diff(60) <= 1, "{at:?}");
    let flat = (0..60)
        .filter(|_| {
            let xs: Vec<f64> = (0..40).map(|_| rng.normal()).collect();
            !change::e_divisive(&xs, change::Search { permutations: 39, ..Default::default() }, &mut rng)
                .is_empty()
        })
        .count();
    assert!(flat <= 8, "{flat} of 60 flat series");
}

#[test]
fn the_bootstrap_covers_a_ratio() {
    let mut rng = Rng::new(4);
    let covered = (0..400)
        .filter(|_| {
            let a: Vec<f64> = (0..25).map(|_| 100.0 + 10.0 * rng.normal()).collect();
            let b: Vec<f64> = (0..25).map(|_| 120.0 + 10.0 * rng.normal()).collect();
            bootstrap::ratio(&a, &b, false, 0.95, 400, &mut rng).unwrap().contains(1.2)
        })
        .count();
    assert!((360..395).contains(&covered), "{covered} of 400");
}
