//! What identifiers mean at a code address: parameters, local variables, template arguments, names of the file.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use gimli::{DW_AT_abstract_origin, DW_AT_alignment, DW_AT_name, DW_AT_specification, DW_AT_type, UnitRef};

use super::Reader;
use super::variables::{file_name, reference};

type Entry = gimli::DebuggingInformationEntry<Reader>;

/// Origins are followed this far: a hostile file can make a ring of them.
const ORIGINS_MAX: usize = 8;

/// One function at a code address, inlined or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scope {
    /// Unqualified name.
    pub name: Option<String>,
    /// Type of the returned value; `None` for `void`.
    pub ret: Option<usize>,
    /// Line of its definition, or of its declaration where the compiler gives no other.
    pub decl_line: Option<u32>,
    /// File of that line, as the line table spells it; a template's body often lies in another.
    pub decl_file: Option<String>,
    /// Class of a member function.
    pub class: Option<usize>,
    /// Name and type of parameters and local variables that are visible, innermost block first.
    pub variables: Vec<(String, Option<usize>)>,
    /// Local variables that ask for an alignment (`alignas`), bytes.
    pub aligned: Vec<(String, u64)>,
    /// Names of the parameters in order, `this` included.
    pub parameters: Vec<String>,
    /// Template arguments of the function, then of its class.
    pub templates: Vec<(String, Option<usize>)>,
}

/// A variable or function that a file declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileName {
    /// A variable and its type.
    Variable(Option<usize>),
    /// A function and the type that it returns.
    Function(Option<usize>),
}

/// The functions of one unit, as a tree in one arena.
#[derive(Debug, Default)]
pub struct Unit {
    nodes: Vec<Node>,
    /// Entry of a function → its node.
    functions: HashMap<usize, usize>,
    /// Variables and parameters by their entry: what concrete ones refer to.
    variables: HashMap<usize, Local>,
    /// Template arguments of classes by the class's entry.
    class_templates: HashMap<usize, Vec<(String, Option<usize>)>>,
    /// Names of the files that declarations stand in.
    files: HashMap<u64, Option<String>>,
    /// Paths of all files that the line table lists: the source and the headers that it got something from.
    pub(super) sources: Arc<[String]>,
    /// Variables and functions outside of functions, by unqualified name.
    pub(super) names: HashMap<String, FileName>,
}

#[derive(Clone, Debug, Default)]
struct Local {
    name: Option<String>,
    ty: Option<usize>,
    origin: Option<usize>,
    parameter: bool,
    align: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Function,
    Inlined,
    Block,
    Class,
}

#[derive(Debug)]
struct Node {
    kind: Kind,
    parent: Option<usize>,
    die: usize,
    name: Option<String>,
    ret: Option<usize>,
    origin: Option<usize>,
    decl_line: Option<u32>,
    decl_file: Option<u64>,
    ranges: Vec<Range<u64>>,
    locals: Vec<Local>,
    templates: Vec<(String, Option<usize>)>,
    children: Vec<usize>,
}

impl Unit {
    /// Reads what it can; the rest of a damaged unit has no scopes.
    pub(super) fn read(unit: &UnitRef<'_, Reader>) -> Unit {
        let mut out = Unit { sources: sources(unit), ..Unit::default() };
        let mut open: Vec<(isize, usize)> = Vec::new();
        let mut entries = unit.entries();
        while let Ok(Some(entry)) = entries.next_dfs() {
            while open.last().is_some_and(|(d, _)| *d >= entry.depth()) {
                open.pop();
            }
            let parent = open.last().map(|(_, n)| *n);
            let kind = match entry.tag() {
                gimli::DW_TAG_subprogram => Kind::Function,
                gimli::DW_TAG_inlined_subroutine => Kind::Inlined,
                gimli::DW_TAG_lexical_block => Kind::Block,
                gimli::DW_TAG_class_type | gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type => {
                    Kind::Class
                }
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    out.local(unit, entry, parent);
                    continue;
                }
                gimli::DW_TAG_template_type_parameter => {
                    if let (Some(p), Some(name)) = (parent, name_of(unit, entry)) {
                        out.nodes[p].templates.push((name, reference(unit, entry, DW_AT_type)));
                    }
                    continue;
                }
                _ => continue,
            };
            let node = out.open(unit, entry, kind, parent);
            open.push((entry.depth(), node));
        }
        out.finish();
        out
    }

    fn open(
        &mut self,
        unit: &UnitRef<'_, Reader>,
        entry: &Entry,
        kind: Kind,
        parent: Option<usize>,
    ) -> usize {
        let die = entry.offset().to_debug_info_offset(&unit.header).map_or(0, |o| o.0);
        let mut ranges = Vec::new();
        if kind != Kind::Class
            && let Ok(mut iter) = unit.die_ranges(entry)
        {
            while let Ok(Some(r)) = iter.next() {
                if r.begin < r.end {
                    ranges.push(r.begin..r.end);
                }
            }
        }
        let index = self.nodes.len();
        let decl_file = entry.attr_value(gimli::DW_AT_decl_file).and_then(|v| match v {
            gimli::AttributeValue::FileIndex(i) => Some(i),
            other => other.udata_value(),
        });
        if let Some(file) = decl_file {
            self.files.entry(file).or_insert_with(|| file_name(unit, file));
        }
        self.nodes.push(Node {
            kind,
            parent,
            die,
            name: if kind == Kind::Block { None } else { name_of(unit, entry) },
            ret: reference(unit, entry, DW_AT_type),
            origin: reference(unit, entry, DW_AT_abstract_origin)
                .or_else(|| reference(unit, entry, DW_AT_specification)),
            decl_line: entry
                .attr_value(gimli::DW_AT_decl_line)
                .and_then(|v| v.udata_value())
                .and_then(|n| u32::try_from(n).ok()),
            decl_file,
            ranges,
            locals: Vec::new(),
            templates: Vec::new(),
            children: Vec::new(),
        });
        if let Some(p) = parent {
            self.nodes[p].children.push(index);
        }
        if kind == Kind::Function {
            self.functions.insert(die, index);
        }
        index
    }

    fn local(&mut self, unit: &UnitRef<'_, Reader>, entry: &Entry, parent: Option<usize>) {
        let origin = reference(unit, entry, DW_AT_abstract_origin)
            .or_else(|| reference(unit, entry, DW_AT_specification));
        let parameter = entry.tag() == gimli::DW_TAG_formal_parameter;
        let align = entry.attr_value(DW_AT_alignment).and_then(|v| v.udata_value());
        let ty = reference(unit, entry, DW_AT_type);
        let local = Local { name: name_of(unit, entry), ty, origin, parameter, align };
        if let Some(o) = entry.offset().to_debug_info_offset(&unit.header) {
            self.variables.insert(o.0, local.clone());
        }
        match parent {
            Some(p) if self.nodes[p].kind != Kind::Class => self.nodes[p].locals.push(local),
            None => {
                if let (Some(name), ty) = self.resolve(&local) {
                    self.names.entry(name).or_insert(FileName::Variable(ty));
                }
            }
            _ => {}
        }
    }

    /// Names of functions, and template arguments of classes, once everything is read.
    fn finish(&mut self) {
        for i in 0..self.nodes.len() {
            let node = &self.nodes[i];
            if node.kind == Kind::Class && !node.templates.is_empty() {
                self.class_templates.insert(node.die, node.templates.clone());
            }
            if node.kind == Kind::Function
                && let (Some(name), ret) = (node.name.clone(), node.ret)
            {
                self.names.entry(name).or_insert(FileName::Function(ret));
            }
        }
    }

    /// Entries of all types that this unit's functions, variables and names mention.
    pub(super) fn type_entries(&self, out: &mut Vec<usize>) {
        for n in &self.nodes {
            out.extend(n.ret);
            out.extend(n.templates.iter().filter_map(|t| t.1));
            if n.kind == Kind::Class {
                out.push(n.die);
            }
        }
        out.extend(self.variables.values().filter_map(|v| v.ty));
    }

    /// Name and type, from the origin where the entry itself has none.
    fn resolve(&self, local: &Local) -> (Option<String>, Option<usize>) {
        let (mut name, mut ty) = (local.name.clone(), local.ty);
        let mut origin = local.origin;
        for _ in 0..ORIGINS_MAX {
            let Some(from) = origin.and_then(|o| self.variables.get(&o)) else { break };
            name = name.or_else(|| from.name.clone());
            ty = ty.or(from.ty);
            origin = from.origin;
        }
        (name, ty)
    }

    /// Name of a variable and the alignment that it asks for, if it does.
    fn asks(&self, local: &Local) -> Option<(String, u64)> {
        let origin = || self.variables.get(&local.origin?)?.align;
        Some((self.resolve(local).0?, local.align.or_else(origin)?))
    }

    /// One scope per function at the address, innermost inlined first.
    pub(super) fn scopes(&self, svma: u64) -> Vec<Scope> {
        let holds = |n: &Node| n.ranges.iter().any(|r| r.contains(&svma));
        let Some(mut at) = self.nodes.iter().position(|n| n.kind == Kind::Function && holds(n)) else {
            return Vec::new();
        };
        let mut path = vec![at];
        while let Some(&child) = self.nodes[at].children.iter().find(|&&c| holds(&self.nodes[c])) {
            path.push(child);
            at = child;
        }
        let mut scopes: Vec<Scope> = Vec::new();
        for &i in &path {
            let node = &self.nodes[i];
            if node.kind != Kind::Block {
                scopes.push(self.function(i));
            }
            if let Some(scope) = scopes.last_mut() {
                scope.aligned.extend(node.locals.iter().filter_map(|l| self.asks(l)));
                let mut locals: Vec<_> = node.locals.iter().filter_map(|l| named(self.resolve(l))).collect();
                locals.append(&mut scope.variables);
                scope.variables = locals;
            }
        }
        for scope in &mut scopes {
            let class = scope.class.and_then(|c| self.class_templates.get(&c));
            scope.templates.extend(class.into_iter().flatten().cloned());
        }
        // What the compiler dropped from the concrete function is still in the abstract one.
        let functions = path.iter().filter(|&&i| self.nodes[i].kind != Kind::Block);
        for (scope, &i) in scopes.iter_mut().zip(functions) {
            self.abstract_locals(i, scope);
        }
        scopes.reverse();
        scopes
    }

    fn function(&self, index: usize) -> Scope {
        let mut scope = Scope::default();
        let mut next = Some(index);
        let mut decl_file = None;
        for _ in 0..ORIGINS_MAX {
            let Some(node) = next.and_then(|i| self.nodes.get(i)) else { break };
            scope.name = scope.name.or_else(|| node.name.clone());
            scope.ret = scope.ret.or(node.ret);
            scope.decl_line = scope.decl_line.or(node.decl_line);
            // What stands in the file of the declaration does not repeat it.
            decl_file = decl_file.or(node.decl_file);
            if scope.templates.is_empty() {
                scope.templates = node.templates.clone();
            }
            let named = node.locals.iter().filter(|l| l.parameter).filter_map(|l| self.resolve(l).0);
            let parameters: Vec<String> = named.collect();
            // The abstract function has them all; a concrete one may have lost some.
            if parameters.len() >= scope.parameters.len() {
                scope.parameters = parameters;
            }
            let owner = node.parent.map(|p| &self.nodes[p]).filter(|p| p.kind == Kind::Class);
            scope.class = scope.class.or(owner.map(|p| p.die));
            next = node.origin.and_then(|o| self.functions.get(&o)).copied();
        }
        scope.decl_file = decl_file.and_then(|f| self.files.get(&f).cloned().flatten());
        scope
    }

    fn abstract_locals(&self, index: usize, scope: &mut Scope) {
        let Some(&origin) = self.nodes[index].origin.and_then(|o| self.functions.get(&o)) else { return };
        let mut todo = vec![origin];
        while let Some(i) = todo.pop() {
            for local in &self.nodes[i].locals {
                if let Some((name, ty)) = named(self.resolve(local))
                    && !scope.variables.iter().any(|(n, _)| *n == name)
                {
                    scope.variables.push((name, ty));
                }
            }
            todo.extend(self.nodes[i].children.iter().filter(|&&c| self.nodes[c].kind == Kind::Block));
        }
    }
}

/// Paths of the files of a unit's line table, below the folder where it was compiled where they are relative.
fn sources(unit: &UnitRef<'_, Reader>) -> Arc<[String]> {
    let text = |r: &Reader| Some(String::from_utf8_lossy(&gimli::Reader::to_slice(r).ok()?).into_owned());
    let folder = unit.comp_dir.as_ref().and_then(text).unwrap_or_default();
    let count = unit.line_program.as_ref().map_or(0, |p| p.header().file_names().len() as u64);
    let path = |name: String| match name.starts_with('/') || folder.is_empty() {
        true => name,
        false => format!("{folder}/{name}"),
    };
    // Before version 5 of DWARF the first file is number 1; there is no file beyond the last.
    let mut all: Vec<String> = (0..=count).filter_map(|i| file_name(unit, i)).map(path).collect();
    all.sort_unstable();
    all.dedup();
    all.into()
}

fn named((name, ty): (Option<String>, Option<usize>)) -> Option<(String, Option<usize>)> {
    Some((name?, ty))
}

fn name_of(unit: &UnitRef<'_, Reader>, entry: &Entry) -> Option<String> {
    let text = unit.attr_string(entry.attr_value(DW_AT_name)?).ok()?;
    Some(String::from_utf8_lossy(&gimli::Reader::to_slice(&text).ok()?).into_owned())
}
