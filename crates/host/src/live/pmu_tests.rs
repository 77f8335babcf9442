//! Folders as kernels show them, and kernels that refuse as kernels do; there is no PMU where these tests run.

#![allow(clippy::unwrap_used)]

use super::*;
use tussle_perf::attr::bit;

/// Files of a device: (path below it, content).
fn device(root: &Path, name: &str, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(name).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
}

const FORMAT: [(&str, &str); 3] =
    [("format/event", "config:0-7"), ("format/umask", "config:8-15"), ("format/ldlat", "config1:0-15")];

fn intel(root: &Path, name: &str, kind: &str, more: &[(&str, &str)]) {
    device(root, name, &FORMAT);
    device(root, name, &[("type", kind), ("events/mem-loads", "event=0xcd,umask=0x1,ldlat=3")]);
    device(root, name, &[("events/mem-stores", "event=0xd0,umask=0x82")]);
    device(root, name, more);
}

/// A kernel: what it answers to an event behind a leader.
struct Kernel<F>(F, u32);

impl<F: FnMut(Option<&Attr>, &Attr) -> i32> Opener for Kernel<F> {
    fn opens(&mut self, leader: Option<&Attr>, attr: &Attr) -> io::Result<()> {
        self.1 += 1;
        match (self.0)(leader, attr) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

fn precise_ip(attr: &Attr) -> u64 {
    attr.flags >> PRECISE_SHIFT & 3
}

#[test]
fn events_of_intel_are_laid_out_as_the_kernel_says() {
    let root = tempfile::tempdir().unwrap();
    intel(root.path(), "cpu", "4", &[]);
    let found = find(root.path());
    let names: Vec<&str> = found.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["cpu/mem-loads/", "cpu/mem-stores/"]);
    let [loads, stores] = &found[..] else { panic!() };
    assert_eq!((loads.attr.kind, loads.attr.config, loads.attr.bp_addr), (4, 0x1cd, LATENCY_MIN));
    assert_eq!((stores.attr.config, stores.attr.bp_addr), (0x82d0, 0));
    let wanted = bit::ADDR | bit::DATA_SRC | bit::WEIGHT;
    assert!(
        found.iter().all(|p| p.attr.sample_type & wanted == wanted && p.leader.is_none() && p.cpus.is_none())
    );
    assert!(found.iter().all(|p| p.attr.flags & flag::EXCLUDE_KERNEL != 0));
}

/// Some processors want another event to lead; two kinds of cores have their own events.
#[test]
fn leaders_and_kinds_of_cores() {
    let root = tempfile::tempdir().unwrap();
    let aux = ("events/mem-loads-aux", "event=0x03,umask=0x82");
    intel(root.path(), "cpu_core", "4", &[aux, ("cpus", "0-3")]);
    intel(root.path(), "cpu_atom", "10", &[("cpus", "4-5,7")]);
    let mut kernel = Kernel(
        |leader: Option<&Attr>, a: &Attr| match (a.kind, a.config, leader) {
            (4, 0x1cd, None) => libc::ENODATA,
            (4, 0x1cd, Some(l)) if l.config != 0x8203 || l.sample_type != 0 => libc::EINVAL,
            _ => 0,
        },
        0,
    );
    let Ok(Choice::Precise(events)) = choose(Sampling::Best, root.path(), &mut kernel) else { panic!() };
    let cpus: Vec<_> = events.iter().map(|e| e.cpus.clone().unwrap()).collect();
    assert_eq!(cpus, [vec![0, 1, 2, 3], vec![0, 1, 2, 3], vec![4, 5, 7], vec![4, 5, 7]]);
    assert_eq!(events.iter().filter(|e| e.leader.is_some()).count(), 1);
    // The cores of a kind share the rate, and the first event of each tells of forks and mappings.
    let told = |e: &&Precise| e.attr.flags & flag::TASK != 0;
    let clock = crate::live::clock::Clock::precise(&events, 1000, false);
    assert_eq!(clock.sampled().iter().map(|e| e.attr.sample_period).collect::<Vec<_>>(), [500; 4]);
    assert_eq!(clock.sampled().iter().filter(told).count(), 2);
}

#[test]
fn the_most_precise_that_opens_is_taken() {
    let root = tempfile::tempdir().unwrap();
    intel(root.path(), "cpu", "4", &[]);
    let mut kernel =
        Kernel(|_: Option<&Attr>, a: &Attr| if precise_ip(a) > 2 { libc::EOPNOTSUPP } else { 0 }, 0);
    let Ok(Choice::Precise(events)) = choose(Sampling::Pmu, root.path(), &mut kernel) else { panic!() };
    assert!(events.iter().all(|e| precise_ip(&e.attr) == 2) && kernel.1 == 4);
}

/// Older kernels refuse every exclusion of IBS; newer ones have a bit that asks for it.
#[test]
fn ibs_excludes_the_kernel_where_it_can() {
    let root = tempfile::tempdir().unwrap();
    device(root.path(), "ibs_op", &[("type", "11"), ("format/cnt_ctl", "config:19")]);
    let excludes = flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV | flag::EXCLUDE_USER;
    let old = |_: Option<&Attr>, a: &Attr| {
        if a.flags & excludes != 0 || precise_ip(a) > 0 { libc::EINVAL } else { 0 }
    };
    let Ok(Choice::Precise(events)) = choose(Sampling::Best, root.path(), &mut Kernel(old, 0)) else {
        panic!()
    };
    assert_eq!((events.len(), events[0].attr.kind, events[0].attr.bp_len), (1, 11, 0));
    device(root.path(), "ibs_op", &[("format/swfilt", "config2:0")]);
    let events = find(root.path());
    assert_eq!(
        (events[0].attr.bp_len, events[0].attr.flags & flag::EXCLUDE_KERNEL),
        (1, flag::EXCLUDE_KERNEL)
    );
}

#[test]
fn what_does_not_open_is_said_and_the_software_clock_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let mut never = Kernel(|_: Option<&Attr>, _: &Attr| libc::ENOENT, 0);
    // Nothing there: nothing to say, unless it was asked for.
    assert!(matches!(choose(Sampling::Best, root.path(), &mut never), Ok(Choice::Software(None))));
    let Err(e) = choose(Sampling::Pmu, root.path(), &mut never) else { panic!() };
    assert!(e.to_string().contains("shows no PMU"), "{e}");
    device(root.path(), "cpu", &[("type", "4"), ("events/mem-loads", "event=0xcd")]);
    let Err(e) = choose(Sampling::Pmu, root.path(), &mut never) else { panic!() };
    assert!(e.to_string().contains("no event for precise loads and stores"), "{e}");
    assert_eq!(never.1, 0);
    intel(root.path(), "cpu", "4", &[]);
    for (errno, words) in [(libc::ENOENT, "virtual machine"), (libc::EACCES, "perf_event_paranoid")] {
        let mut kernel =
            Kernel(move |_: Option<&Attr>, a: &Attr| if a.config == 0x82d0 { errno } else { 0 }, 0);
        let Ok(Choice::Software(Some(why))) = choose(Sampling::Best, root.path(), &mut kernel) else {
            panic!()
        };
        assert!(why.contains("cpu/mem-stores/") && why.contains(words), "{why}");
        let Err(e) = choose(Sampling::Pmu, root.path(), &mut kernel) else { panic!() };
        assert!(e.to_string().contains(words), "{e}");
    }
    let opened = &mut Kernel(|_: Option<&Attr>, _: &Attr| 0, 0);
    assert!(matches!(choose(Sampling::Software, root.path(), opened), Ok(Choice::Software(None))));
    assert_eq!(opened.1, 0);
}
