//! Members and constructors of one class in clang's syntax tree (`-ast-dump=json`), and which of its members depend on
//! the order in which they are constructed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What an initialiser does besides yielding a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Effects {
    /// It calls, assigns or allocates: others may see it.
    acts: bool,
    /// It copies an object of a class: that acts unless the type is inert.
    copies: bool,
    /// It reads what may change: arguments, variables.
    reads: bool,
    /// It uses `this` other than for a member.
    whole: bool,
    /// Members of the class that it names.
    siblings: BTreeSet<String>,
    /// Methods of the class that it calls.
    calls: BTreeSet<String>,
}

/// Initialisers by member.
type Inits = BTreeMap<String, Effects>;

/// The class in one unit.
#[derive(Debug, Default)]
pub(super) struct Class {
    /// Its declarations, as clang numbers them.
    ids: BTreeSet<String>,
    /// Initialisers at the declaration.
    declared: Inits,
    /// Types of members, as clang names them.
    types: BTreeMap<String, String>,
    /// What every written constructor says.
    constructors: Vec<Inits>,
    /// A comparison is `= default`.
    defaulted: Option<String>,
    /// What methods do whose bodies the unit has; nothing is known of the others.
    methods: Inits,
}

impl Class {
    /// Reads the class called `name` that has all of `members`; `None` when the unit has none.
    pub(super) fn read(json: &[u8], name: &str, members: &[String]) -> Result<Option<Class>, String> {
        let mut out = Class::default();
        let mut found = false;
        for node in serde_json::Deserializer::from_slice(json).into_iter::<Value>() {
            let node = node.map_err(|e| e.to_string())?;
            out.visit(&node, name, members, &mut found);
        }
        Ok(found.then_some(out))
    }

    fn visit(&mut self, node: &Value, name: &str, members: &[String], found: &mut bool) {
        match kind(node) {
            "CXXRecordDecl"
            | "ClassTemplateSpecializationDecl"
            | "ClassTemplatePartialSpecializationDecl"
                if text(node, "name") == name && holds(node, members) =>
            {
                *found = true;
                self.ids.insert(text(node, "id").to_string());
                self.record(node);
            }
            "CXXConstructorDecl" => self.constructor(node, name),
            // `auto S::operator<=>(const S &) const = default;` behind the class.
            "CXXMethodDecl" if self.ids.contains(text(node, "parentDeclContextId")) => {
                self.comparison(node);
                self.method(node);
            }
            _ => {}
        }
        if !kind(node).ends_with("Expr") && !kind(node).ends_with("Stmt") {
            children(node).for_each(|c| self.visit(c, name, members, found));
        }
    }

    fn record(&mut self, node: &Value) {
        for child in children(node) {
            match kind(child) {
                "FieldDecl" => self.field(child),
                "CXXRecordDecl" if text(child, "name").is_empty() => self.record(child),
                "FriendDecl" => self.record(child),
                "CXXMethodDecl" => {
                    self.comparison(child);
                    self.method(child);
                }
                "FunctionDecl" => self.comparison(child),
                _ => {}
            }
        }
    }

    /// What a method does; a virtual one may be another.
    fn method(&mut self, node: &Value) {
        let body = children(node).find(|c| kind(c) == "CompoundStmt");
        let is_virtual = node.get("virtual").is_some();
        if body.is_none() && !is_virtual {
            return;
        }
        let known = self.methods.entry(text(node, "name").to_string()).or_default();
        known.whole |= is_virtual;
        body.into_iter().for_each(|b| known.add(b));
    }

    /// The same with what the methods do that it calls.
    fn resolved(&self, effects: &Effects) -> Effects {
        let mut out = effects.clone();
        let mut todo: Vec<&String> = effects.calls.iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(name) = todo.pop() {
            if !seen.insert(name) {
                continue;
            }
            let Some(method) = self.methods.get(name) else {
                out.whole = true;
                continue;
            };
            out.whole |= method.whole;
            out.siblings.extend(method.siblings.iter().cloned());
            todo.extend(&method.calls);
        }
        out
    }

    fn comparison(&mut self, node: &Value) {
        let name = text(node, "name");
        if node.get("explicitlyDefaulted").is_some() && matches!(name, "operator<=>" | "operator==") {
            self.defaulted.get_or_insert_with(|| name.to_string());
        }
    }

    fn field(&mut self, node: &Value) {
        let name = text(node, "name").to_string();
        let ty = node.pointer("/type/desugaredQualType").or_else(|| node.pointer("/type/qualType"));
        self.types.insert(name.clone(), ty.and_then(Value::as_str).unwrap_or("").to_string());
        if node.get("hasInClassInitializer").is_some() {
            let mut effects = Effects::default();
            children(node).for_each(|c| effects.add(c));
            self.declared.insert(name, effects);
        }
    }

    fn constructor(&mut self, node: &Value, name: &str) {
        let own = text(node, "name").split('<').next() == Some(name);
        if !own || node.get("isImplicit").is_some() {
            return;
        }
        let mut inits = Inits::new();
        for init in children(node).filter(|c| kind(c) == "CXXCtorInitializer") {
            let Some(member) = init.pointer("/anyInit/name").and_then(Value::as_str) else { continue };
            let by_default = children(init).any(|c| kind(c) == "CXXDefaultInitExpr");
            if !by_default {
                let mut effects = Effects::default();
                children(init).for_each(|c| effects.add(c));
                inits.insert(member.to_string(), effects);
            }
        }
        if !self.constructors.contains(&inits) {
            self.constructors.push(inits);
        }
    }

    /// Whether `after` keeps what construction in the order `before` does; `inert` members have nothing to see in
    /// construction without arguments, copies and destruction.
    pub(super) fn check(
        &self,
        before: &[String],
        after: &[String],
        inert: &BTreeSet<String>,
    ) -> Result<(), String> {
        if let Some(operator) = &self.defaulted {
            return Err(format!(
                "{operator} is defaulted: it compares members in the order of their declaration"
            ));
        }
        let none = Inits::new();
        let constructors: Vec<&Inits> =
            if self.constructors.is_empty() { vec![&none] } else { self.constructors.iter().collect() };
        for (first, second) in reversed(before, after) {
            for constructor in &constructors {
                let of = |m: &str| self.effects(m, constructor, inert);
                if let Some(why) = conflict(first, &of(first), second, &of(second)) {
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    /// What constructing and destroying `member` does.
    fn effects(&self, member: &str, constructor: &Inits, inert: &BTreeSet<String>) -> Effects {
        let quiet = inert.contains(member) || self.types.get(member).is_some_and(|t| is_quiet(t));
        let written = constructor.get(member).or_else(|| self.declared.get(member));
        let mut out = written.map(|w| self.resolved(w)).unwrap_or_default();
        out.acts |= !quiet || (out.copies && !inert.contains(member));
        out
    }
}

/// Pairs that change their order: the one that is first today comes first.
fn reversed<'a>(before: &'a [String], after: &'a [String]) -> Vec<(&'a str, &'a str)> {
    let place = |m: &String| after.iter().position(|a| a == m).unwrap_or(usize::MAX);
    let mut out = Vec::new();
    for (i, first) in before.iter().enumerate() {
        for second in &before[i + 1..] {
            if place(second) < place(first) {
                out.push((first.as_str(), second.as_str()));
            }
        }
    }
    out
}

/// Why two members must keep their order.
fn conflict(first: &str, a: &Effects, second: &str, b: &Effects) -> Option<String> {
    let reads = |x: &Effects, other: &str| x.siblings.contains(other) || (x.whole && x.acts);
    if reads(b, first) {
        return Some(format!(
            "the initialiser of {second} uses {first}, which must be constructed before it"
        ));
    }
    if reads(a, second) {
        return Some(format!("the initialiser of {first} uses {second}"));
    }
    let sees = |x: &Effects| x.acts || x.reads || !x.siblings.is_empty();
    if (a.acts && sees(b)) || (b.acts && sees(a)) {
        return Some(format!(
            "{first} and {second} are constructed and destroyed in the order of their declaration, and what that does \
             may show"
        ));
    }
    None
}

/// Types of the standard library whose construction, copy and destruction touch nothing else; containers only of
/// such and of plain elements.
fn is_quiet(ty: &str) -> bool {
    if ty.ends_with(['*', '&']) {
        return true;
    }
    if ty.starts_with("std::atomic<") || ty.starts_with("std::__atomic_base<") {
        return !ty.ends_with(']') || ty.contains(">[");
    }
    let word = |w: &str| {
        matches!(
            w,
            "std"
                | "__cxx11"
                | "chrono"
                | "_V2"
                | "basic_string"
                | "string"
                | "char_traits"
                | "allocator"
                | "vector"
                | "deque"
                | "list"
                | "map"
                | "set"
                | "unordered_map"
                | "unordered_set"
                | "less"
                | "hash"
                | "equal_to"
                | "pair"
                | "array"
                | "optional"
                | "bitset"
                | "mutex"
                | "recursive_mutex"
                | "shared_mutex"
                | "timed_mutex"
                | "shared_timed_mutex"
                | "condition_variable"
                | "once_flag"
                | "atomic"
                | "atomic_flag"
                | "duration"
                | "time_point"
                | "ratio"
                | "steady_clock"
                | "system_clock"
                | "const"
                | "unsigned"
                | "signed"
                | "int"
                | "long"
                | "short"
                | "char"
                | "bool"
                | "float"
                | "double"
                | "wchar_t"
        ) || w.chars().all(|c| c.is_ascii_digit())
    };
    let ty = without_pointers(ty);
    let mut words = ty.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty());
    words.all(word)
}

/// The type with plain numbers for what its template arguments point to: `std::map<int, const Rule *>` touches no
/// `Rule`.
fn without_pointers(ty: &str) -> String {
    let mut out = String::new();
    for c in ty.chars() {
        if c != '*' {
            out.push(c);
            continue;
        }
        let mut depth = 0usize;
        let begins = out.char_indices().rev().find(|&(_, c)| {
            depth += usize::from(c == '>');
            let here = depth == 0 && matches!(c, '<' | ',');
            depth = depth.saturating_sub(usize::from(c == '<'));
            here
        });
        out.truncate(begins.map_or(0, |(at, _)| at + 1));
        out.push_str("int");
    }
    out
}

impl Effects {
    /// Adds what an expression does. Kinds that are not listed count as acting.
    fn add(&mut self, node: &Value) {
        match kind(node) {
            "IntegerLiteral"
            | "FloatingLiteral"
            | "CXXBoolLiteralExpr"
            | "CharacterLiteral"
            | "StringLiteral"
            | "CXXNullPtrLiteralExpr"
            | "ImplicitValueInitExpr"
            | "CXXScalarValueInitExpr"
            | "GNUNullExpr"
            | "UnaryExprOrTypeTraitExpr"
            | "SizeOfPackExpr" => return,
            "ImplicitCastExpr"
            | "CStyleCastExpr"
            | "CXXStaticCastExpr"
            | "CXXFunctionalCastExpr"
            | "CXXReinterpretCastExpr"
            | "CXXConstCastExpr"
            | "ParenExpr"
            | "ParenListExpr"
            | "InitListExpr"
            | "ConditionalOperator"
            | "ExprWithCleanups"
            | "MaterializeTemporaryExpr"
            | "CXXBindTemporaryExpr"
            | "ConstantExpr"
            | "ArraySubscriptExpr"
            | "CXXDefaultArgExpr"
            | "SubstNonTypeTemplateParmExpr" => {}
            "BinaryOperator" => {
                self.acts |= text(node, "opcode").ends_with('=') && !is_comparison(text(node, "opcode"))
            }
            "UnaryOperator" => self.acts |= matches!(text(node, "opcode"), "++" | "--"),
            "DeclRefExpr" => return self.named(node),
            "MemberExpr" => return self.member(node),
            "CXXThisExpr" => {
                self.whole = true;
                return;
            }
            // The member's own constructor: whether it shows is known by its type.
            "CXXConstructExpr" | "CXXTemporaryObjectExpr" => {
                let ty = node.pointer("/type/desugaredQualType").or_else(|| node.pointer("/type/qualType"));
                let quiet = ty.and_then(Value::as_str).is_some_and(is_quiet);
                let given = !quiet && children(node).next().is_some();
                self.copies |= given && is_copy(node);
                self.acts |= given && !is_copy(node);
            }
            _ => self.acts = true,
        }
        children(node).for_each(|c| self.add(c));
    }

    fn named(&mut self, node: &Value) {
        let constant = matches!(
            node.pointer("/referencedDecl/kind").and_then(Value::as_str),
            Some("EnumConstantDecl" | "FunctionDecl" | "NonTypeTemplateParmDecl" | "CXXMethodDecl")
        );
        self.reads |= !constant;
    }

    fn member(&mut self, node: &Value) {
        let of_this = children(node).any(|c| {
            kind(c) == "CXXThisExpr"
                || (kind(c) == "ImplicitCastExpr" && children(c).any(|g| kind(g) == "CXXThisExpr"))
        });
        let method = node.pointer("/type/qualType").and_then(Value::as_str);
        if of_this && method == Some("<bound member function type>") {
            self.calls.insert(text(node, "name").to_string());
        } else if of_this {
            self.siblings.insert(text(node, "name").to_string());
        } else {
            self.reads = true;
            children(node).for_each(|c| self.add(c));
        }
    }
}

/// The constructor takes another object of the class.
fn is_copy(node: &Value) -> bool {
    let ty = node.pointer("/type/qualType").and_then(Value::as_str).unwrap_or("");
    let bare = ty.strip_prefix("const ").unwrap_or(ty);
    let constructor = node.pointer("/ctorType/qualType").and_then(Value::as_str).unwrap_or("");
    let last = |t: &str| t.rsplit("::").next().unwrap_or(t).to_string();
    let taken = constructor.strip_prefix("void (").and_then(|c| c.split(')').next()).unwrap_or("");
    let taken = taken.trim_end_matches(['&', ' ']).trim_start_matches("const ");
    !bare.is_empty() && constructor.contains('&') && last(taken) == last(bare)
}

fn is_comparison(opcode: &str) -> bool {
    matches!(opcode, "==" | "!=" | "<=" | ">=")
}

fn kind(node: &Value) -> &str {
    text(node, "kind")
}

fn text<'a>(node: &'a Value, key: &str) -> &'a str {
    node.get(key).and_then(Value::as_str).unwrap_or("")
}

fn children(node: &Value) -> impl Iterator<Item = &Value> {
    node.get("inner").and_then(Value::as_array).into_iter().flatten()
}

/// The record declares all of `members`, itself or in unnamed records inside it.
fn holds(node: &Value, members: &[String]) -> bool {
    fn names<'a>(node: &'a Value, out: &mut BTreeSet<&'a str>) {
        for child in children(node) {
            match kind(child) {
                "FieldDecl" => drop(out.insert(text(child, "name"))),
                "CXXRecordDecl" if text(child, "name").is_empty() => names(child, out),
                _ => {}
            }
        }
    }
    let mut declared = BTreeSet::new();
    names(node, &mut declared);
    members.iter().all(|m| declared.contains(m.as_str()))
}

#[cfg(test)]
mod tests {
    use super::is_quiet;

    #[test]
    fn containers_of_pointers_are_quiet() {
        assert!(is_quiet("std::map<std::basic_string<char>, const Rule *>"));
        assert!(is_quiet("std::vector<Edge *, std::allocator<Edge *>>"));
        assert!(is_quiet("Rule *[4]"));
        assert!(!is_quiet("std::map<std::basic_string<char>, Rule>"));
        assert!(!is_quiet("std::map<Rule *, int, ByName>"));
        assert!(!is_quiet("std::unique_ptr<Rule>"));
    }
}
