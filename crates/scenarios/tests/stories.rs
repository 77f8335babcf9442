//! Every story runs to its end in the simulator, in every variant, with its objects right.

use tussle_scenarios::{Setup, Side, Story, World};
use tussle_sim::{Config, machine, simulate};

#[test]
fn every_variant_of_every_story_ends_with_its_objects_right() {
    for story in Story::ALL {
        let about = story.about();
        let machine = machine::find(about.machine).unwrap();
        for name in about.variants {
            for cpus in [1, 3, 8] {
                let mut setup = Setup::new(cpus);
                setup.phase = 5;
                let world = World::build(story, &Side::Name((*name).into()), &setup).unwrap();
                let run = simulate(&world, &machine, &Config::new(cpus, about.run_ns, 3));
                match run {
                    Ok(run) => assert!(run.operations > 0, "{} {name} on {cpus}: nothing done", about.name),
                    Err(e) => panic!("{} {name} on {cpus}: {e}", about.name),
                }
            }
        }
    }
}
