//! The tables that all threads of a profile share: strings, functions, frames, stacks.

use serde_json::{Value, json};
use std::collections::HashMap;

/// Category of every frame ([`super::meta`] lists them).
const FIELDS: u32 = 1;

/// Stacks of two frames: the object, and below it the field.
#[derive(Default)]
pub(super) struct Tables {
    strings: Vec<String>,
    /// Function of a name; every function has one frame of the same number.
    functions: HashMap<String, usize>,
    /// (prefix, frame).
    stacks: Vec<(Option<usize>, usize)>,
    known: HashMap<(Option<usize>, usize), usize>,
}

impl Tables {
    /// The stack of a field in an object; of an object that is one field its own.
    pub(super) fn stack(&mut self, object: &str, field: &str) -> usize {
        let object_frame = self.frame(object);
        let root = self.push(None, object_frame);
        if field == object {
            return root;
        }
        let field_frame = self.frame(field);
        self.push(Some(root), field_frame)
    }

    fn push(&mut self, prefix: Option<usize>, frame: usize) -> usize {
        let next = self.stacks.len();
        let at = *self.known.entry((prefix, frame)).or_insert(next);
        if at == next {
            self.stacks.push((prefix, frame));
        }
        at
    }

    fn frame(&mut self, name: &str) -> usize {
        if let Some(at) = self.functions.get(name) {
            return *at;
        }
        self.strings.push(name.to_string());
        self.functions.insert(name.to_string(), self.strings.len() - 1);
        self.strings.len() - 1
    }

    /// `profile.shared`.
    pub(super) fn finish(self) -> Value {
        let n = self.strings.len();
        let all = |value: Value| vec![value; n];
        let numbers: Vec<usize> = (0..n).collect();
        let (prefixes, frames): (Vec<Option<usize>>, Vec<usize>) = self.stacks.iter().copied().unzip();
        json!({
            "stackTable": {"frame": frames, "prefix": prefixes, "length": frames.len()},
            "frameTable": {
                "address": all((-1).into()), "inlineDepth": all(0.into()), "category": all(FIELDS.into()),
                "subcategory": all(0.into()), "func": numbers, "nativeSymbol": all(Value::Null),
                "innerWindowID": all(Value::Null), "line": all(Value::Null), "column": all(Value::Null),
                "length": n,
            },
            "funcTable": {
                "name": numbers, "isJS": all(false.into()), "relevantForJS": all(false.into()),
                "resource": all((-1).into()), "source": all(Value::Null), "lineNumber": all(Value::Null),
                "columnNumber": all(Value::Null), "length": n,
            },
            "resourceTable": {"lib": [], "name": [], "host": [], "type": [], "length": 0},
            "nativeSymbols": {"libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0},
            "stringArray": self.strings,
            "sources": {
                "id": [], "filename": [], "startLine": [], "startColumn": [], "sourceMapURL": [], "length": 0,
            },
        })
    }
}
