#!/usr/bin/env python3
"""Writes reference.tsv: figures of scipy and numpy that the tests hold this crate against.

    apt-get install python3-scipy && python3 reference.py > reference.tsv

Columns: function, arguments (lists by commas, arguments by semicolons), expected value. Written with scipy 1.10.1.
"""
from itertools import combinations
import numpy as np
from scipy import special, stats
from scipy.optimize import brentq

def row(name, args, value):
    def text(a):
        return ",".join(repr(float(x)) for x in np.atleast_1d(a))
    print(name, ";".join(text(a) for a in args), repr(float(value)), sep="\t")

rng = np.random.default_rng(7)
for x in (0.1, 0.5, 1.0, 3.7, 10.0, 171.3):
    row("ln_gamma", [x], special.gammaln(x))
for a, b, x in ((0.5, 0.5, 0.3), (2, 3, 0.9), (15, 0.5, 0.97), (500, 0.5, 0.999), (0.5, 30, 1e-6)):
    row("beta_inc", [a, b, x], special.betainc(a, b, x))
for z in (-8.2, -3.0, -1.0, 0.0, 0.3, 1.959963984540054, 5.5):
    row("normal_cdf", [z], stats.norm.cdf(z))
for p in (1e-12, 0.025, 0.31, 0.5, 0.975, 0.9999):
    row("normal_quantile", [p], stats.norm.ppf(p))
for df in (1, 2, 3.7, 9, 30, 1000):
    for t in (-12.0, -2.1, 0.0, 0.7, 2.0, 40.0):
        row("t_cdf", [t, df], stats.t.cdf(t, df))
    for p in (0.001, 0.05, 0.4, 0.975, 0.9995):
        # scipy's own t.ppf is off by up to 5e-9 (tan(0.4995 pi) for one degree of freedom): solve its cdf instead.
        row("t_quantile", [p, df], brentq(lambda t: stats.t.cdf(t, df) - p, -1e4, 1e4, xtol=1e-15, rtol=1e-14))
a = rng.normal(100, 5, 12).round(3)
b = rng.normal(103, 9, 9).round(3)
row("welch_p", [a, b], stats.ttest_ind(a, b, equal_var=False).pvalue)
row("welch_t", [a, b], stats.ttest_ind(b, a, equal_var=False).statistic)
row("pooled_p", [a, b], stats.ttest_ind(a, b).pvalue)
c = (a * rng.lognormal(0.02, 0.03, 12)).round(3)
row("paired_p", [a, c], stats.ttest_rel(np.log(a), np.log(c)).pvalue)
low, high = stats.t.interval(0.95, 11, np.log(c / a).mean(), stats.sem(np.log(c / a)))
row("paired_low", [a, c], low)
row("paired_high", [a, c], high)
row("geometric_mean", [a], stats.gmean(a))
row("harmonic_mean", [a], stats.hmean(a))
row("coeff_var_percent", [a], 100 * stats.variation(a, ddof=1))
for p in (0, 0.1, 0.5, 0.77, 1):
    row("quantile", [b, p], np.quantile(b, p))
for x, y in ((a, b), (a[:5], c[:4]), (a[:3], a[3:6])):
    row("mann_whitney", [x, y], stats.mannwhitneyu(x, y, alternative="two-sided", method="exact").pvalue)
big = rng.integers(0, 40, 70)
big2 = rng.integers(4, 44, 65)
row("mann_whitney", [big, big2], stats.mannwhitneyu(big, big2, alternative="two-sided", method="asymptotic").pvalue)

# With ties scipy's exact method is not exact: all assignments are counted here instead.
def by_counting(x, y):
    ranks = stats.rankdata(np.concatenate([x, y]))
    sums = np.array([sum(ranks[list(c)]) for c in combinations(range(len(ranks)), len(y))])
    seen = ranks[len(x):].sum()
    return min(1.0, 2 * min((sums <= seen + 1e-9).mean(), (sums >= seen - 1e-9).mean()))
for x, y in (([1, 2, 2, 3, 5], [2, 4, 5, 5, 6, 7]), ([1, 1, 1, 2], [1, 2, 2, 2, 2]), ([3, 3], [3, 3, 3])):
    row("mann_whitney", [x, y], by_counting(x, y))

d = (c - a)[:9].round(3)
signs = np.array(np.meshgrid(*[[1, -1]] * len(d))).reshape(len(d), -1)
row("sign_flip", [d], (abs(d @ signs) >= abs(d.sum()) - 1e-12).mean())
one = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf)
row("sign_flip", [d], one.pvalue)
x = rng.normal(0, 1, 40).round(4)
m = x.mean()
row("autocorrelation", [x], ((x[1:] - m) * (x[:-1] - m)).sum() / ((x - m) ** 2).sum())
