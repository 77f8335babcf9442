//! Losses of several processes, as people are told of them.

use crate::{Evidence, Loss};

/// What was lost in the same way, in how many processes.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost<'a> {
    /// The first of them.
    pub loss: &'a Loss,
    /// All together.
    pub count: u64,
    /// Processes that it concerns; 0 where it concerns none in particular.
    pub processes: usize,
}

impl std::fmt::Display for Lost<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.loss.what, self.count)?;
        if self.processes > 1 {
            write!(f, " in {} processes", self.processes)?;
        }
        write!(f, " ({})", self.loss.note)
    }
}

/// The losses of an evidence, those of one kind of all processes in one, in the order in which they first come.
pub fn lost(e: &Evidence) -> Vec<Lost<'_>> {
    let mut out: Vec<Lost> = Vec::new();
    for loss in &e.losses {
        let same = |l: &&mut Lost| (&l.loss.what, &l.loss.note) == (&loss.what, &loss.note);
        match out.iter_mut().find(same).filter(|l| l.processes > 0 && loss.process.is_some()) {
            Some(l) => {
                l.count = l.count.saturating_add(loss.count);
                l.processes += 1;
            }
            None => {
                let processes = usize::from(loss.process.is_some());
                out.push(Lost { loss, count: loss.count, processes });
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Run, Sees, Source};

    #[test]
    fn one_kind_of_loss_of_all_processes_is_told_once() {
        let mut e = Evidence::empty(Run::new(Source::Recorder, 1, Sees::ACCESSES));
        let loss = |process, what: &str, count| Loss { process, what: what.into(), count, note: "n".into() };
        e.losses =
            vec![loss(Some(0), "a", 2), loss(None, "b", 1), loss(Some(1), "a", 3), loss(Some(2), "b", 4)];
        let told: Vec<(&str, u64, usize)> =
            lost(&e).iter().map(|l| (l.loss.what.as_str(), l.count, l.processes)).collect();
        assert_eq!(told, [("a", 5, 2), ("b", 1, 0), ("b", 4, 1)]);
    }
}
