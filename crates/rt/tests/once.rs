//! Whoever comes by what is done once goes on after it was done.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab, observed, total_e};

const STORES: f64 = 300_000.0;

#[test]
fn what_is_done_once_comes_before_all_that_follows() {
    let Some(lab) = Lab::new() else { return };
    // The C++ library's guards, and the runtime's own for programs that are linked to it as an archive.
    for flags in [&["-Wl,--no-as-needed", "-lstdc++"][..], &[]] {
        let exe = lab.build("once", flags);
        let share = |arguments: &[&str]| {
            let ran = lab.run(&exe, arguments, How::default());
            assert_eq!((ran.status, &ran.unusable[..]), (0, &[][..]), "{arguments:?}");
            assert!(
                arguments == ["nothing"] || ran.stdout == "11249925000\n",
                "{arguments:?}: {}",
                ran.stdout
            );
            total_e(&observed(&ran.evidence), true) / STORES
        };
        for how in ["pthread", "c11", "guard"] {
            for late in [&[how][..], &[how, "late"]] {
                let got = share(late);
                assert!(got < 0.01, "{late:?} {flags:?}: {got}");
            }
        }
        let together = share(&["nothing"]);
        assert!(together > 0.3, "{together}");
    }
}
