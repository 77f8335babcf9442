//! Hits, supported and decided verdicts, beside two predictors that know nothing.

/// Low, median and high of an effect: after/before - 1 of throughput.
pub type Truth = (f64, f64, f64);

/// What became of one case.
pub struct Outcome {
    /// For people.
    pub name: String,
    /// Program, for leaving it out.
    pub program: String,
    /// Low, median, high of the predicted effect, and the model error that widened it.
    pub predicted: Option<(f64, f64, f64, f64)>,
    /// Measured.
    pub truth: Option<Truth>,
    /// What the interval says.
    pub verdict: String,
    /// What was printed is this verdict, or `undecided` with its reason.
    pub kept_its_word: bool,
    /// What went wrong.
    pub problem: Option<String>,
}

impl Outcome {
    /// The truth's median lies in the predicted interval.
    pub fn hit(&self) -> bool {
        self.predicted.zip(self.truth).is_some_and(|(p, t)| (p.0..=p.2).contains(&t.1))
    }

    fn sign(&self) -> i32 {
        match self.verdict.as_str() {
            "faster" => 1,
            "slower" => -1,
            _ => 0,
        }
    }

    /// There is a verdict, withheld or not.
    pub fn decided(&self) -> bool {
        self.sign() != 0
    }

    /// The truth excludes 0 on the side of the verdict.
    pub fn supported(&self) -> bool {
        self.truth.is_some_and(|t| (self.sign() > 0 && t.0 > 0.0) || (self.sign() < 0 && t.2 < 0.0))
    }

    /// The truth excludes 0 on the other side.
    pub fn opposite(&self) -> bool {
        self.truth.is_some_and(|t| (self.sign() > 0 && t.2 < 0.0) || (self.sign() < 0 && t.0 > 0.0))
    }

    /// The truth excludes 5% either way: something that a verdict is wanted for.
    fn clear(&self) -> bool {
        self.truth.is_some_and(|t| t.0 > 0.05 || t.2 < -0.05)
    }

    /// One line.
    pub fn line(&self) -> String {
        let percent = |x: f64| format!("{:+.0}%", x * 100.0);
        let three = |(a, b, c): Truth| format!("{}..{} ({})", percent(a), percent(c), percent(b));
        let truth = self.truth.map_or("-".into(), three);
        let predicted = self.predicted.map_or("-".into(), |p| three((p.0, p.1, p.2)));
        let mark = if self.hit() { "hit " } else { "miss" };
        let problem = self.problem.as_deref().unwrap_or_default();
        format!(
            "{mark} {:<48} truth {truth:<24} predicted {predicted:<24} {} {problem}",
            self.name, self.verdict
        )
    }
}

fn median(mut xs: Vec<f64>) -> f64 {
    xs.sort_by(f64::total_cmp);
    xs.get(xs.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Half widths of the logarithm without the model error: down and up.
fn own_width((low, middle, high, error): (f64, f64, f64, f64)) -> (f64, f64) {
    let ln = |x: f64| (1.0 + x).max(1e-6).ln();
    let without = |half: f64| (half * half - error.ln().powi(2)).max(0.0).sqrt();
    (without(ln(middle) - ln(low)), without(ln(high) - ln(middle)))
}

fn ln(effect: f64) -> f64 {
    (1.0 + effect).max(1e-6).ln()
}

/// The error that widens each case so that nine of ten cases of the *other* programs lie inside: logarithm of a factor.
fn error_of_others(case: &Outcome, all: &[Outcome]) -> f64 {
    // What is missing beside the width that a case has by itself.
    let miss = |o: &Outcome| {
        let (p, t) = o.predicted.zip(o.truth)?;
        let (down, up) = own_width(p);
        let off = ln(t.1) - ln(p.1);
        let own = if off > 0.0 { up } else { down };
        Some((off * off - own * own).max(0.0).sqrt())
    };
    let mut others: Vec<f64> = all.iter().filter(|o| o.program != case.program).filter_map(miss).collect();
    others.sort_by(f64::total_cmp);
    others.get(others.len() * 9 / 10).copied().unwrap_or(f64::INFINITY)
}

/// The interval of a case with that error, effects.
fn with_others(case: &Outcome, all: &[Outcome]) -> Option<(f64, f64)> {
    let (p, error) = (case.predicted?, error_of_others(case, all));
    let (down, up) = own_width(p);
    Some(((ln(p.1) - down.hypot(error)).exp() - 1.0, (ln(p.1) + up.hypot(error)).exp() - 1.0))
}

/// The verdicts that follow from these intervals: decided, unsupported or opposite.
fn decided_with_others(all: &[Outcome]) -> (usize, usize) {
    let sides = all.iter().filter_map(|o| Some((with_others(o, all)?, o.truth?)));
    let decided: Vec<bool> = sides
        .filter(|((low, high), _)| *low > 0.0 || *high < 0.0)
        .map(|((low, _), t)| if low > 0.0 { t.0 > 0.0 } else { t.2 < 0.0 })
        .collect();
    (decided.len(), decided.iter().filter(|right| !**right).count())
}

/// Which conditions of a release do not hold; `share` of the intervals have to hit.
pub fn failed(all: &[Outcome], share: f64) -> Vec<&'static str> {
    let count = |f: &dyn Fn(&Outcome) -> bool| all.iter().filter(|o| f(o)).count();
    let clear = count(&Outcome::clear);
    let decided = count(&|o| o.clear() && o.decided());
    let width = median(all.iter().filter_map(|o| o.predicted.map(|p| (1.0 + p.2) / (1.0 + p.0))).collect());
    let near = count(&|o| o.predicted.zip(o.truth).is_some_and(|(p, t)| (p.1 - t.1).abs() <= 0.1));
    let zero = count(&|o| o.truth.is_some_and(|t| t.1.abs() <= 0.1));
    let conditions = [
        ("enough cases (40)", all.len() >= 40),
        ("hits", count(&Outcome::hit) as f64 >= share * all.len() as f64),
        ("no verdict unsupported or opposite", count(&|o| o.decided() && !o.supported()) == 0),
        ("clear cases (20)", clear >= 20),
        ("clear cases decided (60%)", decided as f64 >= 0.6 * clear as f64),
        ("width (1.5)", width <= 1.5),
        ("better than always 0", near > zero),
    ];
    conditions.into_iter().filter(|c| !c.1).map(|c| c.0).collect()
}

/// The table at the end.
pub fn table(all: &[Outcome]) -> String {
    let n = all.len();
    let count = |f: &dyn Fn(&Outcome) -> bool| all.iter().filter(|o| f(o)).count();
    let truths: Vec<f64> = all.iter().filter_map(|o| Some(o.truth?.1)).collect();
    let middle = median(truths.clone());
    let off = |guess: f64| median(truths.iter().map(|t| (t - guess).abs()).collect());
    let within = |guess: f64| truths.iter().filter(|t| (**t - guess).abs() <= 0.1).count();
    let near = count(&|o| o.predicted.zip(o.truth).is_some_and(|(p, t)| (p.1 - t.1).abs() <= 0.1));
    let missed = median(all.iter().filter_map(|o| Some((o.predicted?.1 - o.truth?.1).abs())).collect());
    let width = median(all.iter().filter_map(|o| o.predicted.map(|p| (1.0 + p.2) / (1.0 + p.0))).collect());
    let unsupported = count(&|o| o.decided() && !o.supported() && !o.opposite());
    let clear = count(&Outcome::clear);
    let mut out = String::new();
    let mut line = |text: String| out += &format!("{text}\n");
    line(format!("hits {} of {n}", count(&Outcome::hit)));
    let inside =
        |o: &Outcome| with_others(o, all).zip(o.truth).is_some_and(|(p, t)| (p.0..=p.1).contains(&t.1));
    let wide = all.iter().filter_map(|o| with_others(o, all)).map(|p| (1.0 + p.1) / (1.0 + p.0)).collect();
    let error = median(all.iter().map(|o| error_of_others(o, all).exp()).collect());
    let (decided, wrong) = decided_with_others(all);
    line(format!(
        "with the other programs' error (x{error:.2}): hits {}, width {:.2}, decided {decided}, \
         of these not supported {wrong}",
        count(&inside),
        median(wide)
    ));
    line(format!(
        "verdicts (withheld) {}: supported {}, unsupported {unsupported}, opposite {}",
        count(&Outcome::decided),
        count(&Outcome::supported),
        count(&Outcome::opposite)
    ));
    line(format!("truth excludes 5%: {clear} cases, decided {}", count(&|o| o.clear() && o.decided())));
    line(format!("median of (1 + high)/(1 + low): {width:.2}"));
    let points = |x: f64| format!("{:.0} points", x * 100.0);
    line(format!("medians within 10 points of the truth: {near}; median distance {}", points(missed)));
    line(format!("  always 0:                {}; {}", within(0.0), points(off(0.0))));
    line(format!(
        "  median of all ({:+.0}%):    {}; {}",
        middle * 100.0,
        within(middle),
        points(off(middle))
    ));
    line(format!("not predicted: {}", count(&|o| o.predicted.is_none())));
    out
}
