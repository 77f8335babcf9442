//! Whose a thread's memory is: frames of its functions, or its variables.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab};
use tussle_evidence::ObjectKind;

#[test]
fn frames_of_a_thread_are_no_variables_of_it() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("thread_memory", &[]);
    for (mode, kind) in [("stack", ObjectKind::Stack), ("tls", ObjectKind::Tls)] {
        let ran = lab.run(&exe, &[mode], How::default());
        assert_eq!(ran.status, 0, "{mode}");
        let stores = |a: &&tussle_evidence::Access| a.writes >= 1000;
        let mut hot: Vec<ObjectKind> = ran
            .evidence
            .accesses
            .iter()
            .filter(stores)
            .map(|a| ran.evidence.objects[a.object as usize].kind)
            .collect();
        hot.dedup();
        assert_eq!(hot, [kind], "{mode}");
    }
}
