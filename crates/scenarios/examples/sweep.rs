//! Throughput of both sides over think factors: `sweep 000 48`.
use tussle_scenarios::{Setup, Side, Story, World};
use tussle_sim::{Config, machine, simulate};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let story = Story::find(&args[1]).unwrap();
    let a = story.about();
    let m = machine::built_in()
        .into_iter()
        .find(|m| m.name == args.get(3).map_or(a.machine, |s| s.as_str()))
        .unwrap();
    for cpus in args[2].split(',').map(|c| c.parse::<u32>().unwrap()) {
        for think in [0.3, 0.5, 0.7, 1.0, 1.5, 2.0] {
            let mut out = format!("{cpus:4} think {think:4}");
            for seed in 0..3 {
                let run = |side: &str| {
                    let mut setup = Setup::new(cpus);
                    setup.phase = seed * 7 + 1;
                    setup.think = think;
                    let world = World::build(story, &Side::Name(side.into()), &setup).unwrap();
                    let r = simulate(&world, &m, &Config::new(cpus, a.run_ns, seed)).unwrap();
                    (r.throughput(), r.counters.switches, r.fairness())
                };
                let (b, c) = (run(a.before), run(a.after));
                out += &format!(
                    "  {:9.0} {:+6.2}% sw {:+6.1}% f {:.2} {:.2}",
                    b.0,
                    (c.0 / b.0 - 1.0) * 100.0,
                    (c.1 as f64 / b.1.max(1) as f64 - 1.0) * 100.0,
                    b.2,
                    c.2
                );
            }
            println!("{out}");
        }
    }
}
