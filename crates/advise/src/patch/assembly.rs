//! Sources in assembly: offsets stand there as numbers, which nobody can follow.

use super::Refusal;
use super::body::Source;
use super::held::Held;
use super::init::names_of;
use super::objects::Objects;

/// Path and text of every source.
type Files<'f> = &'f [(&'f str, &'f str)];

/// Refuses when one of the sources in `assembly` names a variable of the type `name`, or defines a function to which
/// `files` say that an object's address is given.
///
/// # Errors
/// The place.
pub fn check(name: &str, files: Files<'_>, assembly: Files<'_>) -> Result<(), Refusal> {
    if assembly.is_empty() {
        return Ok(());
    }
    let names = names_of(name, files);
    let held = Held::of(&names, files);
    let (mut variables, mut functions) = (Vec::new(), Vec::new());
    for (_, text) in files.iter().filter(|f| names.iter().any(|n| f.1.contains(n.as_str()))) {
        let source = Source::new(text);
        let objects = Objects::new(&source, &names, &held);
        variables.extend((0..objects.code.len()).filter_map(|i| variable(&objects, i)).map(str::to_string));
        functions.extend((0..objects.code.len()).filter_map(|i| function(&objects, i)).map(str::to_string));
    }
    for (path, text) in assembly {
        for (n, line) in text.lines().enumerate() {
            let label = line.split_once(':').map(|l| l.0.trim());
            let how = match label {
                Some(l) if functions.iter().any(|f| f == l) => {
                    format!("assembly defines {l}(), which is given its address")
                }
                _ => match words(line).find(|w| variables.iter().any(|v| v == w)) {
                    Some(w) => format!("assembly names {w}"),
                    None => continue,
                },
            };
            return Err(Refusal::SeesLayout { name: name.into(), place: format!("{path}:{}", n + 1), how });
        }
    }
    Ok(())
}

/// The words of a line of assembly that may be symbols.
pub(super) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '.'))).filter(|w| !w.is_empty())
}

/// The name at `i`, if a variable of the type is declared there outside of functions.
pub(super) fn variable<'a>(objects: &Objects<'_, 'a>, i: usize) -> Option<&'a str> {
    let word = objects.code.is_word(i) && objects.code.enclosing(i).is_none();
    let declared = objects.code.declaration(i).filter(|_| word && i > 0)?;
    // Parameters of declarations stand outside of functions, too.
    let parameter = objects.code.open_before(i).is_some();
    (objects.is_name(declared.ty) && !parameter).then(|| objects.text(i))
}

/// The name at `i`, if a function is declared there that has a parameter which points to the type.
fn function<'a>(objects: &Objects<'_, 'a>, i: usize) -> Option<&'a str> {
    let typed = i > 0 && (objects.code.is_word(i - 1) || objects.text(i - 1) == "*");
    let open = (objects.text(i + 1) == "(" && objects.code.is_word(i) && typed).then_some(i + 1)?;
    let close = objects.code.closing(open)?;
    let given = (open..close).any(|j| objects.is_name(j) && objects.text(j + 1) == "*");
    let ends = objects.text(objects.code.behind_attributes(close + 1)) == ";";
    (given && ends && objects.code.enclosing(i).is_none()).then(|| objects.text(i))
}

#[cfg(test)]
mod tests {
    use super::check;

    const C: &str = "struct s { int a; int b; };\nextern struct s g;\nint second(struct s *p);\nint first(int g);\n\
        struct other h;\n";

    #[test]
    fn symbols_of_the_type_in_assembly() {
        let run = |text: &str| check("s", &[("a.c", C)], &[("b.S", text)]).map_err(|e| e.to_string());
        assert!(run("\tmovl g+4(%rip), %eax\n").expect_err("g").contains("b.S:1: assembly names g"));
        assert!(run(".globl x\nsecond:\n\tret\n").expect_err("second").contains("second()"));
        assert_eq!(run("\tmovl h+4(%rip), %eax\nfirst: ret\nlog: ret\n"), Ok(()));
        assert_eq!(check("s", &[("a.c", C)], &[]), Ok(()));
    }
}
