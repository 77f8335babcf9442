//! Threads that C++'s library starts: their start routine is the library's, what they run is the program's function or
//! lambda, by the place of its definition.

use std::collections::HashMap;

use tussle_evidence::{ActorKind, Code, Evidence, Frame};
use tussle_model::Type;

use crate::image::Images;
use crate::site::{Site, Sites};

/// What `std::thread` hands to the system; without symbols it has no name.
const START: &str = "execute_native_thread_routine";

/// A header of the compiler's library.
fn is_library(frame: &Frame) -> bool {
    frame.file.contains("/include/c++/")
}

/// Gives threads without a start routine of their own the outermost function of the program that ran in them.
pub(crate) fn threads(e: &mut Evidence, images: &mut Images, sites: &mut Sites) {
    let mut found: HashMap<u32, (u32, usize)> = HashMap::new();
    for t in &e.touches {
        let Some(actor) = t.actor.filter(|a| !found.contains_key(a) && is_started_by_library(e, *a)) else {
            continue;
        };
        if let Some(place) = outermost(e, t.code) {
            found.insert(actor, place);
        }
    }
    let mut found: Vec<(u32, (u32, usize))> = found.into_iter().collect();
    found.sort_unstable();
    let mut rows: HashMap<(u32, String), u32> = HashMap::new();
    for (actor, (code, at)) in found {
        let function = called(e, images, sites, code, at);
        let next = e.code.len() as u32;
        let row = *rows.entry((e.code[code as usize].process, function.clone())).or_insert(next);
        if row == next {
            let like = &e.code[code as usize];
            let frames = vec![Frame { function, ..like.frames[at].clone() }];
            e.code.push(Code { frames, chain: Vec::new(), ..like.clone() });
        }
        e.actors[actor as usize].start = Some(row);
    }
}

fn is_started_by_library(e: &Evidence, actor: u32) -> bool {
    let thread = |a: &&tussle_evidence::Actor| a.kind == ActorKind::Thread && a.creator.is_some();
    let Some(a) = e.actors.get(actor as usize).filter(thread) else { return false };
    let start = a.start.and_then(|s| e.code.get(s as usize)).and_then(|c| c.frames.first());
    start.is_none_or(|f| f.function.starts_with(START))
}

/// Row and frame of the first function of the program above the library's own at the bottom of the stack.
fn outermost(e: &Evidence, code: u32) -> Option<(u32, usize)> {
    let row = e.code.get(code as usize)?;
    // The dynamic loader stands in front of the first call of another library's function.
    let own = |id: &u32| e.code.get(*id as usize).is_some_and(|c| !e.is_c_library_s(c));
    let outwards_in = row.chain.iter().rev().copied().chain([code]).filter(own);
    let frames = outwards_in.flat_map(|id| {
        let frames = e.code.get(id as usize).map_or(&[][..], |c| &c.frames);
        frames.iter().enumerate().rev().map(move |(i, f)| (id, i, f))
    });
    let mut inside = frames.skip_while(|(_, _, f)| !is_library(f));
    inside.find(|(_, _, f)| !is_library(f) && f.line > 0).map(|(id, i, _)| (id, i))
}

/// The function's name; a lambda has none but its place.
fn called(e: &Evidence, images: &mut Images, sites: &mut Sites, code: u32, at: usize) -> String {
    let frame = &e.code[code as usize].frames[at];
    if frame.function != "operator()" {
        return frame.function.clone();
    }
    let name = |file: &str| file.rsplit('/').next().unwrap_or_default().to_string();
    match sites.of_code(e, images, code).into_iter().nth(at).and_then(|site| line_of(images, &site)) {
        Some(line) => format!("lambda at {}:{line}", name(&frame.file)),
        None => format!("lambda in {}", name(&frame.file)),
    }
}

/// The line of a lambda: its function's, else that of its class.
fn line_of(images: &Images, site: &Site) -> Option<u32> {
    site.scope.decl_line.or_else(|| {
        let image = images.get(site.image);
        match image.types.get(image.types.strip(image.ty(site.scope.class)?)) {
            Type::Aggregate(a) => a.decl.as_ref().map(|d| d.line).filter(|line| *line > 0),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::{Run, Sees, Source};

    const THREAD: &str = "/usr/include/c++/12/bits/std_thread.h";

    fn row(address: u64, frames: &[(&str, &str)], chain: &[u32]) -> Code {
        let frame = |(function, file): &(&str, &str)| Frame {
            function: (*function).into(),
            file: (*file).into(),
            line: 7,
            column: 1,
        };
        let frames = frames.iter().map(frame).collect();
        Code { process: 0, module: None, address, frames, chain: chain.to_vec() }
    }

    #[test]
    fn the_programs_outermost_function_is_above_the_librarys() {
        let mut e = Evidence::empty(Run::new(Source::Recorder, 1, Sees::ACCESSES));
        let inlined =
            [("operator()", "/home/me/app.cc"), ("std::__invoke<L>", "/usr/include/c++/12/bits/invoke.h")];
        e.code = vec![
            row(
                1,
                &[("std::vector<long>::push_back(long const&)", "/usr/include/c++/12/bits/stl_vector.h")],
                &[1, 2],
            ),
            row(2, &inlined, &[]),
            row(3, &[("std::thread::_State_impl<L>::_M_run()", THREAD)], &[]),
            row(4, &[("work(int)", "/home/me/app.cc")], &[4]),
        ];
        assert_eq!(outermost(&e, 0), Some((1, 0)));
        assert_eq!(outermost(&e, 3), None, "no library below: a start routine of the program's own");
    }
}
