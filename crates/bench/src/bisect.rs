//! Noisy bisection: which commit changed a benchmark, by a Bayesian posterior over commits.
//!
//! One commit shifts the mean of the (logarithm of the) metric. Each hypothesis "k is the first commit of the new
//! level"
//! splits all runs so far into two groups; its likelihood follows from the groups in closed form. The next run goes
//! where
//! the posterior is cut in half at least cost (M. Horstein, "Sequential transmission using noiseless feedback", 1963;
//! M. Burnashev's bound says how few runs that can need: log2(commits)/C + ln(1/error)/D).

/// What is known beforehand about the two levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Knowledge {
    /// Old level, shift and standard deviation of one run, in the unit of the observations.
    Given {
        /// Mean before the change.
        old: f64,
        /// Mean after minus mean before.
        shift: f64,
        /// Standard deviation of one run.
        std_dev: f64,
    },
    /// None of it: flat priors on both means and on the logarithm of the deviation.
    Unknown,
}

/// What a step costs, in any common unit (seconds).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Building a commit for the first time.
    pub build: f64,
    /// One run.
    pub run: f64,
}

/// Weight of a commit between two builds with the same layouts, relative to others.
pub const SAME_LAYOUT_WEIGHT: f64 = 0.05;

/// Runs at each end before anything else when nothing is known.
const END_RUNS: usize = 8;

/// Share of all runs that each end keeps getting: without them a few unlucky runs at an end look like a change next to
/// it for ever, because no run elsewhere can tell.
const END_SHARE: f64 = 0.2;

/// The state of a bisection over commits `0..commits`, where 0 is known to have the old level and the last the new one.
#[derive(Clone, Debug)]
pub struct Bisection {
    knowledge: Knowledge,
    costs: Costs,
    /// Prior weight of "k is the first commit of the new level"; entry 0 is never used.
    weights: Vec<f64>,
    /// Runs per commit: number, sum, sum of squares of the observation minus the first one.
    runs: Vec<(usize, f64, f64)>,
    origin: Option<f64>,
    /// Fingerprint of the layouts of built commits.
    layouts: Vec<Option<u64>>,
    /// Commits that cannot be built or run.
    unusable: Vec<bool>,
    total: usize,
}

/// Where the next runs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Commit to run.
    pub commit: usize,
    /// How often.
    pub runs: usize,
}

impl Bisection {
    /// Starts a bisection over at least two commits.
    pub fn new(commits: usize, knowledge: Knowledge, costs: Costs) -> Option<Bisection> {
        (commits >= 2).then(|| Bisection {
            knowledge,
            costs,
            weights: vec![1.0; commits],
            runs: vec![(0, 0.0, 0.0); commits],
            origin: None,
            layouts: vec![None; commits],
            unusable: vec![false; commits],
            total: 0,
        })
    }

    /// Number of commits.
    pub fn commits(&self) -> usize {
        self.weights.len()
    }

    /// Runs so far.
    pub fn total_runs(&self) -> usize {
        self.total
    }

    /// Whether a commit was built (it has a run or a layout).
    pub fn built(&self, commit: usize) -> bool {
        self.runs.get(commit).is_some_and(|r| r.0 > 0)
            || self.layouts.get(commit).is_some_and(Option::is_some)
    }

    /// What steps cost, as far as it is known by now.
    pub fn set_costs(&mut self, costs: Costs) {
        self.costs = costs;
    }

    /// Never asks for this commit again: it does not build or run.
    pub fn skip(&mut self, commit: usize) {
        if let Some(flag) = self.unusable.get_mut(commit) {
            *flag = true;
        }
    }

    /// Adds one run. Observations that are not finite are refused.
    pub fn observe(&mut self, commit: usize, value: f64) -> bool {
        let Some(cell) = self.runs.get_mut(commit).filter(|_| value.is_finite()) else { return false };
        let x = value - *self.origin.get_or_insert(value);
        *cell = (cell.0 + 1, cell.1 + x, cell.2 + x * x);
        self.total += 1;
        true
    }

    /// A built commit has these layouts (any fingerprint). Commits between two builds with equal layouts become
    /// unlikely: the
    /// layout prior.
    pub fn set_layout(&mut self, commit: usize, fingerprint: u64) {
        if commit >= self.layouts.len() {
            return;
        }
        self.layouts[commit] = Some(fingerprint);
        self.weights.iter_mut().for_each(|w| *w = 1.0);
        let known: Vec<(usize, u64)> =
            self.layouts.iter().enumerate().filter_map(|(i, l)| Some((i, (*l)?))).collect();
        for pair in known.windows(2).filter(|p| p[0].1 == p[1].1) {
            self.weights[pair[0].0 + 1..=pair[1].0].fill(SAME_LAYOUT_WEIGHT);
        }
    }

    /// Posterior probability of each commit to be the first of the new level. Entry 0 is 0.
    pub fn posterior(&self) -> Vec<f64> {
        let logs = self.log_likelihoods();
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut out: Vec<f64> = logs.iter().zip(&self.weights).map(|(l, w)| w * (l - top).exp()).collect();
        out[0] = 0.0;
        let sum: f64 = out.iter().sum();
        out.iter_mut().for_each(|p| *p /= sum);
        out
    }

    fn log_likelihoods(&self) -> Vec<f64> {
        let all = self.runs.iter().fold((0, 0.0, 0.0), |a, r| (a.0 + r.0, a.1 + r.1, a.2 + r.2));
        let mut left = (0usize, 0.0, 0.0);
        let mut out = vec![f64::NEG_INFINITY; self.runs.len()];
        for (log, r) in out.iter_mut().skip(1).zip(&self.runs) {
            left = (left.0 + r.0, left.1 + r.1, left.2 + r.2);
            let right = (all.0 - left.0, all.1 - left.1, all.2 - left.2);
            *log = self.log_likelihood(left, right);
        }
        out
    }

    /// Of two groups (number, sum, sum of squares). With nothing known, the marginal likelihood under flat priors is
    /// (n₀·n₁)^(−1/2)·(SS₀ + SS₁)^(−(n−2)/2).
    fn log_likelihood(&self, left: (usize, f64, f64), right: (usize, f64, f64)) -> f64 {
        let squares = |g: (usize, f64, f64), mean: f64| g.2 - 2.0 * mean * g.1 + g.0 as f64 * mean * mean;
        match self.knowledge {
            Knowledge::Given { old, shift, std_dev } => {
                let old = old - self.origin.unwrap_or(0.0);
                -(squares(left, old) + squares(right, old + shift)) / (2.0 * std_dev * std_dev)
            }
            Knowledge::Unknown => {
                let n = left.0 + right.0;
                if left.0 == 0 || right.0 == 0 || n < 4 {
                    return 0.0;
                }
                let within = |g: (usize, f64, f64)| g.2 - g.1 * g.1 / g.0 as f64;
                let ss = (within(left) + within(right)).max(1e-24);
                -0.5 * (left.0 as f64 * right.0 as f64).ln() - (n as f64 - 2.0) / 2.0 * ss.ln()
            }
        }
    }

    /// Where to run next: both ends first when nothing is known, then where half of the posterior lies on each
    /// side, with a
    /// commit that is already built preferred when building costs more than it tells.
    pub fn next(&self) -> Step {
        let last = self.commits() - 1;
        if self.knowledge == Knowledge::Unknown {
            let enough = END_RUNS.max((END_SHARE * self.total as f64) as usize);
            if let Some(end) = [0, last].into_iter().find(|&end| self.runs[end].0 < enough) {
                return Step { commit: end, runs: 1 };
            }
        }
        let posterior = self.posterior();
        let mut before = 0.0;
        let mut best = (0.0, Step { commit: last, runs: 1 });
        for (commit, p) in posterior.iter().enumerate() {
            // A run at `commit` separates the hypotheses k ≤ commit from the others.
            before += p;
            if self.unusable[commit] {
                continue;
            }
            let told = before * (1.0 - before);
            let built = self.built(commit);
            let runs = self.batch(built);
            let cost = self.costs.run * runs as f64 + if built { 0.0 } else { self.costs.build };
            let score = told * (runs as f64).sqrt() / cost.max(1e-12);
            if score > best.0 {
                best = (score, Step { commit, runs });
            }
        }
        best.1
    }

    /// A small batch pays for a build; a built commit gets one run at a time.
    fn batch(&self, built: bool) -> usize {
        if built {
            return 1;
        }
        ((self.costs.build / self.costs.run.max(1e-12)).sqrt().round() as usize).clamp(1, 5)
    }

    /// The likeliest commit and its probability.
    pub fn best(&self) -> (usize, f64) {
        let posterior = self.posterior();
        let best = posterior.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        best.map_or((0, 0.0), |(k, p)| (k, *p))
    }

    /// The smallest range of commits that holds this much of the posterior around its peak.
    pub fn credible(&self, share: f64) -> (usize, usize) {
        let posterior = self.posterior();
        let (peak, mut held) = self.best();
        let (mut low, mut high) = (peak, peak);
        while held < share && (low > 1 || high + 1 < posterior.len()) {
            let down = if low > 1 { posterior[low - 1] } else { -1.0 };
            let up = posterior.get(high + 1).copied().unwrap_or(-1.0);
            if down >= up {
                low -= 1;
                held += down;
            } else {
                high += 1;
                held += up;
            }
        }
        (low, high)
    }

    /// Means before and after the likeliest commit and the common deviation; `None` before each side has two runs.
    pub fn levels(&self) -> Option<Levels> {
        let (k, _) = self.best();
        let side = |runs: &[(usize, f64, f64)]| {
            runs.iter().fold((0usize, 0.0, 0.0), |a, r| (a.0 + r.0, a.1 + r.1, a.2 + r.2))
        };
        let (l, r) = (side(&self.runs[..k]), side(&self.runs[k..]));
        if l.0 < 2 || r.0 < 2 {
            return None;
        }
        let origin = self.origin?;
        let within = |g: (usize, f64, f64)| (g.2 - g.1 * g.1 / g.0 as f64).max(0.0);
        let std_dev = ((within(l) + within(r)) / (l.0 + r.0 - 2) as f64).sqrt();
        let (old, new) = (l.1 / l.0 as f64, r.1 / r.0 as f64);
        let error = std_dev * (1.0 / l.0 as f64 + 1.0 / r.0 as f64).sqrt();
        Some(Levels { old: old + origin, new: new + origin, std_dev, error, runs: (l.0, r.0) })
    }
}

/// The two levels around the likeliest commit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    /// Mean before.
    pub old: f64,
    /// Mean after.
    pub new: f64,
    /// Standard deviation of one run.
    pub std_dev: f64,
    /// Standard error of the difference.
    pub error: f64,
    /// Runs before and after.
    pub runs: (usize, usize),
}

impl Levels {
    /// Difference in units of its standard error.
    pub fn score(&self) -> f64 {
        if self.error > 0.0 { (self.new - self.old) / self.error } else { f64::INFINITY }
    }
}
