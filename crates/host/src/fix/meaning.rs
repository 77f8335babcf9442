//! What must be known before members change their order, beside offsets: what the language makes of the order, and
//! what the compilers say before and after.

use std::collections::HashSet;
use std::path::Path;

use tussle_advise::Edit;
use tussle_advise::patch::body::bare_name;
use tussle_advise::relayout::{Relayout, holder};
use tussle_model::{Language, MemberRole, TypeId};

use super::FixError;
use super::calls::{Call, is_cpp};
use super::compile::Compiler;
use super::cplusplus::ClassQuestion;
use super::diagnostics::{self, Messages};

/// Whether the edits change the order of members.
pub(super) fn reorders(edits: &[Edit]) -> bool {
    edits.iter().any(Edit::reorders)
}

/// A type whose members move, in a copy that still has the old text.
pub(super) struct Meaning<'a> {
    pub(super) compiler: &'a Compiler<'a>,
    pub(super) relayout: &'a Relayout<'a>,
    /// What is done, as moves of members.
    pub(super) edits: &'a [Edit],
    pub(super) target: TypeId,
    /// The file that defines it, in the copy.
    pub(super) place: &'a Path,
    /// Its text.
    pub(super) text: &'a str,
    /// Memory must be aligned to more than today: compilers may know places that do not.
    pub(super) aligns: bool,
}

/// What compilers said of the unpatched copy.
pub(super) struct Before {
    calls: Vec<Call>,
    messages: Messages,
    /// Elements of an array part.
    part: bool,
}

impl Meaning<'_> {
    /// Asks whether the order may change, and keeps what the compilers say today.
    pub(super) fn before(&self, announce: &mut dyn FnMut(&str)) -> Result<Before, FixError> {
        let edits = self.edits;
        if !edits.iter().any(Edit::displaces) && !self.aligns {
            return Ok(Before { calls: Vec::new(), messages: Messages::new(), part: false });
        }
        let part = edits.iter().any(|e| matches!(e, Edit::Spread { .. }));
        let calls = self.compiler.calls()?;
        if !reorders(edits) {
            let messages = diagnostics::of(&calls);
            return Ok(Before { calls, messages, part });
        }
        let cpp: Vec<Call> = calls.iter().filter(|c| c.is_cpp()).cloned().collect();
        if self.is_cpp() || !cpp.is_empty() {
            announce(&format!("clang++ -fsyntax-only of {} units, for what depends on the order", cpp.len()));
            let mut asked = HashSet::new();
            for edit in edits {
                let holder = holder(self.relayout.table(), self.target, edit)?;
                if asked.insert(holder) {
                    self.ask(holder, &cpp)?;
                }
            }
        }
        let (name, decl) = (self.compiler.request.type_name, self.decl_line());
        super::positions::check(name, (self.place, self.text), decl, &calls).map_err(FixError::Meaning)?;
        let messages = diagnostics::of(&calls);
        Ok(Before { calls, messages, part })
    }

    /// Line of the type's definition, if known.
    fn decl_line(&self) -> Option<u32> {
        let class = self.relayout.table().aggregate(self.target)?;
        class.decl.as_ref().map(|d| d.line).filter(|l| *l > 0)
    }

    fn is_cpp(&self) -> bool {
        let of_type = self.relayout.table().aggregate(self.target).map(|a| a.language);
        of_type == Some(Language::Cpp) || is_cpp(self.place)
    }

    /// Asks about the members of `holder`: the struct or an anonymous one inside it.
    fn ask(&self, holder: TypeId, cpp: &[Call]) -> Result<(), FixError> {
        let table = self.relayout.table();
        let (Some(class), Some(a)) = (table.aggregate(self.target), table.aggregate(holder)) else {
            return Ok(());
        };
        let field = |i: usize| Some(&a.members[i]).filter(|m| m.role == MemberRole::Field)?.name.clone();
        let before: Vec<String> = (0..a.members.len()).filter_map(field).collect();
        let after: Vec<String> =
            self.relayout.relaid(holder)?.order.iter().filter_map(|i| field((*i)?)).collect();
        let bare = bare_name(self.compiler.request.type_name);
        let question = ClassQuestion {
            class: class.name.as_deref().unwrap_or(bare),
            file: self.place,
            text: self.text,
            decl_line: self.decl_line(),
            before: &before,
            after: &after,
        };
        question.ask(cpp).map_err(FixError::Meaning)
    }
}

impl Before {
    /// Refuses when the patched copy, built by now, draws a warning that the unpatched did not.
    pub(super) fn compare(&self) -> Result<(), FixError> {
        match diagnostics::new_one(&self.messages, &diagnostics::of(&self.calls), self.part) {
            None => Ok(()),
            Some(text) => Err(FixError::Meaning(format!("with the patch the compiler says: {text}"))),
        }
    }
}
