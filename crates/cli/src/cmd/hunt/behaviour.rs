//! Whether a patched program still prints what the unpatched one prints.

use super::steps::{Built, Hunt};
use std::cell::{Cell, OnceCell};
use std::ffi::OsString;
use tussle_host::said::{Difference, Said};

/// Runs of both programs after the first one, where the outputs differ. Lines that only change places may do so because
/// threads take turns in another way, and two such outputs are soon the same by chance.
const ROUNDS: usize = 1;
const ROUNDS_OF_ORDER: usize = 2;

/// Standard output and standard error.
const STREAMS: [&str; 2] = ["printed", "wrote to standard error"];

/// What the unpatched program wrote.
pub struct Unpatched {
    said: Said,
    /// The program, built once more where it is to be asked again.
    built: OnceCell<Built>,
    /// A stream that is another in every run; in the order of [`STREAMS`].
    varies: [Cell<bool>; 2],
}

/// How the outputs of two programs compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The same.
    Same,
    /// It differs from run to run without a patch.
    Varies,
    /// Nobody saw all of it.
    Unseen,
}

impl Compared {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Compared::Same => "the same as without the patch",
            Compared::Varies => "could not be compared: it differs from run to run by itself",
            Compared::Unseen => "could not be compared: it was not seen to its end",
        }
    }
}

impl Unpatched {
    /// From the first run.
    pub fn new(said: Said) -> Unpatched {
        Unpatched { said, built: OnceCell::new(), varies: Default::default() }
    }

    fn built(&self, hunt: &Hunt<'_>) -> anyhow::Result<&Built> {
        if let Some(built) = self.built.get() {
            return Ok(built);
        }
        let built = hunt.build_instrumented(&hunt.dir)?;
        Ok(self.built.get_or_init(|| built))
    }

    /// Compares what the patched program wrote in its first run. Where it differs, both programs run again.
    ///
    /// # Errors
    /// Every run of the patched program differs from all runs of the other one, which agree; or a run fails.
    pub fn compare(
        &self,
        hunt: &Hunt<'_>,
        argv: &[OsString],
        patched: &Built,
        now: &Said,
    ) -> anyhow::Result<Compared> {
        let mut open = self.differences(now);
        let only_order = open.iter().flatten().all(Difference::is_order);
        for _ in 0..if only_order { ROUNDS_OF_ORDER } else { ROUNDS } {
            if open.iter().all(Option::is_none) {
                break;
            }
            hunt.remark("the patched program wrote something else: asking both once more");
            self.note(&hunt.said(self.built(hunt)?, argv)?, &open, true);
            if self.settle(&mut open) {
                self.note(&hunt.said(patched, argv)?, &open, false);
                self.settle(&mut open);
            }
        }
        if let Some((what, difference)) = STREAMS.iter().zip(&open).find_map(|(s, d)| Some((s, d.as_ref()?)))
        {
            anyhow::bail!("the patched program {what} something else: {difference}");
        }
        Ok(match (&self.said.out, &now.out) {
            _ if self.varies[0].get() => Compared::Varies,
            (Some(_), Some(_)) => Compared::Same,
            _ => Compared::Unseen,
        })
    }

    /// Of the streams that are known to vary, none.
    fn differences(&self, now: &Said) -> [Option<Difference>; 2] {
        let mut found: [Option<Difference>; 2] = self.said.differences(now).into();
        self.settle(&mut found);
        found
    }

    /// Learns from one more run about the streams in question: one varies where the unpatched program differs from its
    /// own first run, or the patched one agrees with it this time.
    fn note(&self, again: &Said, open: &[Option<Difference>; 2], unpatched: bool) {
        let differs: [Option<Difference>; 2] = self.said.differences(again).into();
        for ((varies, differs), open) in self.varies.iter().zip(differs).zip(open) {
            varies.set(varies.get() || (open.is_some() && differs.is_some() == unpatched));
        }
    }

    /// Forgets differences of what varies; whether one is left.
    fn settle(&self, open: &mut [Option<Difference>; 2]) -> bool {
        for (varies, difference) in self.varies.iter().zip(open.iter_mut()) {
            if varies.get() {
                *difference = None;
            }
        }
        open.iter().any(Option::is_some)
    }
}
