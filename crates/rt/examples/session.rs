//! Prints what a session folder holds: `session FOLDER`.

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let dir = std::env::args_os().nth(1).expect("a session folder");
    let (e, unusable) = common::read(std::path::Path::new(&dir), tussle_rt::convert::Keep::Shared);
    let c = common::observed(&e);
    println!("{} processes, {} threads, {} rows", e.processes.len(), e.actors.len(), e.accesses.len());
    for l in c.lines.iter().take(12) {
        println!(
            "{:#x} E {:.0} of {:.0}, removable {:.0}",
            l.address,
            l.ranked_e(),
            l.accesses,
            l.cost.removable()
        );
    }
    for l in &e.losses {
        println!("lost {}: {} ({})", l.what, l.count, l.note);
    }
    println!("unusable {unusable:?}");
}
