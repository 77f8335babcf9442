//! The same bytes for the same input: on every machine, in debug and in release, on any number of cores.

use tussle_scenarios::predict::{self, Ablation, Comparison, Job};
use tussle_scenarios::{Setup, Side, Story, World};
use tussle_sim::{Config, machine, simulate};

/// 64-bit FNV-1a.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// A change of these figures is a change of the model: say so in the change log, and make `docs/validation.md` anew.
const KNOWN: &str = "\
mmap_lock regressed 651bc8d0b28044a4
mmap_lock fixed ade71789fad0df24
i_mmap shared 4ea51a6db9774c0c
i_mmap exchanged 8eb263bbd5c3bddf
vma_lock rwsem-split 2ae9d5c1b245ac62
vma_lock refcount ac879ceac18a4f5a
pcp_lists local d1616c95966f4ca0
pcp_lists spinlock-irq bf40f3e044ca4d4b
anon_vma mutex-3.10 49b4ee894f060895
anon_vma rwsem-3.10 531010fc692b849c
";

#[test]
fn stored_digests_of_every_scenario() {
    let mut got = String::new();
    for story in Story::ALL {
        let about = story.about();
        let machine = machine::find(about.machine).unwrap();
        for name in [about.before, about.after] {
            let mut setup = Setup::new(12);
            (setup.phase, setup.think, setup.work) = (77, 0.8, 1.1);
            let world = World::build(story, &Side::Name(name.into()), &setup).unwrap();
            let run = simulate(&world, &machine, &Config::new(12, about.run_ns / 4, 9)).unwrap();
            let said = format!("{run:?}");
            // What the struct is called is no part of the model.
            let figures = said.split_once(' ').unwrap().1;
            got += &format!("{} {name} {:016x}\n", about.name, digest(figures));
        }
    }
    assert_eq!(got, KNOWN, "\n{got}");
}

#[test]
fn threads_that_simulate_at_once_do_not_disturb_each_other() {
    let mut q = Comparison::of(Story::Fault).unwrap();
    q.run_ns = Some(60_000);
    let jobs: Vec<Job> = (0..8).map(|draw| Job { cpus: 7, draw, ablation: Ablation::None }).collect();
    let alone: Vec<_> = jobs.iter().map(|j| predict::run(&q, j).unwrap()).collect();
    let together: Vec<_> = std::thread::scope(|s| {
        let handles: Vec<_> = jobs.iter().map(|j| s.spawn(|| predict::run(&q, j).unwrap())).collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    });
    assert_eq!(alone, together);
}
