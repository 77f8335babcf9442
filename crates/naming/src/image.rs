//! Modules opened once: their symbols and types.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tussle_debuginfo::companion::separate;
use tussle_debuginfo::dwarf::{Files, Types};
use tussle_debuginfo::symbols::Symbols;
use tussle_debuginfo::{Bytes, CompanionRequest, Companions, Elf};
use tussle_evidence::Evidence;
use tussle_model::leaf::Leaf;
use tussle_model::{Language, Type, TypeId, TypeTable};

use crate::Unnamed;

/// At most this many problems are kept.
const PROBLEMS_MAX: usize = 200;

/// Index of an opened image.
pub(crate) type ImageId = usize;

/// One opened module.
pub(crate) struct Image {
    pub symbols: Symbols,
    pub types: TypeTable,
    by_die: HashMap<usize, TypeId>,
    names: HashMap<String, Vec<TypeId>>,
    bytes: Bytes,
    /// Installed with the system: nobody expects its sources here.
    pub installed: bool,
    leaves: RefCell<HashMap<TypeId, Rc<Vec<Leaf>>>>,
}

impl Image {
    fn new(symbols: Symbols, mut types: TypeTable, by_die: HashMap<usize, TypeId>, bytes: Bytes) -> Image {
        let names = names_of(&types);
        crate::buffers::fill(&mut types, |name| of_name(&names, name));
        Image { symbols, types, by_die, names, bytes, installed: false, leaves: RefCell::default() }
    }

    fn at(mut self, path: &str) -> Image {
        self.installed = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"].iter().any(|d| path.starts_with(d));
        self
    }

    /// Is its code x86-64?
    pub fn x86_64(&self) -> bool {
        // e_machine of a little-endian 64-bit ELF
        let head = (*self.bytes).as_ref();
        head.starts_with(b"\x7fELF\x02\x01") && head.get(18..20) == Some(&[62, 0])
    }

    /// Up to `size` bytes of code from a file address on; `None` where the file has none.
    pub fn code(&self, svma: u64, size: usize) -> Option<&[u8]> {
        let segment = self
            .symbols
            .segments
            .iter()
            .find(|s| s.svma <= svma && svma - s.svma < s.file_size.min(s.size))?;
        let inside = svma - segment.svma;
        let start = usize::try_from(segment.file_offset.checked_add(inside)?).ok()?;
        let left = usize::try_from(segment.file_size - inside).ok()?;
        let all = (*self.bytes).as_ref().get(start..)?;
        all.get(..size.min(left).min(all.len())).filter(|c| !c.is_empty())
    }

    /// Leaf fields of a type, worked out once.
    pub fn leaves(&self, ty: TypeId) -> Rc<Vec<Leaf>> {
        if let Some(known) = self.leaves.borrow().get(&ty) {
            return known.clone();
        }
        let all = Rc::new(crate::typed::flatten(self, ty));
        self.leaves.borrow_mut().insert(ty, all.clone());
        all
    }

    /// Types by a name as the source spells it; definitions before declarations.
    pub fn named(&self, name: &str) -> &[TypeId] {
        of_name(&self.names, name)
    }

    /// Type of an entry in `.debug_info`.
    pub fn ty(&self, die: Option<usize>) -> Option<TypeId> {
        die.and_then(|d| self.by_die.get(&d)).copied()
    }
}

/// All opened modules.
pub(crate) struct Images<'a> {
    source: &'a mut dyn crate::Images,
    images: Vec<Image>,
    by_path: HashMap<(String, Option<String>), Option<ImageId>>,
    sources: HashMap<String, Option<Arc<str>>>,
    problems: Vec<Unnamed>,
}

impl<'a> Images<'a> {
    pub fn new(source: &'a mut dyn crate::Images) -> Self {
        Images {
            source,
            images: Vec::new(),
            by_path: HashMap::new(),
            sources: HashMap::new(),
            problems: Vec::new(),
        }
    }

    pub fn get(&self, id: ImageId) -> &Image {
        &self.images[id]
    }

    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// The image of a module row, opened on first use.
    pub fn of_module(&mut self, evidence: &Evidence, module: u32) -> Option<ImageId> {
        let row = evidence.modules.get(module as usize)?;
        let key = (row.path.clone(), row.build_id.clone());
        if let Some(known) = self.by_path.get(&key) {
            return *known;
        }
        let svmas = code_of(evidence, &row.path);
        let opened = match self.open(&row.path, row.build_id.as_deref(), &svmas) {
            Ok(image) => image.map(|image| {
                self.images.push(image);
                self.images.len() - 1
            }),
            Err(what) => {
                self.problem(&row.path, what);
                None
            }
        };
        self.by_path.insert(key, opened);
        opened
    }

    /// `None` for a mapped data file (a cache, a locale): there is nothing to name, and nothing is wrong.
    fn open(&mut self, path: &str, build_id: Option<&str>, svmas: &[u64]) -> Result<Option<Image>, String> {
        if path.starts_with('[') {
            return Err("made by the kernel, has no debug information".into());
        }
        let bytes = self.source.module(path, build_id)?;
        if svmas.is_empty() && !(*bytes).as_ref().starts_with(b"\x7fELF") {
            return Ok(None);
        }
        let elf = Elf::parse((*bytes).as_ref()).map_err(|e| e.to_string())?;
        let found = elf.build_id().map(|id| id.iter().map(|b| format!("{b:02x}")).collect::<String>());
        if let (Some(recorded), Some(found)) = (build_id, &found)
            && recorded != found
        {
            return Err(format!(
                "is not the file that was recorded (build-id {found}, recorded {recorded}); record again after \
                 rebuilding. Its addresses are not named"
            ));
        }
        let bare = !elf.has(".debug_info") && !elf.has(".zdebug_info");
        let debug = bare.then(|| separate(&elf, &mut Beside { source: self.source, path })).flatten();
        let debug_bytes = debug.as_ref().map(|(d, _)| (**d).as_ref());
        let (symbols, problems) = Symbols::read((*bytes).as_ref(), debug_bytes).map_err(|e| e.to_string())?;
        for p in problems {
            self.problem(path, p.to_string());
        }
        let (types, by_die) = if symbols.has_debug_info {
            self.types(path, &elf, &symbols, svmas)
        } else {
            (TypeTable::new(elf.pointer_size()), HashMap::new())
        };
        drop(elf);
        Ok(Some(Image::new(symbols, types, by_die, bytes).at(path)))
    }

    /// All types of a module, and those of the variables and of the functions at `svmas` by their entries.
    fn types(
        &mut self,
        path: &str,
        elf: &Elf,
        symbols: &Symbols,
        svmas: &[u64],
    ) -> (TypeTable, HashMap<usize, TypeId>) {
        let mut companions = Beside { source: self.source, path };
        let mut problems = Vec::new();
        let read = Files::load(elf, &mut companions).and_then(|files| {
            problems.extend(files.problems.iter().cloned());
            let units = files.units(&mut problems)?;
            let mut types = Types::new(&units, files.pointer_size());
            types.read_all();
            let mut by_die = HashMap::new();
            let entries = symbols.type_entries(svmas);
            for die in entries {
                if let Some(at) = types.entry(gimli::DebugInfoOffset(die)) {
                    by_die.insert(die, types.resolve(at));
                }
            }
            let (table, ids, mut more) = types.finish_with_ids();
            by_die.retain(|_, id| match ids.get(id.0 as usize) {
                Some(last) => {
                    *id = *last;
                    true
                }
                None => false,
            });
            problems.append(&mut more);
            Ok((table, by_die))
        });
        for p in problems {
            self.problem(path, p.to_string());
        }
        read.unwrap_or_else(|e| {
            self.problem(path, e.to_string());
            (TypeTable::new(elf.pointer_size()), HashMap::new())
        })
    }

    /// Text of a source file, asked for once.
    pub fn source(&mut self, path: &str) -> Option<Arc<str>> {
        if let Some(known) = self.sources.get(path) {
            return known.clone();
        }
        let text = self.source.source(path);
        self.sources.insert(path.to_string(), text.clone());
        text
    }

    /// Remembers a problem, once.
    pub fn problem(&mut self, file: &str, what: impl Into<String>) {
        let problem = Unnamed { file: file.into(), what: what.into() };
        if self.problems.len() < PROBLEMS_MAX && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    pub fn into_problems(self) -> Vec<Unnamed> {
        self.problems
    }
}

/// Companion files of one module.
struct Beside<'a> {
    source: &'a mut dyn crate::Images,
    path: &'a str,
}

impl Companions for Beside<'_> {
    fn open(&mut self, request: &CompanionRequest) -> Option<Bytes> {
        self.source.companion(self.path, request)
    }
}

/// File addresses of all code rows in a file.
fn code_of(evidence: &Evidence, path: &str) -> Vec<u64> {
    let of = |c: &tussle_evidence::Code| {
        let module = evidence.modules.get(c.module? as usize)?;
        (module.path == path).then(|| c.address.wrapping_sub(module.bias))
    };
    let mut svmas: Vec<u64> = evidence.code.iter().filter_map(of).collect();
    svmas.sort_unstable();
    svmas.dedup();
    svmas
}

/// Every way to spell the types of a table: `struct foo`, `ns::Foo`, `Foo`, a typedef, `long unsigned int`.
fn names_of(types: &TypeTable) -> HashMap<String, Vec<TypeId>> {
    let mut names: HashMap<String, Vec<TypeId>> = HashMap::new();
    let mut add = |name: String, id: TypeId| {
        let list = names.entry(name).or_default();
        if !list.contains(&id) {
            list.push(id);
        }
    };
    let mut declarations = Vec::new();
    for (id, ty) in types.iter() {
        match ty {
            Type::Aggregate(a) => {
                let Some(name) = a.name.as_deref() else { continue };
                if a.declaration {
                    declarations.push((format!("{} {name}", a.kind.keyword()), id));
                    continue;
                }
                add(spelling(&format!("{} {name}", a.kind.keyword())), id);
                if a.language != Language::C {
                    add(spelling(name), id);
                    add(spelling(unqualified(name)), id);
                }
            }
            Type::Enum(e) => {
                if let Some(name) = e.name.as_deref() {
                    add(spelling(&format!("enum {name}")), id);
                    add(spelling(unqualified(name)), id);
                }
            }
            Type::Typedef { name, .. } => {
                add(spelling(name), id);
                add(spelling(unqualified(name)), id);
            }
            Type::Base(b) => add(spelling(&b.name), id),
            _ => {}
        }
    }
    for (name, id) in declarations {
        add(spelling(&name), id);
    }
    names
}

fn of_name<'a>(names: &'a HashMap<String, Vec<TypeId>>, name: &str) -> &'a [TypeId] {
    names.get(&spelling(name)).map(Vec::as_slice).unwrap_or(&[])
}

/// One spelling for `unsigned long`, `long unsigned int`, `Foo< Bar >` and `Foo<Bar>`.
fn spelling(name: &str) -> String {
    const INTEGER: &[&str] = &["unsigned", "signed", "long", "short", "int", "char"];
    let mut words: Vec<&str> = name.split_whitespace().collect();
    if words.iter().all(|w| INTEGER.contains(w)) {
        let keep = words.iter().any(|w| matches!(*w, "long" | "short" | "char"));
        let char = words.contains(&"char");
        // `signed char` is not `char`.
        words.retain(|w| (*w != "int" || !keep) && (*w != "signed" || char));
        if words.is_empty() || words == ["unsigned"] {
            words.push("int");
        }
        words.sort_unstable();
        return words.join(" ");
    }
    match name.split_once(' ') {
        Some((keyword @ ("struct" | "union" | "class" | "enum"), rest)) => {
            let keyword = if keyword == "class" { "struct" } else { keyword };
            format!("{keyword} {}", rest.split_whitespace().collect::<String>())
        }
        _ => name.split_whitespace().collect(),
    }
}

/// The last component outside of template arguments.
fn unqualified(name: &str) -> &str {
    let end = name.find('<').unwrap_or(name.len());
    match name[..end].rfind("::") {
        Some(at) => &name[at + 2..],
        None => name,
    }
}
