//! `tussle top`.

mod screen;
mod terminal;

use super::live::{Whom, named, time};
use crate::global::Global;
use screen::{Screen, Todo};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terminal::Terminal;
use tussle_host::evidence_file;
use tussle_host::live::Watching;
use tussle_render::{Format, Style};

/// Keys are looked at so often.
const KEYS: Duration = Duration::from_millis(200);

/// Watch running programs continuously, on the whole screen.
///
/// Keys: up and down choose a line, Enter opens it, o sorts by another column, p pauses, s saves the evidence, q
/// leaves. Where the standard output is no terminal the table is printed as text again and again.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    whom: Whom,
    /// Time between two tables.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    interval: Duration,
    /// End after this time [default: when the programs end]
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// Where `s` saves the evidence.
    #[arg(short, long, default_value = evidence_file::DEFAULT_PATH)]
    output: PathBuf,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let options = args.whom.options()?;
    let mut watching = Watching::start(options)?;
    watching.remarks.drain(..).for_each(|r| global.remark(r));
    let end = args.duration.map(|d| Instant::now() + d);
    let mut screen = Screen::new(args.whom.title());
    match std::io::stdout().is_terminal() {
        true => on_terminal(args, &mut watching, &mut screen, end)?,
        false => as_text(args, &mut watching, &mut screen, end)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn over(watching: &mut Watching, end: Option<Instant>) -> bool {
    watching.finished() || end.is_some_and(|e| Instant::now() >= e)
}

fn as_text(
    args: &Args,
    watching: &mut Watching,
    screen: &mut Screen,
    end: Option<Instant>,
) -> anyhow::Result<()> {
    loop {
        watching.step(args.interval);
        screen.update(&named(watching).0, &watching.overhead(), watching.seconds());
        let style = Style { colour: false, width: None };
        let text = tussle_render::render(&screen.view(), Format::Text, style);
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()?;
        if over(watching, end) {
            return Ok(());
        }
    }
}

fn on_terminal(
    args: &Args,
    watching: &mut Watching,
    screen: &mut Screen,
    end: Option<Instant>,
) -> anyhow::Result<()> {
    let terminal = Terminal::enter()?;
    let mut next = Instant::now() + args.interval.min(Duration::from_secs(1));
    terminal.draw(&screen.view())?;
    loop {
        watching.step(KEYS);
        let mut changed = false;
        for key in terminal.keys() {
            changed = true;
            match screen.key(key) {
                Todo::Leave => return Ok(()),
                Todo::Save => {
                    let evidence = named(watching).0;
                    let said = match evidence_file::write(&args.output, &evidence) {
                        Ok(()) => format!("saved as {}", args.output.display()),
                        Err(e) => e.to_string(),
                    };
                    screen.say(said);
                }
                Todo::Nothing => {}
            }
        }
        if Instant::now() >= next && !screen.paused {
            screen.update(&named(watching).0, &watching.overhead(), watching.seconds());
            next = Instant::now() + args.interval;
            changed = true;
        }
        if changed || terminal.resized() {
            terminal.draw(&screen.view())?;
        }
        if terminal.asked_to_end() || over(watching, end) {
            return Ok(());
        }
    }
}
