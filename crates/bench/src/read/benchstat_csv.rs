//! benchstat's tables as comma-separated values (`-format csv`; `-csv` of the old one).

use super::generic::cells;
use super::{ChangeKind, Direction, Format, Printed, ROWS_MAX, Row};

/// Columns of one file: where its value is, and where its change is, if it has one.
struct File {
    value: usize,
    change: Option<usize>,
}

/// What the headings say.
struct Head {
    measure: String,
    files: Vec<File>,
}

/// Rows of all tables in a text. Above the rows of a table stands `,sec/op,CI,sec/op,CI,vs base,P`, in the old format
/// `name,old time/op (ns/op),±,new time/op (ns/op),±,delta,±`.
pub(super) fn read(text: &str, problems: &mut Vec<String>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut head: Option<Head> = None;
    for line in text.lines() {
        let cells = cells(line);
        if let Some(new) = headings(&cells) {
            head = Some(new);
        } else if cells.len() < 3 || cells[0].is_empty() {
            // An empty line or one of file names ends a table.
            head = None;
        } else if let Some(head) = head.as_ref().filter(|_| rows.len() < ROWS_MAX) {
            rows_of(&cells, head, &mut rows, problems);
        }
    }
    rows
}

fn headings(cells: &[String]) -> Option<Head> {
    let deviation = |c: &String| c == "CI" || c == "±";
    if cells.len() < 3 || !matches!(cells[0].as_str(), "" | "name") || !deviation(&cells[2]) {
        return None;
    }
    let of = |value: usize| {
        let change =
            Some(value + 2).filter(|i| cells.get(*i).is_some_and(|c| c == "vs base" || c == "delta"));
        File { value, change }
    };
    let files = (1..cells.len() - 1).filter(|i| deviation(&cells[i + 1]) && cells[*i] != "delta").map(of);
    let measure = cells[1].strip_prefix("old ").unwrap_or(&cells[1]);
    Some(Head {
        measure: measure.split_whitespace().next().unwrap_or_default().into(),
        files: files.collect(),
    })
}

fn rows_of(cells: &[String], head: &Head, rows: &mut Vec<Row>, problems: &mut Vec<String>) {
    let at = |i: usize| cells.get(i).map_or("", String::as_str);
    let deviation = |f: &File| at(f.value + 1).trim_end_matches('%').parse().ok();
    let Some((base, others)) = head.files.split_first() else { return };
    let Some(old) = Printed::parse(at(base.value)) else {
        return problems.push(format!("{}: {} is no number", at(0), at(base.value)));
    };
    for (i, file) in others.iter().enumerate() {
        // Not every file has every benchmark.
        let (Some(new), Some(change)) = (Printed::parse(at(file.value)), file.change) else { continue };
        let starred = Some(at(change)).filter(|c| !c.is_empty()).map(|c| c != "~");
        rows.push(Row {
            format: Format::Benchstat,
            statistic: (!head.measure.is_empty()).then(|| head.measure.clone()),
            name: at(0).into(),
            column: i + 1,
            direction: if head.measure.ends_with("/s") { Direction::Higher } else { Direction::Lower },
            old,
            new,
            old_deviation_percent: deviation(base),
            new_deviation_percent: deviation(file),
            change: Printed::parse(at(change).trim_end_matches('%')),
            change_kind: ChangeKind::Percent,
            starred: starred.filter(|_| at(0) != "geomean"),
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::read;

    fn check(text: &str, expect: &[(&str, usize, f64, f64, Option<bool>)]) {
        let (document, problems) = read::read(text).unwrap();
        assert_eq!(problems, Vec::<String>::new());
        let rows =
            document.rows.iter().map(|r| (r.name.as_str(), r.column, r.old.value, r.new.value, r.starred));
        assert_eq!(rows.collect::<Vec<_>>(), expect);
        assert!(!crate::audit::audit(&document).accuses());
    }

    #[test]
    fn every_file_is_compared_with_the_first() {
        let text = "goos: linux\npkg: sort\n,old.txt,,a.txt,,,,b.txt,,,\n\
            ,sec/op,CI,sec/op,CI,vs base,P,sec/op,CI,vs base,P\n\
            Sort-2,2.0e-05,3%,1.0e-05,1%,-50.00%,p=0.000 n=10,2.0e-05,1%,~,p=0.700 n=10\n\
            geomean,2.0e-05,,1.0e-05,,-50.00%,,2.0e-05,,+0.00%,\n";
        let rows = [
            ("Sort-2", 1, 2e-5, 1e-5, Some(true)),
            ("Sort-2", 2, 2e-5, 2e-5, Some(false)),
            ("geomean", 1, 2e-5, 1e-5, None),
            ("geomean", 2, 2e-5, 2e-5, None),
        ];
        check(text, &rows);
        let old = "name,old time/op (ns/op),±,new time/op (ns/op),±,delta,±\n\
            Sort-2,2.0E+04,3%,1.0E+04,1%,-50.00%,(p=0.000 n=10+10)\n";
        check(old, &[("Sort-2", 1, 2e4, 1e4, Some(true))]);
    }

    #[test]
    fn a_wrong_percentage_is_named() {
        let text = ",old,,new,,,\n,sec/op,CI,sec/op,CI,vs base,P\n\
            A,2.00e-05,3%,1.00e-05,1%,-30.00%,p=0.000 n=10\n";
        let (document, _) = read::read(text).unwrap();
        assert!(crate::audit::audit(&document).accuses());
    }
}
