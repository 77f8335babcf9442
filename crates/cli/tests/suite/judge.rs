//! Holds verdicts against the truth.

use super::manifest::{Case, Limits, Twin};
use super::run::Setting;

/// What the tool said, and what the program counted.
#[derive(Default)]
pub struct Outcome {
    pub status: i32,
    /// Some case that a layout helps names both fields.
    pub named: bool,
    /// What the report says to do next did not work.
    pub broken_next: Option<String>,
    /// The worst case that a layout helps.
    pub first: Option<First>,
    /// The classes listed, the worst first.
    pub classes: Vec<String>,
    /// The program's own counts, as it printed them.
    pub own: Vec<(String, u64)>,
}

/// One case of a report.
pub struct First {
    pub fields: String,
    /// Expected invalidations.
    pub e: f64,
}

impl Outcome {
    pub fn new(status: i32, report: &[u8], own: &str, pair: Option<&[String; 2]>) -> Outcome {
        let view: serde_json::Value = serde_json::from_slice(report).unwrap_or_default();
        let rows_of = |key: &str| view[key].as_array().cloned().unwrap_or_default();
        // A fight that this run's addresses hid is a case, too.
        let (rows, latent) = (rows_of("lines"), rows_of("latent"));
        let class = |r: &serde_json::Value| {
            let text = |key: &str| r[key].as_str().unwrap_or_default().to_string();
            if r["class"].is_string() { text("class") } else { text("sharing") }
        };
        let helps = |r: &&serde_json::Value| {
            let c = class(r);
            c == "a layout helps" || c.ends_with("false")
        };
        let names = |r: &serde_json::Value| {
            let fields = r["fields"].as_str().unwrap_or_default();
            pair.is_none_or(|p| p.iter().all(|f| fields.contains(f.as_str())))
        };
        let own = own.lines().filter_map(|l| {
            let (what, n) = l.split_once(' ')?;
            Some((what.to_string(), n.trim().parse().ok()?))
        });
        let first = rows.iter().find(helps).map(|r| First {
            fields: r["fields"].as_str().unwrap_or_default().replace('\n', " "),
            e: r["expected_invalidations"].as_f64().unwrap_or_default(),
        });
        Outcome {
            status,
            first,
            named: rows.iter().filter(helps).chain(&latent).any(names),
            classes: rows.iter().map(class).collect(),
            own: own.collect(),
            broken_next: None,
        }
    }

    /// A fight, or that nothing could be seen, was not told.
    pub fn missed(&self, twin: &Twin) -> bool {
        match twin.class.as_str() {
            "layout" => self.status != 1,
            "nothing" => self.status != 2,
            _ => self.status != 0 && self.status != 1,
        }
    }

    /// Something was called a case that a layout helps, and is none.
    pub fn accused(&self, twin: &Twin) -> bool {
        twin.class != "layout" && self.status == 1
    }

    /// The manifest agrees with the program's own counts.
    fn truth_holds(&self, twin: &Twin) -> bool {
        let own = |what: &str| self.own.iter().find(|o| o.0 == what).map(|o| o.1);
        match twin.class.as_str() {
            "layout" => own("stores").is_some_and(|n| n >= 1000),
            "quiet" if !twin.fixed => own("handoffs").is_some_and(|n| n < 1000),
            _ => true,
        }
    }
}

/// All outcomes.
#[derive(Default)]
pub struct Tally {
    rows: Vec<Row>,
    /// What must hold of every program, whatever its verdict, and did not.
    faults: Vec<String>,
}

struct Row {
    name: String,
    /// Source and class, for "none twice in a class".
    class: String,
    missed: bool,
    accused: bool,
    misnamed: bool,
    words: String,
}

impl Row {
    /// What is wrong with it, in one line.
    fn wrong(&self) -> Option<String> {
        let what = [(self.missed, "missed"), (self.accused, "accused"), (self.misnamed, "misnamed")];
        let (_, what) = what.into_iter().find(|w| w.0)?;
        Some(format!("{what}: {}: {}", self.name, self.words))
    }
}

impl Tally {
    pub fn add(&mut self, case: &Case, twin: &Twin, setting: &Setting, outcome: Outcome) {
        let name = format!(
            "{}{}{} {}",
            case.source,
            if twin.fixed { " fixed" } else { "" },
            case.flags.iter().map(|f| format!(" {f}")).collect::<String>(),
            setting.words()
        );
        // A long run goes on behind what is wrong, and says so at once: it may be cut off.
        let untrue = (!outcome.truth_holds(twin)).then(|| format!("the program counted {:?}", outcome.own));
        let broken = outcome.broken_next.iter().map(|next| format!("the command named next: {next}"));
        self.faults.extend(untrue.into_iter().chain(broken).map(|what| format!("{name}: {what}")));
        let missed = outcome.missed(twin);
        let misnamed = twin.class == "layout" && !missed && !outcome.named;
        let classes = outcome.classes.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        let words = format!("expected {}, exit {}, listed: {classes}", twin.class, outcome.status);
        let class = twin.class.clone();
        let row = Row { name, class, missed, accused: outcome.accused(twin), misnamed, words };
        if let Some(line) = row.wrong() {
            eprintln!("{line}");
        }
        self.rows.push(row);
    }

    pub fn judged(&self) -> usize {
        self.rows.len()
    }

    /// Recall, precision, naming, and every wrong one.
    pub fn table(&self) -> String {
        let count = |f: &dyn Fn(&Row) -> bool| self.rows.iter().filter(|r| f(r)).count();
        let fights = count(&|r| r.class == "layout");
        let found = count(&|r| r.class == "layout" && !r.missed);
        let accused = count(&|r| r.accused);
        let misnamed = count(&|r| r.misnamed);
        let mut out = format!(
            "{} judged: recall {found} of {fights}, precision {found} of {}, named {} of {found}, missed in all {}\n",
            self.rows.len(),
            found + accused,
            found - misnamed,
            count(&|r| r.missed)
        );
        for line in self.rows.iter().filter_map(Row::wrong).chain(self.faults.iter().cloned()) {
            out.push_str(&format!("  {line}\n"));
        }
        out
    }

    pub fn check(&self, allowed: &Limits) {
        assert!(self.faults.is_empty(), "{}", self.table());
        let count = |f: &dyn Fn(&Row) -> bool| self.rows.iter().filter(|r| f(r)).count();
        assert!(count(&|r| r.missed) <= allowed.missed_max, "{}", self.table());
        assert!(count(&|r| r.accused) <= allowed.accused_max, "{}", self.table());
        assert!(count(&|r| r.misnamed) <= allowed.misnamed_max, "{}", self.table());
    }
}
