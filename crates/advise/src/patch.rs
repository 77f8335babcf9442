//! Edits of struct declarations in C and C++ source text.
//!
//! A lossless scanner instead of a parser: C parsers trip over kernel macros, and only statements have to be told
//! apart. Whole statements move with their comments; what cannot be moved safely is refused with a reason.

mod access;
pub mod alloc;
pub mod assembly;
mod blocks;
pub mod body;
pub mod boundary;
pub mod bytes;
mod callee;
mod effects;
mod ends;
mod exceeded;
mod expression;
pub mod files;
mod flow;
pub mod generic;
mod groups;
mod handed;
mod held;
pub mod init;
mod kept;
pub mod lex;
pub mod member;
pub mod mirror;
mod names;
pub mod neighbours;
mod number;
mod objects;
mod others;
mod overlay;
mod passed;
mod places;
pub mod rust;
mod scan;
pub mod scope;
mod size;
pub mod split;
pub mod spread;
mod strides;
mod told;
mod unified;
pub mod unit;
mod untyped;
pub mod uses;
pub mod variable;
pub mod word;

use crate::edit::{Edit, PAD_NAME, Spot};
use body::{Body, Source, Statement, find, statements};
pub use unified::unified_diff;
use unit::{Unit, indent_of, unit};

/// Why a source is not patched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No definition of that name.
    #[error("no definition of {name} in this file (is it made by a macro?)")]
    NotFound {
        /// Type.
        name: String,
    },
    /// More than one, and the debug information does not decide.
    #[error(
        "{count} definitions of {name} in this file and no debug information that tells which one is meant"
    )]
    SeveralDefinitions {
        /// Type.
        name: String,
        /// How many.
        count: usize,
    },
    /// Braces that do not match (often closed in different `#if` branches).
    #[error("the braces of the struct do not match; a preprocessor branch may close them")]
    UnbalancedBraces,
    /// `#if` without `#endif` inside the body, or the other way round.
    #[error("an #if begins inside the struct and ends outside of it")]
    UnbalancedIf,
    /// No statement declares the member.
    #[error("no statement declares {field}; a macro or an included file may make it")]
    NoStatement {
        /// Member.
        field: String,
    },
    /// Several statements declare it (in different `#if` branches).
    #[error("{field} is declared more than once; give a build whose debug information has line numbers")]
    SeveralStatements {
        /// Member.
        field: String,
    },
    /// `int a, b;`
    #[error(
        "{field} shares its statement with other members, and more than names, stars, lengths and values stands \
         there; split the declaration first"
    )]
    SeveralDeclarators {
        /// Member.
        field: String,
    },
    /// Declared through a macro.
    #[error("{field} is made by a macro")]
    MacroMade {
        /// Member.
        field: String,
    },
    /// A directive stands in the middle of the statement.
    #[error("a preprocessor directive stands inside the declaration of {field}")]
    DirectiveInside {
        /// Member.
        field: String,
    },
    /// The move would change in which configurations the member exists.
    #[error("{field} would cross an #if: it would exist in other configurations than today")]
    CrossesIf {
        /// Member.
        field: String,
    },
    /// The whole block would move, and not all in it has a name.
    #[error(
        "the #if block around {field} moves as a whole, and holds an anonymous struct or a bit-field; move it by hand"
    )]
    BlockHolds {
        /// Member.
        field: String,
    },
    /// Builds for users leave it out.
    #[error("{field} stands inside #ifdef DEBUG or NDEBUG: a patch there does nothing for the others")]
    DebugOnly {
        /// Member.
        field: String,
    },
    /// The move would change who may access the member.
    #[error("{field} would cross public:, private: or protected:")]
    CrossesAccess {
        /// Member.
        field: String,
    },
    /// Bit-fields share storage.
    #[error("{field} is a bit-field; bit-fields share their storage and do not move alone")]
    BitField {
        /// Member.
        field: String,
    },
    /// `name[]` must stay last.
    #[error("{field} is a flexible array member (or one of length 1, as before C99) and must stay last")]
    Flexible {
        /// Member.
        field: String,
    },
    /// Two statements on one line, with comments that belong to either.
    #[error("{field} shares its line with other code; put it on a line of its own first")]
    SharedLine {
        /// Member.
        field: String,
    },
    /// Something outside of the program knows the layout.
    #[error(
        "the layout of {name} is known outside of the program: {place}: {how}; --abi-ok if nobody needs it"
    )]
    LeavesProcess {
        /// Type.
        name: String,
        /// File, with its line where there is one.
        place: String,
        /// What happens there.
        how: String,
    },
    /// Something in the program looks at the bytes of objects, or counts on which member stands beside which.
    #[error(
        "{place}: {how}, so that another layout of {name} may change what the program does; --abi-ok if not"
    )]
    SeesLayout {
        /// Type.
        name: String,
        /// File and line.
        place: String,
        /// What happens there, as a sentence part.
        how: String,
    },
    /// Memory that does not get the alignment which the patch needs.
    #[error(
        "{file}:{line}: {why}, so that its memory would not be aligned; gap:FIELD=N and pad=N need no alignment"
    )]
    Allocation {
        /// File.
        file: String,
        /// 1-based.
        line: u32,
        /// What stands there.
        why: String,
    },
    /// A variable whose declaration or uses cannot be changed.
    #[error("{file}:{line}: {why}")]
    Variable {
        /// File.
        file: String,
        /// 1-based.
        line: u32,
        /// What stands there.
        why: String,
    },
    /// Initialised by position somewhere.
    #[error("{file}:{line} initialises {name} by position; name the members there first (.member = ...)")]
    PositionalInitialiser {
        /// Type.
        name: String,
        /// File.
        file: String,
        /// 1-based.
        line: u32,
    },
    /// A struct of Rust.
    #[error("{name}: {why}")]
    Rust {
        /// Type.
        name: String,
        /// What is unclear, or what such a struct cannot have.
        why: String,
    },
}

impl Refusal {
    /// Nothing declares the member here; it may stand elsewhere.
    fn is_missing(&self) -> bool {
        matches!(self, Refusal::NoStatement { .. })
    }
}

/// How an alignment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlignStyle {
    /// `__attribute__((aligned(N)))`: any C or C++ that gcc or clang takes.
    Attribute,
    /// `_Alignas(N)`: C11.
    C11,
    /// `alignas(N)`: C++11.
    Cpp,
}

impl AlignStyle {
    /// The form that fits the file's name and what it already uses.
    pub fn of(path: &str, text: &str) -> AlignStyle {
        let extension = path.rsplit_once('.').map_or("", |p| p.1);
        match extension {
            cpp if files::is_cpp(cpp) => AlignStyle::Cpp,
            // What C++ may see, too, has no `_Alignas`.
            _ if text.contains("_Alignas(") && !text.contains("__cplusplus") => AlignStyle::C11,
            _ => AlignStyle::Attribute,
        }
    }
}

/// The struct to change, as the debug information knows it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Tag or typedef name.
    pub name: &'a str,
    /// Line of its definition.
    pub decl_line: Option<u32>,
    /// Direct members with their lines (0 when unknown).
    pub members: &'a [(String, u32)],
    /// Bytes that [`Edit::Pad`] appends.
    pub pad_bytes: u64,
}

/// A changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchedText {
    /// The new text.
    pub text: String,
    /// What a reviewer should know.
    pub notes: Vec<String>,
    /// The edits as the layout sees them: where a whole `#if` block moves, a move of each of its members.
    pub edits: Vec<Edit>,
}

/// Applies `edits` to the definition of `target` in `text`; `path` only decides the style.
pub fn patch(path: &str, text: &str, target: &Target<'_>, edits: &[Edit]) -> Result<PatchedText, Refusal> {
    let style = AlignStyle::of(path, text);
    let mut out = PatchedText { text: text.to_string(), notes: Vec::new(), edits: Vec::new() };
    for (n, edit) in edits.iter().enumerate() {
        let split = separated(&out.text, target, edit, (n == 0).then_some(()).and(target.decl_line))?;
        // The first edit and split declarations move lines, so that later ones go by name alone.
        let lines = n == 0 && split.is_none();
        if let Some(text) = split {
            out.text = text;
            out.notes.push("a declaration of several members is split, in its order".into());
        }
        let source = Source::new(&out.text);
        let body = find(&source, target.name, target.decl_line)?;
        if body::is_for_debug(&source, body.keyword) {
            return Err(Refusal::DebugOnly { field: target.name.into() });
        }
        let (body, statements) = descend(&source, body, &edit.fields(), 0)?;
        let editor = Editor { source: &source, body: &body, statements: &statements, target, lines, style };
        let mut notes = Vec::new();
        let text = editor.edit(edit, &mut notes)?;
        out.edits.extend(editor.told(edit)?);
        for note in notes {
            if !out.notes.contains(&note) {
                out.notes.push(note);
            }
        }
        out.text = text;
    }
    Ok(out)
}

/// The text with every declaration of several members that `edit` names written as one statement per member.
fn separated(
    text: &str,
    target: &Target<'_>,
    edit: &Edit,
    decl_line: Option<u32>,
) -> Result<Option<String>, Refusal> {
    let mut out: Option<String> = None;
    for field in edit.fields() {
        let now = out.as_deref().unwrap_or(text);
        let source = Source::new(now);
        let body = find(&source, target.name, decl_line)?;
        let (_, list) = descend(&source, body, &edit.fields(), 0)?;
        let line = target.members.iter().find(|m| m.0 == field).map(|m| m.1).filter(|l| *l > 0);
        let line = line.filter(|_| out.is_none() && decl_line.is_some());
        let Ok(at) = member::statement_of(&source, &list, field, line) else { continue };
        let statement = &list[at];
        if member::declared(&source, statement).declarators > 1
            && let Some(new) = split::split(&source, statement)
        {
            let range = source.tokens[statement.first].start..source.tokens[statement.last].end;
            out = Some(splice(now, &[(range, &new)]));
        }
    }
    Ok(out)
}

/// Line on which the body of `name` declares `field` inside an `#if`.
pub fn left_out(text: &str, name: &str, field: &str) -> Option<u32> {
    let source = Source::new(text);
    let list = statements(&source, &find(&source, name, None).ok()?).ok()?;
    let named = |s: &&Statement| member::declared(&source, s).names.iter().any(|n| n == field);
    let found = list.iter().filter(|s| !s.opened.is_empty()).find(named)?;
    source.tokens.get(found.first).map(|t| t.line)
}

/// The innermost body that declares all `fields`: `body` itself or an anonymous struct inside it.
fn descend(
    source: &Source<'_>,
    body: Body,
    fields: &[&str],
    depth: usize,
) -> Result<(Body, Vec<Statement>), Refusal> {
    let list = statements(source, &body)?;
    let missing = |list: &[Statement]| {
        fields.iter().any(|f| member::statement_of(source, list, f, None).is_err_and(|e| e.is_missing()))
    };
    if fields.is_empty() || depth > 8 || !missing(&list) {
        return Ok((body, list));
    }
    for statement in list.iter().filter(|s| member::declared(source, s).anonymous) {
        let inner = body::bodies_in(source, statement.first, statement.last);
        if let Some(inner) = inner.into_iter().next().filter(|b| source.at(b.keyword) == "struct") {
            let found = descend(source, inner, fields, depth + 1)?;
            if !missing(&found.1) {
                return Ok(found);
            }
        }
    }
    Ok((body, list))
}

struct Editor<'s, 'a> {
    source: &'s Source<'a>,
    body: &'s Body,
    statements: &'s [Statement],
    target: &'s Target<'s>,
    lines: bool,
    style: AlignStyle,
}

impl Editor<'_, '_> {
    fn edit(&self, edit: &Edit, notes: &mut Vec<String>) -> Result<String, Refusal> {
        match edit {
            Edit::Move { field, to } => self.move_member(field, to, notes),
            Edit::Swap { a, b } => self.swap(a, b, notes),
            Edit::Align { field, bytes } => self.align(field, *bytes),
            Edit::Gap { field, bytes } => self.gap(field, *bytes),
            Edit::Spread { field, bytes } => self.spread(field, *bytes),
            Edit::Element { bytes } => Ok(self.element(*bytes)),
            Edit::Pad { bytes } => self.pad(*bytes),
            // Not in the declaration: [`alloc::rewrite`].
            Edit::Alloc { .. } => Ok(self.text().to_string()),
            // Callers give the order that puts it there.
            Edit::Place { field, .. } => Err(Refusal::NoStatement { field: field.clone() }),
        }
    }

    fn text(&self) -> &str {
        self.source.text
    }

    fn find(&self, field: &str) -> Result<usize, Refusal> {
        let line =
            self.target.members.iter().find(|m| m.0 == field).map(|m| m.1).filter(|l| self.lines && *l > 0);
        let at = member::statement_of(self.source, self.statements, field, line)?;
        if self.statements[at].opened.iter().any(|&o| body::asks_for_debug(self.source, o)) {
            return Err(Refusal::DebugOnly { field: field.into() });
        }
        Ok(at)
    }

    /// A statement that may move: one declarator, no bit-field, not the flexible last one.
    fn movable(&self, field: &str) -> Result<usize, Refusal> {
        let at = self.find(field)?;
        let declared = member::declared(self.source, &self.statements[at]);
        let field = field.to_string();
        if declared.declarators > 1 {
            return Err(Refusal::SeveralDeclarators { field });
        }
        if declared.bit_field {
            return Err(Refusal::BitField { field });
        }
        self.not_flexible(at)?;
        Ok(at)
    }

    /// It is no flexible array, nor one of length 1 that may be used as such: that stays last. A compiler believes in
    /// the length of what something stands behind, and checks it.
    fn not_flexible(&self, at: usize) -> Result<(), Refusal> {
        let declared = member::declared(self.source, &self.statements[at]);
        let ends = || !self.statements[at + 1..].iter().any(|s| self.is_member(s));
        match declared.flexible && ends() {
            true => Err(Refusal::Flexible { field: declared.names.last().cloned().unwrap_or_default() }),
            false => Ok(()),
        }
    }

    fn is_member(&self, statement: &Statement) -> bool {
        let declared = member::declared(self.source, statement);
        declared.anonymous
            || declared.names.iter().any(|n| self.target.members.is_empty() || self.has_member(n))
            || declared.idents.iter().any(|n| self.has_member(n))
    }

    fn has_member(&self, name: &str) -> bool {
        self.target.members.iter().any(|m| m.0 == name)
    }

    fn unit(&self, at: usize) -> Unit {
        unit(self.source, self.body, self.statements, at)
    }

    fn same_context(&self, a: usize, b: usize, field: &str) -> Result<(), Refusal> {
        let (a, b) = (&self.statements[a], &self.statements[b]);
        if a.context != b.context {
            return Err(Refusal::CrossesIf { field: field.into() });
        }
        if a.section != b.section {
            return Err(Refusal::CrossesAccess { field: field.into() });
        }
        Ok(())
    }

    /// How many branches of `#if`s two statements share.
    fn common(&self, a: usize, b: usize) -> usize {
        let (a, b) = (&self.statements[a], &self.statements[b]);
        a.context.iter().zip(&b.context).take_while(|(x, y)| x == y).count()
    }

    /// The statement beside which `field` goes, and whether behind it.
    fn goal(&self, field: &str, to: &Spot) -> Result<(usize, bool), Refusal> {
        Ok(match to {
            Spot::After(other) => (self.anchor_after(other)?, true),
            Spot::Before(other) => (self.find(other)?, false),
            Spot::First => {
                let first = self.statements.iter().position(|s| self.is_member(s));
                (first.ok_or_else(|| Refusal::NoStatement { field: field.into() })?, false)
            }
        })
    }

    /// What moves, and beside what: the statements, or the whole `#if` blocks around them in which the other is not.
    fn items(
        &self,
        from: usize,
        anchor: usize,
        field: &str,
        notes: &mut Vec<String>,
    ) -> Result<(Unit, Unit), Refusal> {
        let (a, b) = (&self.statements[from], &self.statements[anchor]);
        if a.section != b.section {
            return Err(Refusal::CrossesAccess { field: field.into() });
        }
        let common = self.common(from, anchor);
        let crosses = || Refusal::CrossesIf { field: field.into() };
        if let (Some(x), Some(y)) = (a.context.get(common), b.context.get(common))
            && x.0 == y.0
        {
            return Err(crosses());
        }
        let item = |at: usize| match self.statements[at].opened.get(common) {
            None => Ok(self.unit(at)),
            Some(&open) => {
                let range = body::block_lines(self.source, open).ok_or_else(crosses)?;
                Ok(Unit { bare: range.clone(), range, whole_lines: true, comments: false })
            }
        };
        if a.context.len() > common {
            notes.push(format!("{field} moves with the whole #if block that it stands in"));
        }
        Ok((item(from)?, item(anchor)?))
    }

    /// Notes on what lies between two statements.
    fn passed(&self, a: usize, b: usize, field: &str, notes: &mut Vec<String>) {
        let (low, high) = (a.min(b), a.max(b));
        let here = &self.statements[a].context;
        if self.statements[low..=high].iter().any(|s| &s.context != here) {
            notes.push(format!(
                "{field} passes members that exist only in some configurations: give those builds with --builds"
            ));
        }
    }

    /// A note where the first member becomes another one; `changes` asks about the statement that makes it.
    fn first_member(&self, changes: impl Fn(usize) -> bool, notes: &mut Vec<String>) {
        let first = self.statements.iter().position(|s| self.is_member(s));
        if first.is_some_and(changes) {
            let note =
                "the first member changes: check code that casts between the struct and its first member";
            notes.push(note.into());
        }
    }

    fn move_member(&self, field: &str, to: &Spot, notes: &mut Vec<String>) -> Result<String, Refusal> {
        let from = self.movable(field)?;
        let (anchor, after) = self.goal(field, to)?;
        if from == anchor {
            return Ok(self.text().to_string());
        }
        let (unit, goal) = self.items(from, anchor, field, notes)?;
        self.passed(from, anchor, field, notes);
        self.first_member(|first| first == from || (first == anchor && !after), notes);
        let place = if after { goal.range.end } else { goal.range.start };
        let piece = match (unit.whole_lines, goal.whole_lines) {
            (true, true) => self.text()[unit.range.clone()].to_string(),
            _ if unit.comments || goal.comments => return Err(Refusal::SharedLine { field: field.into() }),
            (_, true) => {
                let newline = self.newline();
                format!(
                    "{}{}{newline}",
                    indent_of(self.text(), goal.bare.start),
                    &self.text()[unit.bare.clone()]
                )
            }
            (_, false) if after => format!(" {}", &self.text()[unit.bare.clone()]),
            (_, false) => format!("{} ", &self.text()[unit.bare.clone()]),
        };
        let hole = self.hole(&unit);
        Ok(splice(self.text(), &[(hole, ""), (place..place, &piece)]))
    }

    /// Nothing goes behind a flexible array.
    fn anchor_after(&self, other: &str) -> Result<usize, Refusal> {
        let at = self.find(other)?;
        self.not_flexible(at)?;
        Ok(at)
    }

    /// What goes away when a unit leaves: with one of two blank lines around it, or the blank before it.
    fn hole(&self, unit: &Unit) -> std::ops::Range<usize> {
        let text = self.text();
        let mut range = unit.range.clone();
        if !unit.whole_lines {
            range.start = text[..range.start].trim_end_matches([' ', '\t']).len();
            return range;
        }
        let blank_before = text[..range.start].lines().next_back().is_some_and(|l| l.trim().is_empty());
        let next = text[range.end..].split_inclusive('\n').next().unwrap_or("");
        if blank_before && next.ends_with('\n') && next.trim().is_empty() {
            range.end += next.len();
        }
        range
    }

    fn newline(&self) -> &'static str {
        if self.text().contains("\r\n") { "\r\n" } else { "\n" }
    }

    fn swap(&self, a: &str, b: &str, notes: &mut Vec<String>) -> Result<String, Refusal> {
        let (at_a, at_b) = (self.movable(a)?, self.movable(b)?);
        self.same_context(at_a, at_b, a)?;
        self.passed(at_a, at_b, a, notes);
        self.first_member(|first| first == at_a || first == at_b, notes);
        let (ua, ub) = (self.unit(at_a), self.unit(at_b));
        let (ra, rb) = if ua.whole_lines && ub.whole_lines {
            (ua.range, ub.range)
        } else if ua.comments || ub.comments {
            let field = if ua.whole_lines { b } else { a };
            return Err(Refusal::SharedLine { field: field.into() });
        } else {
            (ua.bare, ub.bare)
        };
        let text = self.text();
        Ok(splice(text, &[(ra.clone(), &text[rb.clone()]), (rb, &text[ra])]))
    }

    fn align(&self, field: &str, bytes: u64) -> Result<String, Refusal> {
        let at = self.find(field)?;
        let declared = member::declared(self.source, &self.statements[at]);
        if declared.bit_field {
            return Err(Refusal::BitField { field: field.into() });
        }
        if declared.declarators > 1 {
            return Err(Refusal::SeveralDeclarators { field: field.into() });
        }
        let s = &self.statements[at];
        let (first, last) = (self.source.tokens[s.first].start, member::declarator_end(self.source, s));
        let word = word::of(self.source, self.style, bytes, self.body.keyword);
        let (place, text) = match word.behind {
            true => (last, format!(" {}", word.text)),
            false => (first, format!("{} ", word.text)),
        };
        Ok(splice(self.text(), &[(place..place, &text)]))
    }

    /// Bytes before a member: above its comments, or on its line if it shares that.
    fn gap(&self, field: &str, bytes: u64) -> Result<String, Refusal> {
        let at = self.movable(field)?;
        let member = format!("char {}[{bytes}];", self.free_name(&format!("{field}_gap")));
        let unit = self.unit(at);
        if !unit.whole_lines {
            return Ok(splice(self.text(), &[(unit.bare.start..unit.bare.start, &format!("{member} "))]));
        }
        let line = self.text()[..unit.range.start].rfind('\n').map_or(0, |n| n + 1);
        let indent = indent_of(self.text(), unit.bare.start);
        let note = format!("/* {field} shares no line with what is before */");
        let piece = format!("{indent}{member} {note}{}", self.newline());
        Ok(splice(self.text(), &[(line..line, &piece)]))
    }

    fn element(&self, bytes: u64) -> String {
        let place = self.source.tokens[self.body.keyword].end;
        // What may stand behind a declarator is an attribute; in C++ each alignment may stand here.
        let fits = |own: &word::Word| own.behind || self.style == AlignStyle::Cpp;
        let own = word::of_file(self.source, bytes, self.body.keyword).filter(fits);
        let word = own.unwrap_or_else(|| self.style.but_c11().word(bytes));
        splice(self.text(), &[(place..place, &format!(" {}", word.text))])
    }

    fn pad(&self, bytes: u64) -> Result<String, Refusal> {
        if self.target.pad_bytes == 0 {
            return Ok(self.text().to_string());
        }
        if let Some(last) = self.statements.iter().rposition(|s| self.is_member(s)) {
            self.not_flexible(last)?;
        }
        let member = format!("char {}[{}];", self.free_name(PAD_NAME), self.target.pad_bytes);
        let close = self.source.tokens[self.body.close].start;
        let line = self.text()[..close].rfind('\n').map_or(0, |n| n + 1);
        if self.text()[line..close].trim().is_empty() {
            let last = self.statements.last().map_or(close, |s| self.source.tokens[s.first].start);
            let indent = indent_of(self.text(), last);
            let piece = format!("{indent}{member} /* to a multiple of {bytes} bytes */{}", self.newline());
            return Ok(splice(self.text(), &[(line..line, &piece)]));
        }
        let end = self.text()[..close].trim_end_matches([' ', '\t']).len();
        Ok(splice(self.text(), &[(end..end, &format!(" {member}"))]))
    }

    /// A name like `wanted` that nothing in the body has.
    fn free_name(&self, wanted: &str) -> String {
        let taken = |n: &str| {
            self.has_member(n)
                || self.source.tokens[self.body.open..self.body.close]
                    .iter()
                    .any(|t| t.text(self.text()) == n)
        };
        let numbered = (2..1000u32).map(|n| format!("{wanted}{n}"));
        std::iter::once(wanted.to_string()).chain(numbered).find(|n| !taken(n)).unwrap_or(wanted.into())
    }
}

/// Replaces disjoint byte ranges.
fn splice(text: &str, changes: &[(std::ops::Range<usize>, &str)]) -> String {
    let mut changes: Vec<_> = changes.iter().collect();
    changes.sort_by_key(|c| (c.0.start, c.0.end));
    let mut out = String::with_capacity(text.len() + 128);
    let mut at = 0;
    for (range, new) in changes {
        out.push_str(&text[at..range.start.max(at)]);
        out.push_str(new);
        at = range.end.max(at);
    }
    out.push_str(&text[at..]);
    out
}
