//! What a replay measured: pairs of bursts, and how long the recorded amount of work takes at their speed.

/// Kind of the work between accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A chain that goes on whatever was loaded: a processor hides most of a line's way behind it.
    Chain,
    /// A chain that waits for what was loaded.
    Fed,
    /// Nothing waits for anything: the work fills the processor's window.
    Independent,
}

impl Work {
    /// All, by their number in the templates.
    pub const ALL: [Work; 3] = [Work::Chain, Work::Fed, Work::Independent];

    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Work::Chain => "chain",
            Work::Fed => "fed",
            Work::Independent => "independent",
        }
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Work::Chain => "a chain of its own",
            Work::Fed => "waits for what was loaded",
            Work::Independent => "waits for nothing",
        }
    }
}

/// One thread in a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Each {
    /// Time of an operation, ns.
    pub wall_ns: f64,
    /// CPU time of an operation, ns.
    pub cpu_ns: f64,
}

/// One pair of bursts, both layouts; threads in the order of the recording's actors.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Work between accesses.
    pub work: Work,
    /// Factor on the recorded lengths of work.
    pub factor: f64,
    /// Threads before and after.
    pub sides: [Vec<Each>; 2],
    /// Time of an operation before where the thread runs by itself, and no line is on its way, ns.
    pub alone_ns: Vec<f64>,
}

/// Reads what the generated program printed for so many threads; lines that are none of its own are left out.
pub fn parse(text: &str, threads: usize) -> Vec<Pair> {
    text.lines().filter_map(|line| pair(line, threads)).collect()
}

fn pair(line: &str, threads: usize) -> Option<Pair> {
    let n: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    if n.len() != 2 + 5 * threads || !n[1..].iter().all(|x| x.is_finite() && *x > 0.0) {
        return None;
    }
    let work = *Work::ALL.get(n[0] as usize)?;
    let (both, alone) = n[2..].split_at(4 * threads);
    let side = |of: &[f64]| of.chunks(2).map(|c| Each { wall_ns: c[0], cpu_ns: c[1] }).collect();
    let (before, after) = both.split_at(2 * threads);
    Some(Pair { work, factor: n[1], sides: [side(before), side(after)], alone_ns: alone.to_vec() })
}

/// Time and CPU time of the recorded amount of work, ns per operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whole {
    /// Until the last thread has done its part.
    pub wall_ns: f64,
    /// Of all threads.
    pub cpu_ns: f64,
}

impl Pair {
    /// Logarithm of after/before of operations per second, if all threads went on for ever.
    pub fn ln_effect(&self) -> f64 {
        let rate = |side: &[Each]| side.iter().map(|e| 1.0 / e.wall_ns).sum::<f64>();
        (rate(&self.sides[1]) / rate(&self.sides[0])).ln()
    }

    /// The recorded amount of work on one side, each thread with its share of the operations, where lines cost
    /// `scale` times what they cost in the burst.
    ///
    /// A thread that has done its part is in nobody's way any more: with `k` of `n` threads left the others' lines
    /// cost (k - 1)/(n - 1) as much.
    pub fn whole(&self, side: usize, shares: &[f64], scale: f64) -> Whole {
        let each = &self.sides[side];
        let mut left: Vec<(usize, f64)> =
            shares.iter().copied().enumerate().filter(|(i, s)| *s > 0.0 && *i < each.len()).collect();
        let others = left.len().saturating_sub(1).max(1) as f64;
        let mut whole = Whole { wall_ns: 0.0, cpu_ns: 0.0 };
        while !left.is_empty() {
            let weight = scale * (left.len() - 1) as f64 / others;
            let at =
                |i: usize, ns: f64| (self.alone_ns[i] + (ns - self.alone_ns[i]) * weight).max(FASTEST_NS);
            let step = left.iter().map(|(i, n)| n * at(*i, each[*i].wall_ns)).fold(f64::INFINITY, f64::min);
            for (i, n) in &mut left {
                let done = step / at(*i, each[*i].wall_ns);
                whole.cpu_ns += done * at(*i, each[*i].cpu_ns);
                *n -= done;
            }
            whole.wall_ns += step;
            left.retain(|(_, n)| *n > 1e-9);
        }
        whole
    }

    /// CPU time of an operation of the first layout by itself, mean over threads, ns.
    pub fn alone(&self, shares: &[f64]) -> f64 {
        self.alone_ns.iter().zip(shares).map(|(ns, s)| ns * s).sum()
    }

    /// What lines cost in the program as a multiple of what they cost in the burst, where the program's operations take
    /// `ratio` times as long on all CPUs as on one. What a processor hides of a line's way, it hides in both layouts.
    pub fn scale(&self, shares: &[f64], ratio: f64) -> f64 {
        let alone = self.alone(shares);
        let lost = |scale| self.whole(0, shares, scale).cpu_ns / alone;
        if lost(1.0) < 1.0 + EXTRA_MIN {
            return 1.0;
        }
        let (mut low, mut high) = (0.0, SCALE_MAX);
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if lost(middle) < ratio { low = middle } else { high = middle }
        }
        (low + high) / 2.0
    }

    /// Logarithm of before/after of the time of the recorded amount of work.
    pub fn ln_speedup(&self, shares: &[f64], scale: f64) -> f64 {
        (self.whole(0, shares, scale).wall_ns / self.whole(1, shares, scale).wall_ns).ln()
    }
}

/// No operation is faster.
const FASTEST_NS: f64 = 0.1;
/// Below this share of an operation's time nothing says how much of a line's way is hidden.
const EXTRA_MIN: f64 = 0.02;
/// Most that a replay's cost of lines is scaled by.
const SCALE_MAX: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(alone: &[f64], before: &[f64], after: &[f64]) -> Pair {
        let side = |ns: &[f64]| ns.iter().map(|&ns| Each { wall_ns: ns, cpu_ns: ns }).collect();
        let sides = [side(before), side(after)];
        Pair { work: Work::Chain, factor: 1.0, sides, alone_ns: alone.to_vec() }
    }

    #[test]
    fn foreign_lines_are_no_pairs() {
        let good = "0 1 100 99 150 149 50 49 60 59 40 41";
        let text = format!("{good}\nhello\n0 1 100\n7{}\n2{}\n", &good[1..], good[1..].replace("99", "nan"));
        let pairs = parse(&text, 2);
        assert_eq!(pairs.len(), 1);
        let (before, after) = (&pairs[0].sides[0], &pairs[0].sides[1]);
        assert_eq!((before[1].cpu_ns, after[0].wall_ns, pairs[0].alone_ns[1]), (149.0, 50.0, 41.0));
    }

    #[test]
    fn a_thread_that_is_through_is_in_nobodys_way() {
        // One is through after 10 ns and has not been disturbed; the other has done a quarter by then.
        let whole = pair(&[10.0, 20.0], &[10.0, 40.0], &[10.0, 20.0]).whole(0, &[1.0, 1.0], 1.0);
        assert!((whole.wall_ns - 25.0).abs() < 1e-6 && (whole.cpu_ns - 35.0).abs() < 1e-6, "{whole:?}");
        let equal = pair(&[50.0; 2], &[100.0; 2], &[50.0; 2]);
        assert!((equal.whole(0, &[0.5; 2], 1.0).wall_ns - 50.0).abs() < 1e-6);
    }

    #[test]
    fn a_loss_is_scaled_in_both_layouts() {
        let shares = [0.5, 0.5];
        let effect = |before: f64, after: f64, ratio| {
            let pair = pair(&[50.0; 2], &[before; 2], &[after; 2]);
            pair.ln_speedup(&shares, pair.scale(&shares, ratio)).exp() - 1.0
        };
        // All of it goes: what the program loses is what it gains.
        assert!((effect(100.0, 50.0, 1.4) - 0.4).abs() < 1e-6);
        // None of it goes: nothing is gained, whatever it loses.
        assert!(effect(100.0, 100.0, 1.4).abs() < 1e-6);
        assert!((effect(100.0, 75.0, 1.4) - (1.4 / 1.2 - 1.0)).abs() < 1e-6);
        // Without a loss in the replay there is nothing to scale.
        assert!((effect(50.5, 40.0, 1.4) - 0.2625).abs() < 1e-6);
    }
}
