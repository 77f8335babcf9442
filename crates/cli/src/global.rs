//! Options that every verb understands, and the one place that prints a view.

use crate::pager;
use clap::ValueEnum;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use tussle_render::glossary::explained;
use tussle_render::{Format, Style, View};

/// A message that quotes the command line, files and programs: nothing in it is obeyed, and words of the command line
/// end no line of it.
pub fn quoted(text: &str) -> String {
    let words = std::env::args_os().map(|w| w.to_string_lossy().into_owned());
    let broken = words.filter(|w| w.contains(['\n', '\t']));
    let text =
        broken.fold(text.to_string(), |text, w| text.replace(&w, &w.replace(['\n', '\t'], "\u{fffd}")));
    tussle_render::visible(&text)
}

/// Takes the line of a terminal away.
const ERASE: &str = "\r\x1b[K";

/// A line of progress stands on the terminal.
static DRAWN: AtomicBool = AtomicBool::new(false);

/// Draws one line of progress over the last one: only where [`Global::progress`] says so.
pub fn draw(line: &str) {
    let mut err = std::io::stderr().lock();
    DRAWN.store(!line.is_empty(), Ordering::Relaxed);
    let _ = write!(err, "{ERASE}{}", tussle_render::visible(line)).and_then(|()| err.flush());
}

/// A line on stderr, over the line of progress.
pub fn say(line: &str) {
    let over = if DRAWN.swap(false, Ordering::Relaxed) { ERASE } else { "" };
    let _ = writeln!(std::io::stderr(), "{over}tussle: {}", quoted(line));
}

/// Options of all verbs.
#[derive(clap::Args)]
#[command(next_help_heading = "Options of every verb")]
pub struct Global {
    /// Output format.
    #[arg(long, value_enum, global = true, default_value = "text")]
    format: FormatArg,
    /// When to use colour: `auto` respects NO_COLOR, CLICOLOR_FORCE and TERM=dumb.
    #[arg(long, value_enum, global = true, default_value = "auto")]
    color: ColorArg,
    /// No progress and no remarks on stderr.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print long text at once, not through TUSSLE_PAGER, PAGER or less.
    #[arg(long, global = true, hide_short_help = true)]
    no_pager: bool,
    /// Kernel whose BTF a module's BTF continues, where it is not found by the module's version.
    #[arg(long, global = true, value_name = "VMLINUX", hide_short_help = true)]
    pub btf_base: Option<std::path::PathBuf>,
}

/// Formats by name; `crate::verbs` says which verb has which.
#[derive(Clone, Copy, ValueEnum)]
pub enum FormatArg {
    Text,
    Json,
    Md,
    Sarif,
    Github,
    Html,
    /// Folded stacks for flame graphs; `report` only.
    Folded,
}

#[derive(Clone, Copy, ValueEnum)]
enum ColorArg {
    Auto,
    Always,
    Never,
}

impl Global {
    /// Which format was asked for.
    pub fn format(&self) -> Format {
        match self.format {
            FormatArg::Text | FormatArg::Folded => Format::Text,
            FormatArg::Json => Format::Json,
            FormatArg::Md => Format::Markdown,
            FormatArg::Sarif => Format::Sarif,
            FormatArg::Github => Format::Github,
            FormatArg::Html => Format::Html,
        }
    }

    /// Folded stacks were asked for.
    pub fn folded(&self) -> bool {
        matches!(self.format, FormatArg::Folded)
    }

    /// Prints the view on stdout in the format asked for.
    pub fn print(&self, view: &View) -> anyhow::Result<()> {
        tussle_host::interrupted::hold();
        let text = match self.format() {
            Format::Html => tussle_render::render(&explained(view), Format::Html, self.style()),
            other => tussle_render::render(view, other, self.style()),
        };
        // Other formats are for programs, and UTF-8 wherever they are read.
        let text =
            if ascii_only() && self.format() == Format::Text { tussle_render::ascii(&text) } else { text };
        match self.pages() {
            true => pager::show(&text),
            false => pager::write(&text),
        }?;
        Ok(())
    }

    /// A remark for people, on stderr, which quotes files and programs; nobody may be reading it, which ends no work.
    pub fn remark(&self, text: impl std::fmt::Display) {
        tussle_host::interrupted::hold();
        if !self.quiet {
            // One remark is one line, whatever the files are called that it quotes.
            say(&text.to_string().replace(['\n', '\t'], "\u{fffd}"));
        }
    }

    /// Progress may be drawn: stderr is a terminal and nobody asked for quiet.
    pub fn progress(&self) -> bool {
        !self.quiet && std::io::stderr().is_terminal()
    }

    /// Draws one line of progress over the last one, where progress may be drawn.
    pub fn draw(&self, line: impl std::fmt::Display) {
        if self.progress() {
            draw(&line.to_string());
        }
    }

    /// Takes the line of progress away.
    pub fn erase(&self) {
        self.draw("");
    }

    fn style(&self) -> Style {
        let terminal = std::io::stdout().is_terminal();
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0");
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        let colour = match self.color {
            ColorArg::Always => true,
            ColorArg::Never => false,
            ColorArg::Auto if std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()) => false,
            ColorArg::Auto => set("CLICOLOR_FORCE") || terminal && !dumb,
        };
        Style { colour, width: terminal.then(pager::screen).flatten().map(|(columns, _)| columns) }
    }

    /// Long text goes through a pager, as git's does.
    fn pages(&self) -> bool {
        !self.no_pager && self.format() == Format::Text && std::io::stdout().is_terminal()
    }
}

/// The locale that was asked for has no characters but ASCII's.
fn ascii_only() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE"].iter().find_map(|n| std::env::var_os(n).filter(|v| !v.is_empty()));
    locale.is_some_and(|l| l == "C" || l == "POSIX")
}
