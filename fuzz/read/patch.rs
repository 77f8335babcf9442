//! C and C++ sources: every struct is found, its members are told apart, and edits make a patch or are refused.

use tussle_advise::Edit;
use tussle_advise::patch::body::{Source, bodies, statements};
use tussle_advise::patch::member::declared;
use tussle_advise::patch::{Target, patch, unified_diff};

/// Structs of one text that are edited; each edit scans all of it.
const STRUCTS_MAX: usize = 4;

pub fn read(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let source = Source::new(&text);
    for body in bodies(&source).iter().take(STRUCTS_MAX) {
        let Ok(list) = statements(&source, body) else { continue };
        let names: Vec<String> = list.iter().flat_map(|s| declared(&source, s).names).collect();
        let Some(tag) = body.tag.as_ref().or(body.aliases.first()) else { continue };
        edit(&text, tag, &names);
    }
}

fn edit(text: &str, name: &str, members: &[String]) {
    let (Some(first), Some(last)) = (members.first(), members.last()) else { return };
    let lines: Vec<(String, u32)> = members.iter().map(|m| (m.clone(), 0)).collect();
    let target = Target { name, decl_line: None, members: &lines, pad_bytes: 8 };
    let wanted = [
        format!("{last}:first"),
        format!("{first}:after:{last}"),
        format!("swap:{first},{last}"),
        format!("align:{last}=64"),
        "element=64".into(),
        "pad=64".into(),
    ];
    for one in wanted {
        let Ok(one) = one.parse::<Edit>() else { continue };
        for path in ["x.c", "x.cc"] {
            if let Ok(done) = patch(path, text, &target, std::slice::from_ref(&one)) {
                unified_diff(path, text, &done.text);
            }
        }
    }
}
