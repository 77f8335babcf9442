//! `perf c2c report --stdio` as text, in any of its layouts.
//!
//! The layouts differ in columns (2016: four percentages and a pid; modern: node and records; Arm: a peer column) and
//! mailers wrap or flatten the lines. So lines do not matter here: the text is a stream of words, and a row is
//! recognised by its shape: percentages, an offset, a code address, cycles, `[k]` or `[.]`, a symbol, an object.

use crate::error::Skipped;
use std::collections::BTreeMap;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct C2cText {
    /// `Load Local HITM` and so on, first occurrence of each label.
    pub totals: BTreeMap<String, u64>,
    /// Lines of all Pareto tables in the text, in order.
    pub lines: Vec<TextLine>,
    /// What does not add up or could not be read.
    pub problems: Vec<Skipped>,
}

/// One cache line of a Pareto table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextLine {
    /// Its number in the table.
    pub index: u64,
    /// Address of the line.
    pub address: u64,
    /// Samples per percentage column of the rows below, in the same order.
    pub counts: Counts,
    /// Rows.
    pub rows: Vec<TextRow>,
}

/// Samples of a line, by column; `None` where the layout has no such column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Loads that hit a modified line in a remote socket.
    pub remote_hitm: u64,
    /// Loads that hit a modified line in this socket.
    pub local_hitm: u64,
    /// Loads served by a peer cache (Arm).
    pub peer: Option<u64>,
    /// The part of [`Counts::peer`] that was served by another node, where the layout has it instead of HITM (`-d peer`
    /// since Linux 6.0): the first two percentages are those of remote and local peers then.
    pub peer_remote: Option<u64>,
    /// Stores that hit L1.
    pub store_l1_hit: u64,
    /// Stores that missed L1.
    pub store_l1_miss: u64,
    /// Stores without a level.
    pub store_no_level: Option<u64>,
}

impl Counts {
    /// Local and remote HITM.
    pub fn hitm(&self) -> u64 {
        self.remote_hitm.saturating_add(self.local_hitm)
    }

    /// By the columns that a layout of `values.len()` numbers has; `peers`: the first two are peers, not HITM.
    fn of(values: &[u64], peers: bool) -> Option<Counts> {
        let (remote, local) = (*values.first()?, *values.get(1)?);
        let base = match peers {
            true => Counts {
                peer: Some(remote.saturating_add(local)),
                peer_remote: Some(remote),
                ..Counts::default()
            },
            false => Counts { remote_hitm: remote, local_hitm: local, ..Counts::default() },
        };
        match values[2..] {
            [hit, miss] => Some(Counts { store_l1_hit: hit, store_l1_miss: miss, ..base }),
            [hit, miss, none] => {
                Some(Counts { store_l1_hit: hit, store_l1_miss: miss, store_no_level: Some(none), ..base })
            }
            [peer, hit, miss, none] if !peers => Some(Counts {
                peer: Some(peer),
                store_l1_hit: hit,
                store_l1_miss: miss,
                store_no_level: Some(none),
                ..base
            }),
            _ => None,
        }
    }

    /// Columns of shares in rows: what they are of, and the count. In the order of the layout.
    pub fn columns(&self) -> Vec<(&'static str, u64)> {
        let mut out = match (self.peer, self.peer_remote) {
            (Some(peer), Some(remote)) => vec![("remote peer", remote), ("local peer", peer - remote)],
            (Some(peer), None) => {
                vec![("remote HITM", self.remote_hitm), ("local HITM", self.local_hitm), ("peer", peer)]
            }
            _ => vec![("remote HITM", self.remote_hitm), ("local HITM", self.local_hitm)],
        };
        out.extend([("store L1 hit", self.store_l1_hit), ("store L1 miss", self.store_l1_miss)]);
        out.extend(self.store_no_level.map(|n| ("store without level", n)));
        out
    }
}

/// One row: one code address at one offset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextRow {
    /// Shares in percent of the line's counts, in column order.
    pub percent: Vec<f64>,
    /// Offset in the line, bytes.
    pub offset: u64,
    /// Code address.
    pub code: u64,
    /// Median cycles of remote HITM, local HITM and other loads.
    pub cycles: [u64; 3],
    /// Samples in this row, where the layout has them.
    pub records: Option<u64>,
    /// CPUs that took part.
    pub cpus: u64,
    /// In the kernel.
    pub kernel: bool,
    /// Function.
    pub symbol: String,
    /// Executable or `[kernel.kallsyms]`.
    pub object: String,
    /// `file:line` or `function+offset`.
    pub source: String,
}

impl TextRow {
    /// HITM samples of this row (peer samples in a layout without HITM), from its shares of the line's counts.
    pub fn hitm(&self, line: &TextLine) -> f64 {
        let share = |i: usize| self.percent.get(i).copied().unwrap_or(0.0) / 100.0;
        if let (Some(peer), Some(remote)) = (line.counts.peer, line.counts.peer_remote) {
            return share(0) * remote as f64 + share(1) * (peer - remote) as f64;
        }
        share(0) * line.counts.remote_hitm as f64 + share(1) * line.counts.local_hitm as f64
    }
}

/// Reads the text. Never fails: what is not a table is passed over.
pub fn read(text: &str) -> C2cText {
    let numberless = without_line_numbers(text);
    let text = numberless.as_deref().unwrap_or(text);
    let words: Vec<(usize, &str)> = split(text);
    let mut out = C2cText { totals: totals(text), ..C2cText::default() };
    let peers = words.windows(4).any(|w| {
        let tail: Vec<&str> = w.iter().map(|w| w.1).collect();
        is_dashes(tail[0]) && tail[1..3] == ["Peer", "Snoop"] && is_dashes(tail[3])
    });
    let mut at = 0;
    while at < words.len() {
        if let Some((line, next)) = line_header(&words, at, peers) {
            out.lines.push(line);
            at = next;
        } else if let Some((row, next)) = row(&words, at) {
            match out.lines.last_mut() {
                Some(line) => line.rows.push(row),
                None => out.problems.push(Skipped {
                    offset: words[at].0 as u64,
                    message: "a row of a line whose header is missing".into(),
                }),
            }
            at = next;
        } else {
            at += 1;
        }
    }
    check(&mut out);
    out
}

/// The text without the line numbers that some web pages put in front of every line; `None` when there are none.
fn without_line_numbers(text: &str) -> Option<String> {
    let split = |line: &str| -> Option<(u64, usize)> {
        let bare = line.trim_start();
        let digits = bare.find(|c: char| !c.is_ascii_digit()).unwrap_or(bare.len());
        Some((bare[..digits].parse().ok()?, line.len() - bare.len() + digits))
    };
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let numbers: Vec<Option<u64>> = lines.iter().map(|l| split(l).map(|s| s.0)).collect();
    let counted =
        numbers.windows(2).filter(|w| matches!(w, [Some(a), Some(b)] if *b == a.wrapping_add(1))).count();
    if lines.len() < 10 || counted * 10 < lines.len() * 8 {
        return None;
    }
    let strip = |l: &str| l.get(split(l).map_or(0, |s| s.1)..).unwrap_or(l).to_string() + "\n";
    Some(text.lines().map(strip).collect())
}

/// Words with their byte offsets, without the marks of a quotation.
fn split(text: &str) -> Vec<(usize, &str)> {
    let base = text.as_ptr() as usize;
    let words = text.lines().flat_map(|l| unquoted(l).split_whitespace());
    words.map(|w| (w.as_ptr() as usize - base, w)).collect()
}

/// A line without what mailers put in front of it to quote it.
fn unquoted(line: &str) -> &str {
    line.trim_start_matches(['>', ' ', '\t'])
}

/// `Label : number` lines.
fn totals(text: &str) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    for line in text.lines() {
        if let Some((label, value)) = unquoted(line).split_once(" : ")
            && let Ok(n) = value.trim().parse()
        {
            out.entry(label.trim().to_string()).or_insert(n);
        }
    }
    out
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

fn is_dashes(word: &str) -> bool {
    word.len() >= 2 && word.bytes().all(|b| b == b'-')
}

/// Some pastes have `#` before the rules, as perf has it before the headings.
fn is_rule(word: &str) -> bool {
    word.len() >= 20 && word.ends_with('-') && word.trim_start_matches('#').bytes().all(|b| b == b'-')
}

/// A rule, the line's number, its counts, its address, a rule.
fn line_header(words: &[(usize, &str)], at: usize, peers: bool) -> Option<(TextLine, usize)> {
    let word = |i: usize| words.get(i).map(|w| w.1);
    if !is_rule(word(at)?) {
        return None;
    }
    let index = word(at + 1)?.parse().ok()?;
    let numbers: Vec<u64> = (at + 2..).map_while(|i| word(i)?.parse().ok()).take(8).collect();
    let after = at + 2 + numbers.len();
    let address = hex(word(after)?)?;
    is_rule(word(after + 1)?).then_some(())?;
    let counts = Counts::of(&numbers, peers)?;
    Some((TextLine { index, address, counts, rows: Vec::new() }, after + 2))
}

fn percentage(word: &str) -> Option<f64> {
    let value: f64 = word.strip_suffix('%')?.parse().ok()?;
    (value.is_finite() && (0.0..=100.0).contains(&value)).then_some(value)
}

/// A row and the index of the word behind it.
fn row(words: &[(usize, &str)], at: usize) -> Option<(TextRow, usize)> {
    let word = |i: usize| words.get(i).map(|w| w.1);
    let percent: Vec<f64> = (at..).map_while(|i| percentage(word(i)?)).take(8).collect();
    if !(4..=6).contains(&percent.len()) {
        return None;
    }
    let mut i = at + percent.len();
    let offset = hex(word(i)?)?;
    i += 1;
    // Pid, or node and number of physical addresses, or all three.
    let between = (i..).take(4).take_while(|&k| word(k).is_some_and(|w| !w.starts_with("0x"))).count();
    i += between;
    let code = hex(word(i)?)?;
    i += 1;
    let numbers: Vec<u64> = (i..).map_while(|k| word(k)?.parse().ok()).take(8).collect();
    i += numbers.len();
    let (cycles, records, cpus) = match numbers[..] {
        [r, l, other, cpus] => ([r, l, other], None, cpus),
        [r, l, other, records, cpus] => ([r, l, other], Some(records), cpus),
        [r, l, other, _peer, records, cpus] => ([r, l, other], Some(records), cpus),
        _ => return None,
    };
    let mode = word(i)?;
    let kernel = mode == "[k]";
    (kernel || mode == "[.]").then_some(())?;
    let text =
        |k: usize| word(k).filter(|w| percentage(w).is_none() && !is_rule(w)).unwrap_or_default().to_string();
    let row = TextRow {
        percent,
        offset,
        code,
        cycles,
        records,
        cpus,
        kernel,
        symbol: text(i + 1),
        object: text(i + 2),
        source: text(i + 3),
    };
    Some((row, (i + 4).min(words.len())))
}

/// Says which columns of a line do not add up to 100%: a pasted table is often cut.
fn check(out: &mut C2cText) {
    check_totals(out);
    let mut found = Vec::new();
    for line in &out.lines {
        for (column, (what, count)) in line.counts.columns().into_iter().enumerate() {
            let sum: f64 = line.rows.iter().filter_map(|r| r.percent.get(column)).sum();
            // Each share is rounded to a hundredth.
            let slack = 0.005 * line.rows.len() as f64 + 0.01;
            if count > 0 && (sum - 100.0).abs() > slack {
                let message = format!(
                    "line {} (0x{:x}): the rows' shares of {count} {what} add up to {sum:.2}%, not 100%: rows are \
                     missing",
                    line.index, line.address
                );
                found.push(Skipped { offset: 0, message });
            }
        }
    }
    out.problems.extend(found);
}

/// The lines of the first table against the totals of the whole recording.
fn check_totals(out: &mut C2cText) {
    let first = out.lines.chunk_by(|a, b| b.index > a.index).next().unwrap_or(&[]);
    let hitm = first.iter().any(|l| l.counts.peer_remote.is_none());
    let columns: [(&str, fn(&Counts) -> u64); 4] = [
        ("Load Local HITM", |c| c.local_hitm),
        ("Load Remote HITM", |c| c.remote_hitm),
        ("Load HIT Local Peer", |c| c.peer.unwrap_or(0) - c.peer_remote.unwrap_or(0)),
        ("Load HIT Remote Peer", |c| c.peer_remote.unwrap_or(0)),
    ];
    let mut found = Vec::new();
    for (label, of) in if hitm { &columns[..2] } else { &columns[2..] } {
        let sum = first.iter().map(|l| of(&l.counts)).fold(0, u64::saturating_add);
        let Some(total) = out.totals.get(*label).filter(|_| !first.is_empty()) else { continue };
        let message = match sum.cmp(total) {
            std::cmp::Ordering::Equal => continue,
            std::cmp::Ordering::Greater => {
                format!("{label} is {total}, but the lines of the table have {sum}")
            }
            std::cmp::Ordering::Less => {
                format!(
                    "{label} is {total}, the lines of the table have {sum} of them: the others are not listed"
                )
            }
        };
        found.push(Skipped { offset: 0, message });
    }
    out.problems.extend(found);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rows and the header of the `i_mmap` patch's first table, on one line as the mail has it.
    const FLAT: &str = "Pareto ------------------------------------------------------------- 0 3729 5791 0 0 \
        0xff19b3818445c740 ------------------------------------------------------------- 3.27% 3.02% 0.00% 0.00% 0x18 \
        0 1 0xffffffffa194403b 604 483 389 692 203 [k] vma_interval_tree_insert [kernel.kallsyms] \
        vma_interval_tree_insert+75 0 1 33.82% 34.10% 0.00% 0.00% 0x30 0 1 0xffffffffa1770945 779 495 534 6011 224 \
        [k] rwsem_spin_on_owner [kernel.kallsyms] rwsem_spin_on_owner+53 0 1 With this change: \
        ------------------------------------------------------------- 0 556 838 0 0 0xff2780d7965d2780 \
        ------------------------------------------------------------- ";

    #[test]
    fn a_flattened_mail_is_read() {
        let c = read(FLAT);
        assert_eq!(c.lines.len(), 2);
        let (before, after) = (&c.lines[0], &c.lines[1]);
        assert_eq!((before.counts.hitm(), after.counts.hitm()), (9520, 1394));
        assert_eq!(before.rows.len(), 2);
        assert_eq!(before.rows[0].offset, 0x18);
        assert_eq!(before.rows[0].symbol, "vma_interval_tree_insert");
        assert_eq!(before.rows[1].cpus, 224);
        assert_eq!(before.rows[1].records, Some(6011));
        // Most rows are left out here: said once per column and line.
        assert_eq!(c.problems.len(), 4);
    }

    #[test]
    fn rules_may_begin_like_headings() {
        let hashed = FLAT.replace(" -----", " #-----");
        assert_ne!(hashed, FLAT);
        assert_eq!(read(&hashed).lines, read(FLAT).lines);
    }

    #[test]
    fn quoted_mails_are_read() {
        let text =
            format!("Load Local HITM : 5791\n{}", FLAT.replace(" -----", "\n-----").replace("- ", "-\n"));
        let plain = read(&text);
        assert_eq!((plain.lines.len(), plain.lines[0].rows.len(), plain.totals.len()), (2, 2, 1));
        for mark in ["> ", ">", "> > ", ">> "] {
            let quoted: String = text.lines().map(|l| format!("{mark}{l}\n")).collect();
            let quoted = read(&quoted);
            assert_eq!((&quoted.lines, &quoted.totals), (&plain.lines, &plain.totals), "{mark:?}");
        }
    }

    #[test]
    fn totals_below_the_lines_are_said() {
        let of = |total: u64| {
            let text = format!("Load Local HITM : {total}\nLoad Remote HITM : 3729\n{FLAT}");
            read(&text).problems.iter().filter(|p| p.message.contains("Load Local")).count()
        };
        assert_eq!((of(5791), of(5790), of(5792)), (0, 1, 1));
    }

    #[test]
    fn the_layout_of_2016_has_a_pid_and_no_records() {
        let text = "  -------------------------------------------------------------\n      0     9834     2269   \
            109036      468            0x602180\n  -------------------------------------------------------------\n \
            65.51%   55.88%   75.20%    0.00%                 0x0    14604            0x400b4f     27161     26039     \
            26017         9  [.] read_write_func  no_false_sharing.exe  false_sharing_example.c:144   0{0-1,\n";
        let c = read(text);
        assert_eq!(c.lines[0].counts.store_l1_hit, 109_036);
        let r = &c.lines[0].rows[0];
        assert_eq!((r.code, r.cpus, r.records), (0x400b4f, 9, None));
        assert_eq!(r.source, "false_sharing_example.c:144");
    }

    #[test]
    fn an_arm_report_has_a_peer_column() {
        let text = "------------------------------------------------------------------------------- 0 0 0 99 0 0 0 \
            0xaaaac17d6000 ------------------------------------------------------------------------------- 0.00% 0.00% \
            6.06% 0.00% 0.00% 0.00% 0x20 N/A 0 0xaaaac17c25ac 0 0 43 375 18469 2 [.] 0x00000000000025ac memstress \
            memstress[25ac] 0";
        let c = read(text);
        assert_eq!(c.lines[0].counts.peer, Some(99));
        let r = &c.lines[0].rows[0];
        assert_eq!((r.offset, r.records, r.cpus), (0x20, Some(18469), 2));
    }

    #[test]
    fn peers_instead_of_hitm() {
        let text = "#  -- Peer Snoop --  ------- Store Refs ------\n  \
            ---------------------------------------------------------------------- 0 0 2 0 1 0 0x7f0000000140 \
            ---------------------------------------------------------------------- 0.00% 50.00% 0.00% 0.00% 0.00% 0x30 \
            0 1 0x400064 0 442 0 1 1 [.] 0x0000000000000064 prog 0";
        let c = read(text);
        let counts = c.lines[0].counts;
        assert_eq!((counts.hitm(), counts.peer, counts.peer_remote), (0, Some(2), Some(0)));
        assert_eq!(c.lines[0].rows.len(), 1);
    }

    #[test]
    fn line_numbers_of_a_web_page_are_taken_off() {
        let rule = "-".repeat(61);
        let row = |offset: &str, code: &str| {
            format!(
                "65.51% 55.88% 75.20% 0.00% {offset} 14604 {code} 27161 26039 26017 9 [.] f prog.exe f.c:1"
            )
        };
        let mut lines = vec!["Pareto".to_string(), "=====".into(), "#".into(), "#".into(), "# Num".into()];
        lines.extend([rule.clone(), "0 9834 2269 109036 468 0x602180".into(), rule]);
        lines.extend([row("0x0", "0x400b4f"), row("0x8", "0x400b56")]);
        let page: String = lines.iter().zip(1..).map(|(l, n)| format!("   {n}\t {l}\n")).collect();
        let c = read(&page);
        assert_eq!((c.lines.len(), c.lines[0].counts.hitm(), c.lines[0].rows.len()), (1, 12_103, 2));
    }

    #[test]
    fn words_that_are_no_table_are_passed_over() {
        for text in ["", "0.00%", "1% 2% 3% 4% 0x", "-------------------- 0", "99999999999999999999% 0x1 0x2"]
        {
            assert!(read(text).lines.is_empty());
        }
    }
}
