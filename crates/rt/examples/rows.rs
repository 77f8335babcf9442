//! Prints rows of accesses of a session folder: `rows FOLDER`.

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let dir = std::env::args_os().nth(1).expect("a session folder");
    let (e, _) = common::read(std::path::Path::new(&dir), tussle_rt::convert::Keep::Shared);
    for a in e.accesses.iter().take(400) {
        let o = &e.objects[a.object as usize];
        println!(
            "{:#x} +{} actor {} vt {}..{} r {} w {} m {}",
            o.base + a.offset,
            a.size,
            a.actor,
            a.vt0,
            a.vt1,
            a.reads,
            a.writes,
            a.rmws
        );
    }
    let c = common::even(&e);
    for l in c.lines.iter().take(4) {
        println!("{:#x} even E {:.0} of {:.0}", l.address, l.ranked_e(), l.accesses);
    }
}
