//! Machine profiles: topology, latencies and scheduler costs, from TOML. Every figure carries where it comes from.

use crate::curve::Curve;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tussle_model::near::{also, near_paths};

/// More CPUs than this are refused.
pub const CPUS_MAX: u32 = 1024;

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// Not TOML, or an unknown or missing key.
    #[error("machine profile: {0}")]
    Syntax(String),
    /// A value outside of what makes sense.
    #[error("machine `{machine}`: {key} = {value} is not {range}")]
    Range {
        /// Profile name.
        machine: String,
        /// Key.
        key: String,
        /// What was given.
        value: f64,
        /// What would do.
        range: &'static str,
    },
    /// A key that `--set` does not know.
    #[error("no machine parameter `{0}`; there are {1}")]
    UnknownKey(String, String),
    /// A name that no built-in profile has.
    #[error(
        "no machine `{0}`{1}: give a profile's file name or one of the built-in machines (--list-machines); `here` is \
         for recorded programs"
    )]
    UnknownMachine(String, String),
}

/// Latency of moving a line between two CPUs, in ns, one way, as compare-and-swap ping-pong measures it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Between hardware threads of one core; absent where cores have one thread.
    pub smt: Option<f64>,
    /// Within a cluster (CCX, die); absent where a socket is one cluster.
    pub cluster: Option<f64>,
    /// Within a socket, across clusters.
    pub socket: f64,
    /// Across sockets; absent on one socket.
    pub cross: Option<f64>,
    /// Main memory.
    #[serde(default = "memory_default")]
    pub memory: f64,
    /// Where the figures come from.
    pub source: String,
}

fn memory_default() -> f64 {
    90.0
}

/// Costs inside a core, ns unless named otherwise. Defaults are textbook figures for a 2.5–3 GHz out-of-order core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Core {
    /// A plain access that hits the first-level cache, as the program sees it.
    pub hit_ns: f64,
    /// A locked operation on a line already owned (18–20 cycles: Fog's instruction tables).
    pub rmw_ns: f64,
    /// A line just received stays at least this long.
    pub tenure_ns: f64,
    /// From a store's execution to its commit: its line must stay that long, or is fetched once more.
    pub commit_ns: f64,
    /// Entries of the store buffer (Skylake 56: vendor's optimisation manual).
    pub store_buffer: u32,
    /// Length of a spin loop's pause: a spinner looks that often (140 cycles since Skylake, about 10 before: vendor's
    /// optimisation manual).
    pub pause_ns: f64,
    /// Saving, disabling and restoring interrupts.
    pub irq_toggle_ns: f64,
    /// The load before a compare-and-swap requests its line exclusively.
    pub early_rfo: bool,
    /// Reading a line that another CPU has modified takes it away from there, instead of leaving a copy. `tussle
    /// calibrate` tells; shipped profiles say no.
    pub migratory: bool,
    /// Share of the socket latency that a request costs when no other CPU must give up a dirty line.
    pub clean_share: f64,
    /// CPUs of one socket that a contended line visits before those of another one that wait for it. Machines do not
    /// serve in order of arrival, and differ in how (Ben-David, Scully, Blelloch: Unfair scheduling patterns in NUMA
    /// architectures, 2019); two is what order of arrival gives on two sockets.
    pub socket_run: f64,
}

impl Default for Core {
    fn default() -> Self {
        Core {
            hit_ns: 1.0,
            rmw_ns: 7.0,
            tenure_ns: 10.0,
            commit_ns: 8.0,
            store_buffer: 56,
            pause_ns: 45.0,
            irq_toggle_ns: 9.0,
            early_rfo: true,
            migratory: false,
            clean_share: 0.6,
            socket_run: 2.0,
        }
    }
}

/// Costs of the operating system's scheduler, ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sched {
    /// A context switch.
    pub switch_ns: f64,
    /// What a wake-up costs the waker.
    pub wake_cost_ns: f64,
    /// From a wake-up until an idle CPU begins to switch (interrupt and leaving the idle state).
    pub wake_latency_ns: f64,
    /// A woken task takes a busy CPU at once when the running one has had it for this long.
    pub wakeup_granularity_ns: f64,
    /// Time slice when others wait.
    pub slice_ns: f64,
    /// What an interrupt from another CPU costs its sender.
    pub ipi_send_ns: f64,
    /// What it costs its receiver.
    pub ipi_receive_ns: f64,
    /// Tasks waiting for a CPU move to idle CPUs.
    pub balance: bool,
}

impl Default for Sched {
    fn default() -> Self {
        Sched {
            switch_ns: 1_300.0,
            wake_cost_ns: 700.0,
            wake_latency_ns: 2_500.0,
            wakeup_granularity_ns: 1_000_000.0,
            slice_ns: 3_000_000.0,
            ipi_send_ns: 200.0,
            ipi_receive_ns: 1_000.0,
            balance: true,
        }
    }
}

/// Key of [`Machine::measured`] that says why a profile is not to be trusted.
pub const NOISY: &str = "noisy";

/// One machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// `<sockets>s-<microarchitecture>-<cpus>`.
    pub name: String,
    /// For people.
    pub description: String,
    /// Some figures are guesses: said wherever the machine is printed.
    #[serde(default)]
    pub unsourced: bool,
    /// Sockets.
    pub sockets: u32,
    /// Clusters per socket.
    #[serde(default = "one")]
    pub clusters_per_socket: u32,
    /// Cores per cluster.
    pub cores_per_cluster: u32,
    /// Hardware threads per core.
    #[serde(default = "one")]
    pub threads_per_core: u32,
    /// Cache line, 64 or 128 bytes.
    #[serde(default = "line_default")]
    pub line_bytes: u32,
    /// A miss also fetches the other line of a 128-byte pair, and that disturbs.
    #[serde(default)]
    pub adjacent_pairs: bool,
    /// Latencies.
    pub latency_ns: Latency,
    /// Core.
    #[serde(default)]
    pub core: Core,
    /// Scheduler.
    #[serde(default)]
    pub sched: Sched,
    /// Residual errors and conditions, when this profile was measured here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured: BTreeMap<String, String>,
    /// What is hidden of a line's way, where it was measured; shipped profiles have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<Curve>,
}

fn one() -> u32 {
    1
}

fn line_default() -> u32 {
    64
}

/// How far apart two CPUs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// The same CPU.
    Own = 0,
    /// The same core.
    Smt = 1,
    /// The same cluster.
    Cluster = 2,
    /// The same socket.
    Socket = 3,
    /// Another socket.
    Cross = 4,
}

impl Machine {
    /// Reads and validates a profile.
    ///
    /// # Errors
    /// Syntax errors, unknown keys, values out of range.
    pub fn from_toml(text: &str) -> Result<Machine, MachineError> {
        let machine: Machine = toml::from_str(text).map_err(|e| MachineError::Syntax(e.to_string()))?;
        machine.validate()?;
        Ok(machine)
    }

    /// As TOML.
    ///
    /// # Errors
    /// Never for a profile that was read; [`MachineError::Syntax`] otherwise.
    pub fn to_toml(&self) -> Result<String, MachineError> {
        toml::to_string(self).map_err(|e| MachineError::Syntax(e.to_string()))
    }

    /// What is to be said wherever the machine is printed: its figures are guesses, or were measured while others ran.
    pub fn mark(&self) -> Option<String> {
        if self.unsourced {
            return Some("unsourced: some of its figures are guesses".into());
        }
        self.measured.get(NOISY).map(|why| format!("noisy: {why}"))
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> u32 {
        [self.sockets, self.clusters_per_socket, self.cores_per_cluster, self.threads_per_core]
            .iter()
            .fold(1u32, |n, &x| n.saturating_mul(x))
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`MachineError::Range`] for the first one out of range.
    pub fn validate(&self) -> Result<(), MachineError> {
        let check = |key: &str, value: f64, low: f64, high: f64, range: &'static str| {
            let fine = value.is_finite() && value >= low && value <= high;
            let error = MachineError::Range { machine: self.name.clone(), key: key.into(), value, range };
            if fine { Ok(()) } else { Err(error) }
        };
        let cpus = f64::from(self.cpus());
        check("cpus", cpus, 1.0, f64::from(CPUS_MAX), "from 1 to 1024")?;
        let line = f64::from(self.line_bytes);
        if self.line_bytes != 64 && self.line_bytes != 128 {
            check("line_bytes", line, 64.0, 63.0, "64 or 128")?;
        }
        let l = &self.latency_ns;
        let latencies =
            [("smt", l.smt), ("cluster", l.cluster), ("socket", Some(l.socket)), ("cross", l.cross)];
        for (key, value) in latencies.into_iter().chain([("memory", Some(l.memory))]) {
            if let Some(v) = value {
                check(&format!("latency_ns.{key}"), v, 0.5, 100_000.0, "from 0.5 to 100,000 ns")?;
            }
        }
        let needed = [
            ("latency_ns.smt", self.threads_per_core > 1 && l.smt.is_none()),
            ("latency_ns.cross", self.sockets > 1 && l.cross.is_none()),
        ];
        for (key, missing) in needed {
            if missing {
                check(key, f64::NAN, 0.0, 0.0, "given, though the topology needs it")?;
            }
        }
        for (key, low, high, range) in LIMITS {
            check(key, self.get(key).unwrap_or(f64::NAN), *low, *high, range)?;
        }
        self.curve.as_ref().map_or(Ok(()), |c| c.validate(&self.name))
    }

    /// A parameter by its dotted name.
    pub fn get(&self, key: &str) -> Option<f64> {
        let (l, c, s) = (&self.latency_ns, &self.core, &self.sched);
        Some(match key {
            "latency_ns.smt" => l.smt?,
            "latency_ns.cluster" => l.cluster?,
            "latency_ns.socket" => l.socket,
            "latency_ns.cross" => l.cross?,
            "latency_ns.memory" => l.memory,
            "core.hit_ns" => c.hit_ns,
            "core.rmw_ns" => c.rmw_ns,
            "core.tenure_ns" => c.tenure_ns,
            "core.commit_ns" => c.commit_ns,
            "core.store_buffer" => f64::from(c.store_buffer),
            "core.pause_ns" => c.pause_ns,
            "core.irq_toggle_ns" => c.irq_toggle_ns,
            "core.clean_share" => c.clean_share,
            "core.socket_run" => c.socket_run,
            "core.early_rfo" => f64::from(u8::from(c.early_rfo)),
            "core.migratory" => f64::from(u8::from(c.migratory)),
            "adjacent_pairs" => f64::from(u8::from(self.adjacent_pairs)),
            "line_bytes" => f64::from(self.line_bytes),
            "sched.switch_ns" => s.switch_ns,
            "sched.wake_cost_ns" => s.wake_cost_ns,
            "sched.wake_latency_ns" => s.wake_latency_ns,
            "sched.wakeup_granularity_ns" => s.wakeup_granularity_ns,
            "sched.slice_ns" => s.slice_ns,
            "sched.ipi_send_ns" => s.ipi_send_ns,
            "sched.ipi_receive_ns" => s.ipi_receive_ns,
            "sched.balance" => f64::from(u8::from(s.balance)),
            _ => return None,
        })
    }

    /// Sets a parameter by its dotted name. Call [`Machine::validate`] afterwards.
    ///
    /// # Errors
    /// Unknown keys.
    pub fn set(&mut self, key: &str, value: f64) -> Result<(), MachineError> {
        let (l, c, s) = (&mut self.latency_ns, &mut self.core, &mut self.sched);
        let place = match key {
            "latency_ns.smt" => l.smt.get_or_insert(value),
            "latency_ns.cluster" => l.cluster.get_or_insert(value),
            "latency_ns.socket" => &mut l.socket,
            "latency_ns.cross" => l.cross.get_or_insert(value),
            "latency_ns.memory" => &mut l.memory,
            "core.hit_ns" => &mut c.hit_ns,
            "core.rmw_ns" => &mut c.rmw_ns,
            "core.tenure_ns" => &mut c.tenure_ns,
            "core.commit_ns" => &mut c.commit_ns,
            "core.pause_ns" => &mut c.pause_ns,
            "core.irq_toggle_ns" => &mut c.irq_toggle_ns,
            "core.clean_share" => &mut c.clean_share,
            "core.socket_run" => &mut c.socket_run,
            "sched.switch_ns" => &mut s.switch_ns,
            "sched.wake_cost_ns" => &mut s.wake_cost_ns,
            "sched.wake_latency_ns" => &mut s.wake_latency_ns,
            "sched.wakeup_granularity_ns" => &mut s.wakeup_granularity_ns,
            "sched.slice_ns" => &mut s.slice_ns,
            "sched.ipi_send_ns" => &mut s.ipi_send_ns,
            "sched.ipi_receive_ns" => &mut s.ipi_receive_ns,
            "core.store_buffer" => return assign(&mut c.store_buffer, value as u32),
            "core.early_rfo" => return assign(&mut c.early_rfo, value != 0.0),
            "core.migratory" => return assign(&mut c.migratory, value != 0.0),
            "adjacent_pairs" => return assign(&mut self.adjacent_pairs, value != 0.0),
            "line_bytes" => return assign(&mut self.line_bytes, value as u32),
            "sched.balance" => return assign(&mut s.balance, value != 0.0),
            _ => return Err(MachineError::UnknownKey(key.into(), keys().join(", "))),
        };
        *place = value;
        Ok(())
    }

    /// Distance of two CPUs. CPUs are numbered as Linux does on x86: first threads of all cores, socket by socket,
    /// then
    /// the second threads in the same order.
    pub fn distance(&self, a: u32, b: u32) -> Distance {
        if a == b {
            return Distance::Own;
        }
        let cores = (self.cpus() / self.threads_per_core.max(1)).max(1);
        let per_socket = (self.clusters_per_socket * self.cores_per_cluster).max(1);
        let (a, b) = (a % cores, b % cores);
        if a == b {
            Distance::Smt
        } else if a / per_socket != b / per_socket {
            Distance::Cross
        } else if a / self.cores_per_cluster.max(1) != b / self.cores_per_cluster.max(1) {
            Distance::Socket
        } else {
            Distance::Cluster
        }
    }

    /// Latency of a distance in ns.
    pub fn latency(&self, d: Distance) -> f64 {
        let l = &self.latency_ns;
        match d {
            Distance::Own => self.core.hit_ns,
            Distance::Smt => l.smt.unwrap_or(l.socket),
            Distance::Cluster => l.cluster.unwrap_or(l.socket),
            Distance::Socket => l.socket,
            Distance::Cross => l.cross.unwrap_or(l.socket),
        }
    }
}

fn assign<T>(place: &mut T, value: T) -> Result<(), MachineError> {
    *place = value;
    Ok(())
}

/// Names of all parameters that [`Machine::set`] takes.
pub fn keys() -> Vec<&'static str> {
    let mut keys = vec!["latency_ns.smt", "latency_ns.cluster", "latency_ns.socket", "latency_ns.cross"];
    keys.extend(["latency_ns.memory", "core.early_rfo", "core.migratory", "adjacent_pairs", "line_bytes"]);
    keys.push("sched.balance");
    keys.extend(LIMITS.iter().map(|(k, ..)| *k));
    keys
}

/// (key, lowest, highest, in words).
const LIMITS: &[(&str, f64, f64, &str)] = &[
    ("core.hit_ns", 0.1, 100.0, "from 0.1 to 100 ns"),
    ("core.rmw_ns", 0.1, 1_000.0, "from 0.1 to 1,000 ns"),
    ("core.tenure_ns", 0.0, 10_000.0, "from 0 to 10,000 ns"),
    ("core.commit_ns", 0.0, 1_000.0, "from 0 to 1,000 ns"),
    ("core.store_buffer", 1.0, 1_024.0, "from 1 to 1,024 entries"),
    ("core.pause_ns", 0.1, 10_000.0, "from 0.1 to 10,000 ns"),
    ("core.irq_toggle_ns", 0.0, 10_000.0, "from 0 to 10,000 ns"),
    ("core.clean_share", 0.05, 1.0, "from 0.05 to 1"),
    ("core.socket_run", 1.0, 1_000.0, "from 1 to 1,000 transfers"),
    ("sched.switch_ns", 1.0, 1e7, "from 1 to 10,000,000 ns"),
    ("sched.wake_cost_ns", 1.0, 1e7, "from 1 to 10,000,000 ns"),
    ("sched.wake_latency_ns", 1.0, 1e8, "from 1 to 100,000,000 ns"),
    ("sched.wakeup_granularity_ns", 0.0, 1e9, "from 0 to 1,000,000,000 ns"),
    ("sched.slice_ns", 1_000.0, 1e9, "from 1,000 to 1,000,000,000 ns"),
    ("sched.ipi_send_ns", 0.0, 1e7, "from 0 to 10,000,000 ns"),
    ("sched.ipi_receive_ns", 0.0, 1e7, "from 0 to 10,000,000 ns"),
];

const BUILT_IN: &[&str] = &[
    include_str!("../machines/westmere-ep.toml"),
    include_str!("../machines/westmere-ex.toml"),
    include_str!("../machines/sandybridge-ep.toml"),
    include_str!("../machines/broadwell.toml"),
    include_str!("../machines/cascadelake.toml"),
    include_str!("../machines/icelake-sp.toml"),
    include_str!("../machines/icelake-sp-192.toml"),
    include_str!("../machines/sapphirerapids.toml"),
    include_str!("../machines/rome.toml"),
    include_str!("../machines/milan.toml"),
    include_str!("../machines/zen4.toml"),
    include_str!("../machines/graviton2.toml"),
    include_str!("../machines/graviton3.toml"),
    include_str!("../machines/m1-pro.toml"),
    include_str!("../machines/m1-ultra.toml"),
    include_str!("../machines/kunpeng.toml"),
];

/// The machines that ship with tussle.
pub fn built_in() -> Vec<Machine> {
    BUILT_IN.iter().filter_map(|text| Machine::from_toml(text).ok()).collect()
}

/// A built-in machine by its name.
///
/// # Errors
/// [`MachineError::UnknownMachine`].
pub fn find(name: &str) -> Result<Machine, MachineError> {
    let all = built_in();
    let close = near_paths(all.iter().map(|m| m.name.as_str()), name, 3);
    all.into_iter()
        .find(|m| m.name == name)
        .ok_or_else(|| MachineError::UnknownMachine(name.into(), also(&close)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_profile_is_valid_and_named_after_its_topology() {
        for text in BUILT_IN {
            let m = Machine::from_toml(text).unwrap();
            assert!(m.name.starts_with(&format!("{}s-", m.sockets)), "{}", m.name);
            assert!(m.name.ends_with(&format!("-{}", m.cpus())), "{} has {}", m.name, m.cpus());
            assert!(m.unsourced || m.latency_ns.source.len() > 20, "{}", m.name);
            assert_eq!(Machine::from_toml(&m.to_toml().unwrap()).unwrap(), m);
        }
        assert_eq!(built_in().len(), BUILT_IN.len());
    }

    #[test]
    fn bad_profiles_are_refused() {
        let good = find("2s-icelake-sp-96").unwrap();
        let with = |key: &str, value: f64| {
            let mut m = good.clone();
            m.set(key, value).unwrap();
            m.validate().unwrap_err().to_string()
        };
        assert!(with("latency_ns.socket", 0.0).contains("latency_ns.socket = 0"));
        assert!(with("latency_ns.cross", f64::NAN).contains("NaN"));
        assert!(with("line_bytes", 48.0).contains("64 or 128"));
        let mut m = good.clone();
        m.sockets = 5_000;
        assert!(m.validate().unwrap_err().to_string().contains("1 to 1024"));
        m.sockets = u32::MAX;
        assert!(m.validate().is_err());
        assert!(good.clone().set("latency", 1.0).is_err());
        assert!(Machine::from_toml("name = 'x'\nwarp = 9").is_err());
        let mut m = good;
        m.latency_ns.cross = None;
        assert!(m.validate().is_err());
    }

    #[test]
    fn bad_profile_files_say_what_is_wrong() {
        let good = find("2s-icelake-sp-96").unwrap().to_toml().unwrap();
        let check = |from: &str, to: &str, want: &str| {
            assert!(good.contains(from), "{from}");
            let error = Machine::from_toml(&good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(want), "{to}: {error}");
        };
        check("socket = 51.0", "socket = 0.0", "latency_ns.socket = 0 is not from 0.5 to 100,000 ns");
        check("socket = 51.0", "socket = nan", "latency_ns.socket = NaN is not");
        check("socket = 51.0", "socket = inf", "latency_ns.socket = inf is not");
        check("socket = 51.0", "socket = -4.0", "latency_ns.socket = -4 is not");
        check("socket = 51.0", "socket = 'near'", "invalid type: string");
        check("socket = 51.0", "", "missing field `socket`");
        check("cross = 108.0", "", "latency_ns.cross = NaN is not given");
        check("cores_per_cluster = 24", "cores_per_cluster = 2500", "cpus = 10000 is not from 1 to 1024");
        check("cores_per_cluster = 24", "cores_per_cluster = 0", "cpus = 0 is not from 1 to 1024");
        check("cores_per_cluster = 24", "cores_per_cluster = -1", "invalid value");
        check("line_bytes = 64", "line_bytes = 65", "64 or 128");
        check("rmw_ns = 7.0", "rmw_ns = 7.0\nwarp = 9.0", "unknown field `warp`");
        check("switch_ns = 1300.0", "switch_ns = nan", "sched.switch_ns = NaN is not");
        check("name = ", "colour = 'red'\nname = ", "unknown field `colour`");
        assert!(Machine::from_toml("").unwrap_err().to_string().contains("missing field `name`"));
        assert!(Machine::from_toml("\0\u{1}[[[").unwrap_err().to_string().starts_with("machine profile: "));
    }

    #[test]
    fn distances_follow_linux_numbering() {
        let m = find("2s-icelake-sp-96").unwrap();
        assert_eq!(m.distance(0, 0), Distance::Own);
        assert_eq!(m.distance(0, 48), Distance::Smt);
        assert_eq!(m.distance(0, 23), Distance::Cluster);
        assert_eq!(m.distance(0, 24), Distance::Cross);
        assert_eq!(m.distance(3, 24 + 48), Distance::Cross);
        let rome = built_in().into_iter().find(|m| m.name.contains("rome")).unwrap();
        assert_eq!(rome.distance(0, 3), Distance::Cluster);
        assert_eq!(rome.distance(0, 4), Distance::Socket);
    }
}
