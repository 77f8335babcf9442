//! Code addresses to functions, files, lines and columns.

use std::collections::HashMap;

use tussle_evidence::{Evidence, Frame};

use crate::image::Images;

/// The header by which programs tell of themselves.
const MARKS: &str = "/tussle.h";

/// Fills `frames` of every code row whose module can be read.
pub(crate) fn name(evidence: &mut Evidence, images: &mut Images) {
    let mut known: HashMap<(usize, u64), Vec<Frame>> = HashMap::new();
    let mut unnamed: HashMap<u32, u64> = HashMap::new();
    for i in 0..evidence.code.len() {
        let row = &evidence.code[i];
        let Some(module) = row.module else { continue };
        let Some(bias) = evidence.modules.get(module as usize).map(|m| m.bias) else { continue };
        let svma = row.address.wrapping_sub(bias);
        let Some(image) = images.of_module(evidence, module) else { continue };
        let frames = known.entry((image, svma)).or_insert_with(|| frames_at(images, image, svma));
        if frames.iter().all(|f| f.line == 0) {
            *unnamed.entry(module).or_default() += 1;
        }
        evidence.code[i].frames = frames.clone();
    }
    for (module, rows) in unnamed {
        let path = evidence.modules[module as usize].path.clone();
        let why = match images.of_module(evidence, module) {
            Some(id) if !images.get(id).symbols.has_debug_info => {
                "no debug information: compile with -g or install the package's -dbgsym"
            }
            _ => "code without line information",
        };
        images.problem(&path, format!("{why} ({rows} code addresses are named by symbol at best)"));
    }
}

fn frames_at(images: &Images, image: usize, svma: u64) -> Vec<Frame> {
    let frames = images.get(image).symbols.frames(svma);
    let convert = |f: tussle_debuginfo::symbols::CodeFrame| Frame {
        function: f.function,
        file: f.file,
        line: f.line,
        column: f.column,
    };
    let mut frames: Vec<Frame> = frames.into_iter().map(convert).collect();
    // What marks something is not who does it.
    let marks = frames.iter().take_while(|f| f.file.ends_with(MARKS)).count();
    if marks < frames.len() {
        frames.drain(..marks);
    }
    frames
}
