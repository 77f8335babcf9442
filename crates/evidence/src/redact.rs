//! Evidence that can be given away: what it says about fields stays, what it says about whose machine goes.

use crate::tables::*;
use tussle_model::Type;

/// What stands for a text that was taken out.
const GONE: &str = "[redacted]";

/// Removes command, flags, start time, input hash, folders of all paths, names of executables and libraries, and texts
/// that quote the machine or the source. Names of functions, types, fields, threads and of source files without their
/// folders stay: a report is about them.
pub fn redact(e: &mut Evidence) {
    e.others.iter_mut().for_each(redact);
    let run = &mut e.run;
    run.command = vec![GONE.into()];
    (run.started_unix_s, run.flags, run.input_hash) = (None, None, None);
    for p in &mut e.processes {
        (p.exe, p.build_id) = (GONE.into(), None);
    }
    for (i, m) in e.modules.iter_mut().enumerate() {
        // Whose data it is follows from this name, which is everybody's.
        let path = if m.is_c_library() { base(&m.path) } else { format!("module {i}") };
        (m.path, m.build_id) = (path, None);
    }
    for r in e.regions.iter_mut().flatten() {
        // Which memory is the same must stay; which file of which disk it is need not.
        r.device = r.device.map(|_| 0);
    }
    e.code.iter_mut().flat_map(|c| &mut c.frames).for_each(|f| f.file = base(&f.file));
    e.objects.iter_mut().for_each(|o| o.why = without_paths(&o.why));
    for l in &mut e.losses {
        (l.what, l.note) = (without_paths(&l.what), without_paths(&l.note));
    }
    declarations(e);
}

/// File names of declarations lose their folders.
fn declarations(e: &mut Evidence) {
    let all: Vec<_> = e.types.iter().map(|(id, t)| (id, t.clone())).collect();
    for (id, mut ty) in all {
        if let Type::Aggregate(a) = &mut ty
            && let Some(at) = &mut a.decl
        {
            at.file = base(&at.file);
            e.types.set(id, ty);
        }
    }
}

fn base(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().into()
}

/// Every word that holds a path loses its folders.
fn without_paths(text: &str) -> String {
    text.split(' ').map(base).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn nothing_of_the_machine_is_left_in_the_file() {
        let mut s = Sample::two_counters();
        s.code("serve", "/home/jane/secret/server.c", 7, &[]);
        let e = s.tables();
        e.run.command = vec!["/home/jane/secret/server".into(), "--password=hunter2".into()];
        e.processes[0].exe = "/home/jane/secret/server".into();
        e.modules.push(Module {
            process: 0,
            path: "/home/jane/secret/server".into(),
            build_id: Some("abcdef".into()),
            start: 0,
            end: 1,
            bias: 0,
        });
        e.objects[0].why = "sizeof at /home/jane/secret/server.c:9".into();
        e.losses.push(Loss {
            process: None,
            what: "file".into(),
            count: 1,
            note: "/home/jane/secret/x could not be read".into(),
        });
        let mut e = s.evidence();
        let fields = e.types.len();
        redact(&mut e);
        let mut out = Vec::new();
        crate::file::write_jsonl(&e, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for word in ["jane", "secret", "hunter2", "abcdef", "/home"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        assert!(text.contains("server.c") && text.contains("hits"), "names of fields and files stay");
        assert_eq!(e.types.len(), fields);
    }
}
