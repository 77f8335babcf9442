//! What became of a case: the level of its finding follows from it, and with all of them the exit status.

use super::gate::{Case, Repairs};
use tussle_render::Level;

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// A patch is handed out, and a recording with it shows the case no more.
    Repaired,
    /// No patch was for it, and the recording with those of others does not show it.
    Vanished,
    /// It is left, and costs no more than `transfers_max` allows.
    Allowed,
    /// It is left, or nothing was tried.
    Open,
}

impl Fate {
    /// Of a case that was found first.
    pub fn of(case: &Case, repairs: Option<&Repairs>, slower: bool, transfers_max: Option<f64>) -> Fate {
        let Some(repairs) = repairs else { return Fate::Open };
        let left = || repairs.left.iter().chain(&repairs.beside).filter(|c| c.root == case.root);
        let allowed = |c: &Case| transfers_max.is_some_and(|max| c.cost <= max);
        match left().next() {
            Some(_) if left().all(allowed) => Fate::Allowed,
            Some(_) => Fate::Open,
            None if slower || repairs.list.is_empty() => Fate::Open,
            None if repairs.vanished.iter().any(|c| c.title == case.title) => Fate::Vanished,
            None => Fate::Repaired,
        }
    }

    /// Only what makes the exit status 1 is an error.
    pub fn level(self) -> Level {
        match self {
            Fate::Repaired | Fate::Allowed => Level::Note,
            Fate::Vanished => Level::Warning,
            Fate::Open => Level::Error,
        }
    }

    /// The end of the finding's sentence.
    pub fn words(self) -> &'static str {
        match self {
            Fate::Repaired => "; repaired by the patch",
            Fate::Vanished => "; not seen again with the patch, which is not for it",
            Fate::Allowed => "; left, within transfers_max",
            Fate::Open => "",
        }
    }
}

/// Cases that are left and were none before.
pub fn new(found: &[Case], repairs: &Repairs) -> Vec<Case> {
    let known = |c: &&Case| found.iter().any(|f| f.root == c.root);
    repairs.left.iter().chain(&repairs.beside).filter(|c| !known(c)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::hunt::gate::cases;

    fn repairs() -> Repairs {
        let (list, passed_over, left, beside) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Repairs { list, passed_over, scratch: None, left, because: Vec::new(), beside, vanished: Vec::new() }
    }

    #[test]
    fn only_what_is_left_is_an_error() {
        let e = tussle_evidence::sample::Sample::two_counters().evidence();
        let found = cases(&e);
        let case = &found[0];
        let fate = |r: &Repairs, max| Fate::of(case, Some(r), false, max);
        assert_eq!(Fate::of(case, None, false, None), Fate::Open);
        let mut r = repairs();
        assert_eq!(fate(&r, None), Fate::Open, "no patch has repaired anything");
        r.left = vec![case.clone()];
        assert_eq!((fate(&r, None), fate(&r, Some(case.cost - 1.0))), (Fate::Open, Fate::Open));
        assert_eq!(fate(&r, Some(case.cost)), Fate::Allowed);
        assert_eq!((new(&found, &r).len(), new(&[], &r).len()), (0, 1));
        for (fate, level) in [(Fate::Open, Level::Error), (Fate::Repaired, Level::Note)] {
            assert_eq!((fate.level(), fate.words().is_empty()), (level, level == Level::Error));
        }
    }
}
