//! From measurements to a profile: topology by the pairs' latencies, parameters, and how far off they are.

use super::{BURSTS, Measured, Pair, median};
use std::collections::BTreeMap;
use tussle_sim::machine::{Core, Distance, Latency, Machine, NOISY, Sched};

/// A hand-over faster than this can only have stayed within a core, ns: no data set has a faster one between cores, or
/// a slower one within.
pub(super) const SMT_MAX_NS: f64 = 14.0;
/// A topology with another level of distances must explain the pairs this much better, as a mean log ratio.
const LEVEL_WORTH: f64 = 0.05;
/// Load and store take this much longer than compare-and-swap at most where reading moves a line: there one transfer
/// hands over, elsewhere a read and an upgrade.
const MIGRATORY_MAX: f64 = 1.5;

/// One way of a hand-over, ns.
fn hop(p: &Pair) -> f64 {
    p.cas_ns.max(0.5)
}

/// A profile of this machine: latency from ping-pong, tenure from the runs of additions, the cost of a locked
/// operation from additions on own lines, pauses and wake-ups as measured. What this machine does not tell keeps its
/// textbook value. `cpus` is the number of CPUs.
pub fn fit(m: &Measured, cpus: u32, name: &str, description: &str) -> Machine {
    let rmw_ns = m.add_own_ns.max(0.2);
    let load_store = median(m.pairs.iter().map(|p| p.load_store_ns).collect());
    let cas = median(m.pairs.iter().map(hop).collect());
    // The call that wakes returns while the sleeper is on its way; both ends share the time.
    let switch_ns = Sched::default().switch_ns.min(m.wake_ns / 3.0).max(1.0);
    let wake_latency_ns = (m.wake_ns - m.wake_cost_ns - switch_ns).max(1.0);
    let core = Core {
        rmw_ns,
        // While one CPU draws a run of numbers the line stays with it.
        tenure_ns: (m.run_length * rmw_ns).clamp(0.0, 10_000.0),
        pause_ns: m.pause_ns.clamp(0.1, 10_000.0),
        migratory: load_store < cas * MIGRATORY_MAX,
        ..Core::default()
    };
    let sched =
        Sched { switch_ns, wake_cost_ns: m.wake_cost_ns.max(1.0), wake_latency_ns, ..Sched::default() };
    let flat = Machine {
        name: name.into(),
        description: description.into(),
        unsourced: false,
        sockets: 1,
        clusters_per_socket: 1,
        cores_per_cluster: cpus,
        threads_per_core: 1,
        line_bytes: 64,
        adjacent_pairs: false,
        latency_ns: Latency {
            smt: None,
            cluster: None,
            socket: cas,
            cross: None,
            memory: 90.0,
            source: format!(
                "tussle calibrate: median of {BURSTS} bursts of compare-and-swap ping-pong per pair"
            ),
        },
        core,
        sched,
        measured: BTreeMap::new(),
        curve: Some(m.curve.clone()),
    };
    let mut machine = shape(&m.pairs, flat);
    machine.measured = notes(m, &machine);
    machine
}

/// The topology that explains the pairs: sockets and threads of a core as Linux numbers them.
fn shape(pairs: &[Pair], flat: Machine) -> Machine {
    let n = flat.cores_per_cluster;
    let mut best = (residual(pairs, &flat).0, flat.clone());
    for (sockets, threads) in [(1, 2), (2, 1), (2, 2), (4, 1), (4, 2)] {
        let cores = n / (sockets * threads);
        if cores * sockets * threads != n {
            continue;
        }
        let mut m = Machine { sockets, threads_per_core: threads, cores_per_cluster: cores, ..flat.clone() };
        let at = |d: &[Distance]| {
            let of: Vec<f64> = pairs.iter().filter(|p| d.contains(&m.distance(p.a, p.b))).map(hop).collect();
            (!of.is_empty()).then(|| median(of))
        };
        let (smt, within) = (at(&[Distance::Smt]), at(&[Distance::Cluster, Distance::Socket]));
        let cross = at(&[Distance::Cross]);
        let fits = (threads == 1 || smt.is_some_and(|s| s < SMT_MAX_NS))
            && (sockets == 1 || cross.is_some())
            && within.map_or(threads == n, |w| w >= SMT_MAX_NS);
        if !fits {
            continue;
        }
        (m.latency_ns.smt, m.latency_ns.cross) = (smt.filter(|_| threads > 1), cross.filter(|_| sockets > 1));
        // Two threads of one core tell nothing of other cores: a line's way is then a textbook figure.
        m.latency_ns.socket = within.unwrap_or(50.0);
        let levels = f64::from(u8::from(threads > 1) + u8::from(sockets > 1));
        let worth = residual(pairs, &m).0 + levels * LEVEL_WORTH;
        if worth < best.0 || threads == n {
            best = (worth, m);
        }
    }
    best.1
}

/// Mean and worst deviation of the pairs from a profile: mean as a log ratio, worst as a share.
fn residual(pairs: &[Pair], m: &Machine) -> (f64, f64) {
    let off = |p: &Pair| hop(p) / m.latency(m.distance(p.a, p.b)).max(0.1);
    let mean = pairs.iter().map(|p| off(p).ln().abs()).sum::<f64>() / pairs.len().max(1) as f64;
    (mean, pairs.iter().map(|p| (off(p) - 1.0).abs()).fold(0.0, f64::max))
}

fn notes(m: &Measured, machine: &Machine) -> BTreeMap<String, String> {
    let mut notes = BTreeMap::new();
    let mut note = |key: &str, value: String| notes.insert(key.to_string(), value);
    let first =
        m.pairs.first().map_or(machine.latency_ns.socket, |p| machine.latency(machine.distance(p.a, p.b)));
    // In the model a contended line stays for its tenure or half a hop, whichever is longer, and travels half a hop.
    let stays = machine.core.tenure_ns.max(first / 2.0);
    let predicted = (first / 2.0 + stays) * machine.core.rmw_ns / stays.max(0.1);
    let (mean, worst) = residual(&m.pairs, machine);
    if let Some(why) = &m.noisy {
        note(NOISY, why.clone());
    }
    note("pairs", format!("{}", m.pairs.len()));
    note("pairs_mean_residual", format!("{:.0}%", mean * 100.0));
    note("pairs_worst_residual", format!("{:.0}%", worst * 100.0));
    let load_store = median(m.pairs.iter().map(|p| p.load_store_ns).collect());
    note("load_store_one_way_ns", format!("{load_store:.1}"));
    note("add_same_line_ns", format!("{:.1}", m.add_shared_ns));
    note("add_same_line_residual", format!("{:+.0}%", (predicted / m.add_shared_ns.max(0.1) - 1.0) * 100.0));
    note("add_run_length", format!("{:.1}", m.run_length));
    note("wake_until_running_ns", format!("{:.0}", m.wake_ns));
    let unknown = || "unknown".to_string();
    note("steal", m.load.map_or_else(unknown, |l| format!("{:.1}%", l.steal * 100.0)));
    note("others", m.load.map_or_else(unknown, |l| format!("{:.1}%", l.others * 100.0)));
    note("real_time_priority", format!("{}", m.real_time));
    let (unsteady, all) = m.curve_unsteady;
    note("curve_unsteady", format!("{unsteady} of {all}"));
    let same_core = m.pairs.iter().filter(|p| hop(p) < SMT_MAX_NS).count();
    note("pairs_within_a_core", format!("{same_core}"));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_sim::{Curve, Pattern};

    fn measured(pairs: Vec<Pair>) -> Measured {
        Measured {
            pairs,
            add_shared_ns: 30.0,
            add_own_ns: 6.0,
            run_length: 3.0,
            pause_ns: 40.0,
            wake_cost_ns: 1_800.0,
            wake_ns: 4_200.0,
            load: None,
            real_time: true,
            curve: Curve {
                work_ns: vec![0.0],
                dependent: BTreeMap::from([(Pattern::Rmw, vec![50.0])]),
                independent: BTreeMap::new(),
            },
            curve_unsteady: (3, 624),
            noisy: None,
        }
    }

    /// Pairs of `n` CPUs with latencies by a rule.
    fn pairs(n: u32, latency: impl Fn(u32, u32) -> f64) -> Vec<Pair> {
        let all = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
        all.map(|(a, b)| Pair { a, b, cas_ns: latency(a, b), load_store_ns: latency(a, b) * 2.2 }).collect()
    }

    #[test]
    fn a_profile_is_fitted_to_what_was_measured() {
        let pair = Pair { a: 0, b: 1, cas_ns: 60.0, load_store_ns: 80.0 };
        let machine = fit(&measured(vec![pair]), 2, "1s-test-2", "test");
        assert_eq!(machine.latency_ns.socket, 60.0);
        assert_eq!((machine.core.tenure_ns, machine.core.pause_ns), (18.0, 40.0));
        assert!(machine.core.migratory);
        let s = &machine.sched;
        assert_eq!(s.wake_cost_ns + s.wake_latency_ns + s.switch_ns, 4_200.0);
        machine.validate().unwrap();
        assert_eq!(Machine::from_toml(&machine.to_toml().unwrap()).unwrap(), machine);
        assert_eq!(machine.measured["steal"], "unknown");
        assert_eq!(machine.measured["curve_unsteady"], "3 of 624");
    }

    #[test]
    fn a_noisy_profile_says_so_wherever_it_goes() {
        let pair = || vec![Pair { a: 0, b: 1, cas_ns: 20.0, load_store_ns: 30.0 }];
        let quiet = fit(&measured(pair()), 2, "1s-test-2", "test");
        assert_eq!(quiet.mark(), None);
        let noisy = Measured { noisy: Some("others".into()), ..measured(pair()) };
        let machine = fit(&noisy, 2, "1s-test-2", "test");
        let read = Machine::from_toml(&machine.to_toml().unwrap()).unwrap();
        assert_eq!(read.mark().as_deref(), Some("noisy: others"));
        assert!(super::super::named(&noisy).starts_with("CPUs 0 and 1: 20 ns, siblings of one core?;"));
    }

    #[test]
    fn bursts_that_do_not_agree_are_told() {
        use super::super::{settled, steady};
        assert_eq!(settled(&[1.0; 4]), None);
        assert_eq!(settled(&[9.0, 1.0, 1.05, 9.0, 0.95, 1.0]), Some(1.0), "one may be off");
        assert_eq!(settled(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        let (mut unsteady, mut n) = (Vec::new(), 0.0);
        steady("it", &mut unsteady, &mut || {
            n += 1.0;
            n * n
        });
        assert_eq!(unsteady, ["it"]);
    }

    #[test]
    fn the_topology_is_read_from_the_pairs() {
        let check = |pairs: Vec<Pair>, n, want: (u32, u32)| {
            let m = fit(&measured(pairs), n, &format!("{}s-test-{n}", want.0), "test");
            assert_eq!((m.sockets, m.threads_per_core), want, "{n} CPUs");
            m.validate().unwrap();
            assert!(!m.core.migratory);
        };
        // Two hardware threads of one core.
        check(pairs(2, |_, _| 8.0), 2, (1, 2));
        check(pairs(2, |_, _| 55.0), 2, (1, 1));
        check(pairs(8, |a, b| 50.0 + f64::from(a * b % 5)), 8, (1, 1));
        check(pairs(8, |a, b| if b == a + 4 { 7.0 } else { 48.0 }), 8, (1, 2));
        check(pairs(8, |a, b| if a / 4 == b / 4 { 45.0 } else { 110.0 }), 8, (2, 1));
        let both = |a: u32, b: u32| match (a % 4, b % 4) {
            (x, y) if x == y => 7.0,
            (x, y) if x / 2 == y / 2 => 45.0,
            _ => 110.0,
        };
        check(pairs(8, both), 8, (2, 2));
    }
}
