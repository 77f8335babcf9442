//! Evidence told as of another folder: of a program that was built in a copy, as if the copy were the folder; for
//! somebody who stands in a folder, from there.

use crate::tables::Evidence;
use tussle_model::Type;

/// Source paths, places in explanations and the recorded command that lie below the folder `from` lie below `to`
/// afterwards. Both are absolute, without a slash at the end. Files that were recorded (executables, libraries) keep
/// their paths: what lies at the same place below `to` is another build.
pub fn rehome(e: &mut Evidence, from: &str, to: &str) {
    if !from.is_empty() && from != to {
        move_below(e, &format!("{from}/"), &format!("{to}/"));
    }
}

/// The same paths as somebody writes them who stands in `folder` (absolute, without a slash at the end): relative, if
/// they lie below it.
pub fn seen_from(e: &mut Evidence, folder: &str) {
    if folder.len() > 1 {
        move_below(e, &format!("{folder}/"), "");
    }
}

/// Both end with a slash, or `home` is empty.
fn move_below(e: &mut Evidence, inside: &str, home: &str) {
    e.others.iter_mut().for_each(|other| move_below(other, inside, home));
    let path = |file: &mut String| {
        if let Some(rest) = file.strip_prefix(inside) {
            *file = format!("{home}{rest}");
        }
    };
    let text = |text: &mut String| {
        if text.contains(inside) {
            *text = text.replace(inside, home);
        }
    };
    // The program is named as one names it there.
    for word in &mut e.run.command {
        *word = word.replace(inside, "./");
    }
    e.code.iter_mut().flat_map(|c| &mut c.frames).for_each(|f| path(&mut f.file));
    e.objects.iter_mut().for_each(|o| text(&mut o.why));
    e.losses.iter_mut().for_each(|l| text(&mut l.note));
    declarations(e, inside, path);
}

fn declarations(e: &mut Evidence, inside: &str, moved: impl Fn(&mut String)) {
    let declared = |t: &Type| match t {
        Type::Aggregate(a) => a.decl.as_ref().is_some_and(|d| d.file.starts_with(inside)),
        _ => false,
    };
    let all: Vec<_> = e.types.iter().filter(|(_, t)| declared(t)).map(|(id, t)| (id, t.clone())).collect();
    for (id, mut ty) in all {
        if let Type::Aggregate(a) = &mut ty {
            a.decl.iter_mut().for_each(|at| moved(&mut at.file));
        }
        e.types.set(id, ty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn sources_and_command_lie_in_the_folder_afterwards() {
        let mut s = Sample::two_counters();
        s.code("serve", "/tmp/copy/src/server.c", 7, &[]);
        s.code("log", "/tmp/copy2/log.c", 7, &[]);
        let e = s.tables();
        e.run.command = vec!["/tmp/copy/server".into(), "--in=/tmp/copy/data".into(), "/tmp/copy".into()];
        e.objects[0].why = "sizeof at /tmp/copy/src/server.c:9".into();
        rehome(e, "/tmp/copy", "/home/me/server");
        assert_eq!(e.run.command, ["./server", "--in=./data", "/tmp/copy"]);
        assert_eq!(e.objects[0].why, "sizeof at /home/me/server/src/server.c:9");
        let files: Vec<&str> = e.code.iter().flat_map(|c| &c.frames).map(|f| f.file.as_str()).collect();
        assert!(files.contains(&"/home/me/server/src/server.c"), "{files:?}");
        assert!(files.contains(&"/tmp/copy2/log.c"), "another folder of a like name: {files:?}");
    }

    #[test]
    fn who_stands_in_the_folder_sees_paths_from_there() {
        let mut s = Sample::two_counters();
        s.code("serve", "/home/me/server/src/server.c", 7, &[]);
        s.code("log", "/mnt/home/me/server/log.c", 7, &[]);
        let e = s.tables();
        e.run.command = vec!["/home/me/server/serve".into()];
        seen_from(e, "/home/me/server");
        assert_eq!(e.run.command, ["./serve"]);
        let files: Vec<&str> = e.code.iter().flat_map(|c| &c.frames).map(|f| f.file.as_str()).collect();
        assert!(files.contains(&"src/server.c"), "{files:?}");
        assert!(files.contains(&"/mnt/home/me/server/log.c"), "a folder inside of another: {files:?}");
        seen_from(e, "/");
        assert!(e.code.iter().flat_map(|c| &c.frames).any(|f| f.file.starts_with("/mnt/")));
    }
}
