//! Prints one run of a story: `probe 000 regressed 48`.
use tussle_scenarios::{Setup, Side, Story, World};
use tussle_sim::{Config, machine, simulate};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let story = Story::find(&args[1]).unwrap();
    let a = story.about();
    let cpus: u32 = args[3].parse().unwrap();
    let m = machine::built_in()
        .into_iter()
        .find(|m| m.name == args.get(4).map_or(a.machine, |s| s.as_str()))
        .unwrap();
    let mut setup = Setup::new(cpus);
    setup.phase = args.get(5).map_or(1, |s| s.parse().unwrap());
    let world = World::build(story, &Side::Name(args[2].clone()), &setup).unwrap();
    let t = std::time::Instant::now();
    let run = simulate(&world, &m, &Config::new(cpus, a.run_ns, 3)).unwrap();
    let s = t.elapsed().as_secs_f64();
    println!("{} {} on {cpus}: {:.0}/s fair {:.3}", a.id, args[2], run.throughput(), run.fairness());
    println!("{:?}", run.counters);
    println!("{:.3} s, {:.1} M accesses/s", s, run.counters.accesses as f64 / s / 1e6);
    for f in run.by_field.iter().take(14) {
        println!("  {:40} {:8} {:8}", f.0, f.1, f.2);
    }
}
