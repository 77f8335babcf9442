//! The same question about recordings with other lengths of turns: an answer that hangs on the length is none.

use super::{Args, Asked, EVIDENCE_MACHINE, about, predict_one};
use crate::global::Global;
use tussle_advise::advice;
use tussle_evidence::Evidence;
use tussle_render::{Node, Span, View, thousands};
use tussle_scenarios::answer::{Doubt, Point, Prediction, Verdict};
use tussle_scenarios::recorded::Recording;

/// Share of draws of one sign from which on a length has that sign.
const SIGN_SHARE_MIN: f64 = 0.8;

/// What one length says.
pub struct Turn {
    /// Instructions of a turn.
    pub instructions: Option<u64>,
    /// The point that was asked for; `None` where this recording cannot tell.
    pub point: Option<Point>,
}

/// All lengths must be asked about one change: what `advise` proposes for each may differ.
pub fn same_change(args: &Args, e: &Evidence) -> Args {
    let mut args = args.clone();
    if args.class.is_some() || args.after.is_some() || e.others.is_empty() {
        return args;
    }
    let Ok(recording) = Recording::new(e) else { return args };
    let advices = advice::best(e, &advice::Options::default());
    let usable = |a: &&advice::Advice| super::moved(&a.type_name, &a.edits, &recording, e).is_ok();
    match advices.iter().find(usable) {
        Some(a) => (args.class, args.moves) = (Some(a.type_name.clone()), a.edits.clone()),
        None => args.after = Some("ideal".into()),
    }
    args
}

/// Asks the other recordings.
pub fn others(args: &Args, e: &Evidence, label: &str, global: &Global) -> anyhow::Result<Vec<Turn>> {
    // The machine that went without saying was said already.
    let machine = args.machine.clone().or(Some(EVIDENCE_MACHINE.into()));
    let args = Args { machine, ..args.clone() };
    let mut out = Vec::new();
    for other in &e.others {
        let point = match about(&args, other, label, global) {
            Ok(Asked::Simulated(q)) => predict_one(&q, global)?.point().cloned(),
            Ok(Asked::Answered(_)) => None,
            Err(why) => {
                global.remark(format_args!("{}: {why:#}", words(other.turn_instructions())));
                None
            }
        };
        out.push(Turn { instructions: other.turn_instructions(), point });
    }
    Ok(out)
}

fn sign(p: Option<&Point>) -> i8 {
    match p {
        Some(p) if p.positive_share >= SIGN_SHARE_MIN => 1,
        Some(p) if p.positive_share <= 1.0 - SIGN_SHARE_MIN => -1,
        _ => 0,
    }
}

/// Takes the verdict back where the lengths do not have one sign.
pub fn judge(prediction: &mut Prediction, others: &[Turn]) {
    let here = sign(prediction.point());
    let agree = others.iter().all(|t| sign(t.point.as_ref()) == here);
    if let Some(point) = prediction.curve.last_mut().filter(|_| !agree) {
        (point.verdict, point.doubt, point.withheld) = (Verdict::Undecided, Some(Doubt::TurnLength), None);
    }
}

/// Adds a line with what every length says.
pub fn add(view: &mut View, first: Turn, others: Vec<Turn>) {
    if others.is_empty() {
        return;
    }
    let mut all: Vec<Turn> = std::iter::once(first).chain(others).collect();
    all.sort_by_key(|t| t.instructions);
    let said: Vec<String> = all.iter().map(line).collect();
    let text = format!("By turn length: {}.", said.join("; "));
    view.nodes.push(Node::Text(vec![Span::plain(text)]));
    view.nodes.push(Node::Data { key: "turns".into(), value: all.iter().map(value).collect() });
}

fn words(instructions: Option<u64>) -> String {
    format!("turns of {} instructions", instructions.map_or("unknown".into(), thousands))
}

fn line(t: &Turn) -> String {
    let Some(p) = &t.point else { return format!("{}: not known", words(t.instructions)) };
    let percent = |x: f64| format!("{:+.1}%", 100.0 * x);
    let positive = (p.positive_share * f64::from(p.draws)).round();
    format!(
        "{}: {} to {}, median {}, positive in {positive} of {}",
        words(t.instructions),
        percent(p.low),
        percent(p.high),
        percent(p.median),
        p.draws
    )
}

fn value(t: &Turn) -> serde_json::Value {
    let of = |f: &dyn Fn(&Point) -> f64| t.point.as_ref().map(f);
    serde_json::json!({
        "turn_instructions": t.instructions, "low": of(&|p| p.low), "median": of(&|p| p.median),
        "high": of(&|p| p.high), "positive_share": of(&|p| p.positive_share),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_scenarios::predict::Comparison;
    use tussle_scenarios::{Story, answer};

    fn point(positive_share: f64) -> Point {
        Point { positive_share, draws: 20, verdict: Verdict::Faster, ..answer::point(4, &[], 0.05) }
    }

    fn judged(here: f64, others: &[Option<f64>]) -> (Verdict, Option<Doubt>) {
        let question = Comparison::of(Story::find("mmap_lock").unwrap()).unwrap();
        let mut p = Prediction {
            question,
            curve: vec![Point { doubt: None, ..point(here) }],
            tornado: Vec::new(),
            ablations: Vec::new(),
            crossovers: Vec::new(),
            samples: Vec::new(),
        };
        let turn = |share: &Option<f64>| Turn { instructions: Some(100), point: share.map(point) };
        judge(&mut p, &others.iter().map(turn).collect::<Vec<_>>());
        let last = p.point().unwrap();
        (last.verdict, last.doubt)
    }

    #[test]
    fn a_verdict_needs_one_sign_at_all_lengths() {
        let undecided = (Verdict::Undecided, Some(Doubt::TurnLength));
        assert_eq!(judged(0.86, &[]), (Verdict::Faster, None));
        assert_eq!(judged(0.86, &[Some(0.9), Some(1.0)]), (Verdict::Faster, None));
        assert_eq!(judged(0.86, &[Some(1.0 / 21.0)]), undecided);
        assert_eq!(judged(0.86, &[Some(0.9), Some(0.5)]), undecided);
        assert_eq!(judged(0.86, &[Some(0.9), None]), undecided);
    }
}
