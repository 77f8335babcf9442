//! One spelling for the names of template instances: compilers write `Slot<long int>`, `Slot<long>`, `Slot<4ul>`.

/// `name` with builtin types in their shortest form, no suffixes on numbers, and blanks only between words.
pub fn canonical(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut integer: Vec<&str> = Vec::new();
    for token in tokens(name) {
        if matches!(token, "long" | "int" | "short" | "char" | "unsigned" | "signed" | "double") {
            integer.push(token);
            continue;
        }
        push(&mut out, &builtin(&integer));
        integer.clear();
        push(&mut out, token);
    }
    push(&mut out, &builtin(&integer));
    out
}

fn push(out: &mut String, token: &str) {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    if out.ends_with(word) && token.starts_with(word) {
        out.push(' ');
    }
    out.push_str(token);
}

/// Words and single signs; suffixes of numbers fall.
fn tokens(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name.trim();
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (token, after) = rest.split_at(if word == 0 { first.len_utf8() } else { word });
        rest = after;
        let number =
            first.is_ascii_digit() && token.bytes().all(|c| c.is_ascii_digit() || b"uUlL".contains(&c));
        Some(if number { token.trim_end_matches(['u', 'U', 'l', 'L']) } else { token })
    })
}

/// The type that these words name, whatever their order.
fn builtin(words: &[&str]) -> String {
    let count = |w: &str| words.iter().filter(|x| **x == w).count();
    if words.is_empty() {
        return String::new();
    }
    let sign = if count("unsigned") > 0 { "unsigned " } else { "" };
    let base = match (count("char"), count("short"), count("long"), count("double")) {
        (1.., ..) => return if count("signed") > 0 { "signed char".into() } else { format!("{sign}char") },
        (_, 1.., ..) => "short",
        (_, _, 1.., 1..) => "long double",
        (_, _, _, 1..) => "double",
        (_, _, 2.., _) => "long long",
        (_, _, 1, _) => "long",
        _ => "int",
    };
    format!("{sign}{base}")
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn instances_have_one_spelling() {
        let same = |a: &str, b: &str| assert_eq!(canonical(a), canonical(b));
        same("Slot<long>", "Slot<long int>");
        same("Slot<unsigned long, 4>", "Slot<long unsigned int, 4ul>");
        same("ns::Map<int, std::vector<char *> >", "ns::Map<int,std::vector<char*>>");
        same("A<short>", "A<short int>");
        same("A<const Foo &>", "A<const Foo&>");
        for (a, b) in [
            ("A<long>", "A<int>"),
            ("A<unsigned>", "A<int>"),
            ("A<char>", "A<signed char>"),
            ("A<1>", "A<2>"),
        ] {
            assert_ne!(canonical(a), canonical(b));
        }
    }
}
