//! Words of commands that people paste into a shell.

/// A name as a shell takes it for one word: as it is where it can be, else in quotes.
pub fn word(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    match !name.is_empty() && name.chars().all(plain) {
        true => name.into(),
        false => quoted(name),
    }
}

/// A file's name as one word that no program takes for an option.
pub fn file(name: &str) -> String {
    match name.starts_with('-') {
        true => word(&format!("./{name}")),
        false => word(name),
    }
}

/// A word, in quotes always: names of types and moves mostly need them.
pub fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word_whatever_is_in_it() {
        for (name, expected) in [
            ("out/tussle.data", "out/tussle.data"),
            ("", "''"),
            ("two words", "'two words'"),
            ("$(id) `id` \\ \" ;", "'$(id) `id` \\ \" ;'"),
            ("s'; echo x; '", r"'s'\''; echo x; '\'''"),
            ("~root", "'~root'"),
        ] {
            assert_eq!(word(name), expected);
        }
        assert_eq!(
            (file("-x.data"), file("a b"), file("x-")),
            ("./-x.data".into(), "'a b'".into(), "x-".into())
        );
        assert_eq!(quoted("struct s"), "'struct s'");
        assert_eq!(quoted("s"), "'s'");
    }
}
