//! How fast a scenario is simulated: `cargo run --release --example speed -p tussle-scenarios -- mmap_lock 224
//! 2s-sapphirerapids-224 [factor on its simulated time]`.

use std::error::Error;
use std::time::Instant;
use tussle_scenarios::{Setup, Side, Story, World};
use tussle_sim::{Config, machine, simulate};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let story = Story::find(args.first().map_or("mmap_lock", |s| s.as_str()))?;
    let cpus: u32 = args.get(1).map_or(Ok(224), |s| s.parse())?;
    let machine = machine::find(args.get(2).map_or("2s-sapphirerapids-224", |s| s.as_str()))?;
    let factor: u64 = args.get(3).map_or(Ok(1), |s| s.parse())?;
    for name in [story.about().before, story.about().after] {
        let start = Instant::now();
        let world = World::build(story, &Side::Name(name.into()), &Setup::new(cpus))?;
        let built = start.elapsed().as_secs_f64();
        let config = Config::new(cpus, story.about().run_ns * factor, 1);
        let run = simulate(&world, &machine, &config)?;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{} {name}: {:.0} operations/s, {:.2} ms simulated in {seconds:.3} s (objects built in {built:.3} s), \
             {:.1} million accesses/s, {:.1} million events/s, {} accesses",
            story.about().name,
            run.throughput(),
            run.whole.end_ns as f64 / 1e6,
            run.whole.accesses as f64 / seconds / 1e6,
            run.whole.events as f64 / seconds / 1e6,
            run.whole.accesses,
        );
    }
    Ok(())
}
