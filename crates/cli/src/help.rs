//! Help that fits the terminal.

use crate::pager;
use std::ffi::OsString;

/// Wider than this nobody reads a sentence.
const COLUMNS_MAX: usize = 100;
/// A description narrower than this is worse than a line that is too long.
const COLUMNS_MIN: usize = 24;

/// Columns of prose: the terminal's, or those of a usual one.
pub fn columns() -> usize {
    pager::screen().map_or(80, |(columns, _)| columns.clamp(COLUMNS_MIN, COLUMNS_MAX))
}

/// The command line. clap's `help` takes no options: those of every verb say how it is printed, or nothing.
pub fn words() -> Vec<OsString> {
    without_options(std::env::args_os().collect())
}

fn without_options(given: Vec<OsString>) -> Vec<OsString> {
    if given.get(1).is_none_or(|w| w != "help") {
        return given;
    }
    let mut out = Vec::new();
    let mut words = given.into_iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        match &*text {
            "--no-pager" | "--quiet" | "-q" => {}
            "--format" | "--color" => drop(words.next()),
            _ if text.starts_with("--format=") || text.starts_with("--color=") => {}
            _ => out.push(word),
        }
    }
    out
}

/// What clap says, with lines as wide as the terminal on stdout; as it is elsewhere, for other programs.
pub fn print(text: &clap::Error) -> std::io::Result<()> {
    match pager::screen().filter(|_| !text.use_stderr()) {
        Some((columns, _)) => {
            let styled = text.render();
            let text = if is_plain() { styled.to_string() } else { styled.ansi().to_string() };
            let text = wrapped(&text, columns.min(COLUMNS_MAX));
            // Nothing is parsed when help is asked for.
            let at_once = std::env::args().any(|a| a == "--no-pager");
            if at_once { pager::write(&text) } else { pager::show(&text) }
        }
        None => text.print().and_then(|()| std::io::Write::flush(&mut std::io::stdout())),
    }
}

/// The terminal, or who sits at it, wants no colours.
fn is_plain() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()) || pager::is_dumb()
}

fn wrapped(text: &str, columns: usize) -> String {
    text.lines().map(|line| wrapped_line(line, columns)).collect()
}

/// One line, its continuations below where its text begins: behind the name of a verb or a flag.
fn wrapped_line(line: &str, columns: usize) -> String {
    let hang = hang(line);
    // Blanks before the text stay as they are.
    let (head, rest) = line.split_at(behind(line, hang));
    filled(head, rest, if columns >= hang + COLUMNS_MIN { columns } else { usize::MAX })
}

/// A text behind its head in lines of `columns`; below the first one it goes on where it began.
pub fn filled(head: &str, text: &str, columns: usize) -> String {
    let hang = shown(head).count();
    let (mut out, mut at) = (head.to_string(), hang);
    for (i, word) in text.split(' ').enumerate() {
        let long = shown(word).count();
        if i > 0 && at + 1 + long > columns {
            out.truncate(out.trim_end_matches(' ').len());
            out += "\n";
            out += &" ".repeat(hang);
            at = hang;
        } else if i > 0 {
            out.push(' ');
            at += 1;
        }
        out += word;
        at += long;
    }
    out + "\n"
}

/// Characters before a line's text: its indent, and a name that is followed by two blanks or more.
fn hang(line: &str) -> usize {
    let line: String = shown(line).map(|(_, c)| c).collect();
    let indent = line.len() - line.trim_start_matches(' ').len();
    let name = &line[indent..];
    let Some(gap) = name.find("  ").filter(|_| indent > 0) else { return indent };
    let blanks = name[gap..].len() - name[gap..].trim_start_matches(' ').len();
    indent + name[..gap].chars().count() + blanks
}

/// Characters with their places, without the escape sequences of colours.
fn shown(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut escape = false;
    text.char_indices().filter(move |(_, c)| {
        let inside = escape || *c == '\x1b';
        escape = inside && *c != 'm';
        !inside
    })
}

/// Where the shown character of this number begins.
fn behind(line: &str, count: usize) -> usize {
    shown(line).nth(count).map_or(line.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn help_of_every_verb_fits_a_terminal_and_says_the_same() {
        let mut root = crate::verbs::command(crate::Cli::command());
        let mut texts = vec![root.render_long_help().to_string()];
        texts.extend(root.get_subcommands_mut().map(|c| c.render_long_help().to_string()));
        for text in texts {
            for columns in [60, 80, 100] {
                let narrow = wrapped(&text, columns);
                // A name may be as long as it is.
                let wide: Vec<&str> = narrow.lines().filter(|l| l.chars().count() > columns).collect();
                let unbroken = |l: &&&str| l.trim().contains(' ') && hang(l) + COLUMNS_MIN <= columns;
                assert!(!wide.iter().any(|l| unbroken(&l)), "{columns}: {wide:?}");
                assert!(narrow.split_whitespace().eq(text.split_whitespace()));
            }
        }
    }

    #[test]
    fn options_of_every_verb_say_nothing_to_help() {
        let of = |line: &str| {
            let words = without_options(line.split(' ').map(OsString::from).collect());
            words.join(std::ffi::OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(of("tussle help report --no-pager --format json -q"), "tussle help report");
        assert_eq!(of("tussle help --color=never"), "tussle help");
        assert_eq!(of("tussle help report --nonsense"), "tussle help report --nonsense");
        assert_eq!(of("tussle report --format json help"), "tussle report --format json help");
    }

    #[test]
    fn continuations_stand_below_the_text() {
        let line = "  where  Name the object and field at an address of a process";
        assert_eq!(
            wrapped(line, 40),
            "  where  Name the object and field at an\n         address of a process\n"
        );
        let bold = "\x1b[1mone\x1b[0m two three four five six seven";
        assert_eq!(wrapped(bold, 24), "\x1b[1mone\x1b[0m two three four five\nsix seven\n");
        assert_eq!(wrapped("one two", 4), "one two\n", "too narrow for anything");
    }
}
