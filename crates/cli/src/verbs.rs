//! The command line as clap gets it: the verbs in groups, and for each verb the formats that it has.

use crate::global::FormatArg;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command, ValueEnum};

/// Version, with the commit in releases (`build.rs`).
pub const VERSION: &str = env!("TUSSLE_VERSION");

/// Verbs by what people want, in the order in which they meet them. Every verb stands in one of them (tested).
const GROUPS: [(&str, &[&str]); 7] = [
    ("Find, fix and prove", &["hunt", "record", "report", "advise", "fix", "bench"]),
    ("Programs that run", &["live", "top", "where"]),
    ("Layouts of types", &["layout", "diff", "check", "lint", "place", "snapshot"]),
    ("Kernels and hardware samples", &["record-kernel", "import", "triage"]),
    ("Other machines", &["predict", "calibrate", "scenario", "workload", "demo", "fleet", "sweep"]),
    ("Benchmarks, builds and files", &["compare", "history", "bisect", "cc", "c++", "cargo", "export"]),
    ("For the shell", &["cache", "completions", "man"]),
];

/// The end of the overview.
const MORE: &str = "`tussle help VERB` says more; `tussle help topics` lists the words that are explained.";

/// Renderers of any view.
const VIEWS: &[&str] = &["text", "json", "md", "html"];
/// Renderers of views that hold findings.
const FINDINGS: &[&str] = &["text", "json", "md", "sarif", "github", "html"];

/// Formats of a verb; none where it prints no view.
fn formats(verb: &str) -> Option<&'static [&'static str]> {
    match verb {
        "report" => Some(&["text", "json", "md", "sarif", "github", "html", "folded"]),
        "hunt" | "check" | "lint" | "live" => Some(FINDINGS),
        "cc" | "c++" | "cargo" | "drive" | "record" | "record-kernel" | "export" | "snapshot"
        | "completions" | "man" | "top" | "fleet" | "sweep" => None,
        _ => Some(VIEWS),
    }
}

/// The command line with grouped help, and with each verb's own formats.
pub fn command(root: Command) -> Command {
    let format = root.get_arguments().find(|a| a.get_id() == "format").cloned();
    let verbs: Vec<String> = root.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let help = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}\n{MORE}\n\nOptions:\n{{options}}",
        groups(&root)
    );
    verbs.iter().zip(std::iter::repeat(format)).fold(root.help_template(help), |root, (verb, format)| {
        root.mut_subcommand(verb, |c| c.args(format.map(|f| own_formats(f, formats(verb)))))
    })
}

/// `--format` of one verb, as wide as the verb is.
fn own_formats(format: Arg, names: Option<&'static [&'static str]>) -> Arg {
    let parser = PossibleValuesParser::new(names.unwrap_or(&["text"]));
    let parser = parser.map(|name| FormatArg::from_str(&name, false).unwrap_or(FormatArg::Text));
    format.value_parser(parser).hide(names.is_none())
}

/// The verbs with what they do, under their headings.
fn groups(root: &Command) -> String {
    let mut out = String::new();
    for (title, verbs) in GROUPS {
        out += &format!("{title}:\n");
        for verb in verbs {
            let about = root.find_subcommand(verb).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            out += &format!("  {verb:<14} {}\n", about.trim_end_matches('.'));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_verb_stands_in_one_group() {
        let root = crate::Cli::command();
        let shown = root.get_subcommands().filter(|c| !c.is_hide_set());
        let mut known: Vec<&str> = shown.map(Command::get_name).collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|g| g.1.iter().copied()).collect();
        known.sort_unstable();
        listed.sort_unstable();
        assert_eq!(known, listed);
        command(root).debug_assert();
    }

    #[test]
    fn no_line_of_the_overview_is_wider_than_a_screen() {
        let help = groups(&crate::Cli::command());
        let wide: Vec<&str> = help.lines().filter(|l| l.chars().count() > 100).collect();
        assert!(wide.is_empty() && help.contains("Layouts of types:\n  layout"), "{wide:?}\n{help}");
    }
}
