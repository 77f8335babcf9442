//! Precise loads and stores, where the processor samples them: which events there are, and whether they open.
//!
//! `/sys/bus/event_source/devices` says what a processor has: Intel's `mem-loads` and `mem-stores` (PEBS, on hybrid
//! processors for both kinds of cores), AMD's `ibs_op`. Many virtual machines show events that do not open: only
//! opening tells.

use super::error::{LiveError, paranoid};
use super::event::{Attr, Event, flag};
use super::{Sampling, clock};
use std::fs;
use std::io;
use std::path::Path;
use tussle_live::decode;

/// Where the kernel lists what can be sampled.
pub(super) const DEVICES: &str = "/sys/bus/event_source/devices";

/// Loads that took fewer cycles are left out, where the processor can: a line that another core holds takes more.
const LATENCY_MIN: u64 = 30;

/// Instructions between event and sample: none.
const PRECISE_MAX: u64 = 3;

/// `perf_event_attr.precise_ip` in the flags.
const PRECISE_SHIFT: u32 = 15;

/// An event that samples loads or stores, ready to be opened but for whom it watches.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Precise {
    /// As perf calls it.
    pub name: String,
    pub attr: Attr,
    /// An event that has to lead a group with it.
    pub leader: Option<Attr>,
    /// CPUs that have it; `None`: all.
    pub cpus: Option<Vec<i32>>,
}

/// Opens events for a trial.
pub(super) trait Opener {
    /// Whether the event opens on the calling thread, behind its leader.
    fn opens(&mut self, leader: Option<&Attr>, attr: &Attr) -> io::Result<()>;
}

/// This machine.
pub(super) struct Machine;

impl Opener for Machine {
    fn opens(&mut self, leader: Option<&Attr>, attr: &Attr) -> io::Result<()> {
        let leader = leader.map(|l| Event::open(l, 0, -1)).transpose()?;
        Event::in_group(attr, 0, -1, leader.as_ref()).map(drop)
    }
}

/// What to sample.
#[derive(Debug)]
pub(super) enum Choice {
    /// The software clock, and what people should know about why.
    Software(Option<String>),
    /// These events.
    Precise(Vec<Precise>),
}

/// The PMU where it opens, unless something else is asked for.
///
/// # Errors
/// It is asked for and does not open.
pub(super) fn choose(wanted: Sampling, devices: &Path, opener: &mut dyn Opener) -> Result<Choice, LiveError> {
    if wanted == Sampling::Software {
        return Ok(Choice::Software(None));
    }
    let found = find(devices);
    if found.is_empty() {
        return match wanted {
            Sampling::Pmu => Err(LiveError::NoPmu(missing(devices).into())),
            _ => Ok(Choice::Software(None)),
        };
    }
    match found.into_iter().map(|event| tried(event, opener)).collect() {
        Ok(events) => Ok(Choice::Precise(events)),
        Err(why) if wanted == Sampling::Pmu => Err(LiveError::NoPmu(why)),
        Err(why) => {
            let remark = format!("the PMU's precise samples are not used: {why}; software clock");
            Ok(Choice::Software(Some(remark)))
        }
    }
}

fn missing(devices: &Path) -> &'static str {
    match fs::read_dir(devices).into_iter().flatten().flatten().any(|d| d.file_name() == "cpu") {
        true => "this machine's PMU has no event for precise loads and stores (a virtual machine?)",
        false => "this machine shows no PMU (a virtual machine?)",
    }
}

/// The event as precise as it opens.
fn tried(mut event: Precise, opener: &mut dyn Opener) -> Result<Precise, String> {
    let ibs = event.attr.flags >> PRECISE_SHIFT & PRECISE_MAX == 0;
    let steps: Vec<u64> = if ibs { vec![0] } else { (1..=PRECISE_MAX).rev().collect() };
    let mut last = None;
    for precise in steps {
        event.attr.flags = event.attr.flags & !(PRECISE_MAX << PRECISE_SHIFT) | precise << PRECISE_SHIFT;
        match opener.opens(event.leader.as_ref(), &event.attr) {
            Ok(()) => return Ok(event),
            Err(e) => last = Some(e),
        }
    }
    Err(format!("{} {}", event.name, last.map_or("does not open".into(), |e| why(&e))))
}

fn why(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => format!(
            "is refused (kernel.perf_event_paranoid is {}; CAP_PERFMON, or a container's seccomp filter)",
            paranoid().unwrap_or("unknown".into())
        ),
        Some(libc::EINVAL | libc::ENOENT | libc::ENODEV | libc::ENODATA | libc::EOPNOTSUPP) => {
            format!("cannot be opened on a thread by this kernel or virtual machine ({e})")
        }
        _ => format!("does not open: {e}"),
    }
}

/// The events that this machine lists.
pub(super) fn find(devices: &Path) -> Vec<Precise> {
    let ibs = ibs(&devices.join("ibs_op"));
    let cores = ["cpu", "cpu_core", "cpu_atom"];
    ibs.into_iter().chain(cores.iter().flat_map(|c| pebs(&devices.join(c), c))).collect()
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|t| t.trim().to_string())
}

fn attr(device: &Path) -> Option<Attr> {
    let layout = decode::precise_attr();
    let kind = read(&device.join("type"))?.parse().ok()?;
    Some(Attr { kind, sample_type: layout.sample_type, ..Attr::default() })
}

/// AMD: every so many cycles one operation is followed through the processor.
fn ibs(device: &Path) -> Option<Precise> {
    let mut attr = attr(device)?;
    // Older kernels refuse every exclusion; samples of the kernel's code are thrown away then.
    if let Some(format) = read(&device.join("format/swfilt")) {
        put(&mut attr, &format, 1)?;
        attr.flags |= flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
    }
    Some(Precise { name: "ibs_op".into(), attr, leader: None, cpus: None })
}

/// Intel: both or none. Who loads and who stores are only one picture together.
fn pebs(device: &Path, core: &str) -> Vec<Precise> {
    let event = |name: &str| {
        let text = read(&device.join("events").join(name))?;
        let mut attr = attr(device)?;
        for term in text.split(',') {
            let (key, value) = term.split_once('=').unwrap_or((term, "1"));
            let value = match (key, number(value)?) {
                ("ldlat", n) => n.max(LATENCY_MIN),
                (_, n) => n,
            };
            put(&mut attr, &read(&device.join("format").join(key))?, value)?;
        }
        attr.flags |= flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
        Some(attr)
    };
    let cpus = read(&device.join("cpus")).map(|t| clock::list(&t));
    let precise = |name: &str, leader: Option<Attr>| {
        let mut attr = event(name)?;
        attr.flags |= PRECISE_MAX << PRECISE_SHIFT;
        Some(Precise { name: format!("{core}/{name}/"), attr, leader, cpus: cpus.clone() })
    };
    let leader = event("mem-loads-aux").map(|a| Attr { sample_type: 0, ..a });
    match (precise("mem-loads", leader), precise("mem-stores", None)) {
        (Some(loads), Some(stores)) => vec![loads, stores],
        _ => Vec::new(),
    }
}

/// `0xcd` or `3`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Puts a value where a file of `format` says: `config:0-7,32-35`, `config1:0-15`.
fn put(attr: &mut Attr, format: &str, value: u64) -> Option<()> {
    let (word, bits) = format.split_once(':')?;
    let mut left = value;
    let mut placed = 0u64;
    for range in bits.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        for bit in first..=last.min(63) {
            placed |= (left & 1) << bit;
            left >>= 1;
        }
    }
    match word {
        "config" => attr.config |= placed,
        "config1" => attr.bp_addr |= placed,
        "config2" => attr.bp_len |= placed,
        _ => return None,
    }
    (left == 0).then_some(())
}

#[cfg(test)]
#[path = "pmu_tests.rs"]
mod tests;
