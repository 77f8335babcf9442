//! Speed of the simulator: every scenario on 224 CPUs, and one draw of a prediction.
//!
//! The figure to hold is scenario mmap_lock at 224 CPUs: at least 10 million accesses per second on one core, and a
//! millisecond of simulated time in less than a second. Criterion counts accesses as elements of throughput.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tussle_scenarios::predict::{self, Ablation, Comparison, Job};
use tussle_scenarios::{Setup, Side, Story, World};
use tussle_sim::{Config, machine, simulate};

const CPUS: u32 = 224;

fn runs(c: &mut Criterion) {
    let machine = machine::find("2s-sapphirerapids-224").expect("a built-in machine");
    let mut group = c.benchmark_group("224 CPUs");
    group.sample_size(10);
    for story in Story::ALL {
        for name in [story.about().before, story.about().after] {
            let world =
                World::build(story, &Side::Name(name.into()), &Setup::new(CPUS)).expect("a built-in variant");
            let config = Config::new(CPUS, 1_000_000, 1);
            let run = simulate(&world, &machine, &config).expect("a built-in scenario runs");
            group.throughput(Throughput::Elements(run.whole.accesses));
            group.bench_function(format!("{} {name}", story.about().name), |b| {
                b.iter(|| simulate(&world, &machine, &config).expect("it ran before"))
            });
        }
    }
    group.finish();
}

fn draws(c: &mut Criterion) {
    let mut group = c.benchmark_group("one draw");
    group.sample_size(10);
    for story in Story::ALL {
        let question = Comparison::of(story).expect("a built-in machine");
        let job = Job { cpus: story.about().cpus, draw: 1, ablation: Ablation::None };
        group.bench_function(story.about().name, |b| {
            b.iter(|| predict::run(&question, &job).expect("a built-in scenario runs"))
        });
    }
    group.finish();
}

criterion_group!(benches, runs, draws);
criterion_main!(benches);
