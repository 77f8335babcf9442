//! Options that every verb understands, and the one place that prints a view.

use clap::ValueEnum;
use std::io::{IsTerminal, Write};
use tussle_render::{Format, Style, View};

/// Options of all verbs.
#[derive(clap::Args)]
pub struct Global {
    /// Output format.
    #[arg(long, value_enum, global = true, default_value = "text")]
    format: FormatArg,
    /// When to use colour: NO_COLOR is respected under `auto`.
    #[arg(long, value_enum, global = true, default_value = "auto")]
    color: ColorArg,
    /// No progress and no remarks on stderr.
    #[arg(long, short, global = true)]
    pub quiet: bool,
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
        let text = tussle_render::render(view, self.format(), self.style());
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }

    /// A remark for people, on stderr; nobody may be reading it, which ends no work.
    pub fn remark(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr(), "tussle: {text}");
        }
    }

    /// Progress may be drawn: stderr is a terminal and nobody asked for quiet.
    pub fn progress(&self) -> bool {
        !self.quiet && std::io::stderr().is_terminal()
    }

    /// Draws one line of progress over the last one, where progress may be drawn.
    pub fn draw(&self, line: impl std::fmt::Display) {
        if self.progress() {
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "\r\x1b[K{line}").and_then(|()| err.flush());
        }
    }

    /// Takes the line of progress away.
    pub fn erase(&self) {
        self.draw("");
    }

    fn style(&self) -> Style {
        let terminal = std::io::stdout().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let colour = match self.color {
            ColorArg::Always => true,
            ColorArg::Never => false,
            ColorArg::Auto => terminal && !no_color,
        };
        Style { colour, width: terminal.then(terminal_width).flatten() }
    }
}

/// Columns of the terminal on stdout.
fn terminal_width() -> Option<usize> {
    // SAFETY: winsize is plain data and ioctl fills it or fails.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    let got = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    (got == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}
