//! What could not be read, with table, line and offset.

use std::fmt;

/// Something in an evidence file that was skipped, repaired or doubted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Table; empty when it concerns the file.
    pub table: String,
    /// 1-based line of the file; 0 when it concerns a whole table.
    pub line: u64,
    /// Byte offset of that line.
    pub offset: u64,
    /// What is wrong and what was done about it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.table.is_empty() {
            write!(f, "table {}", self.table)?;
            f.write_str(if self.line > 0 { ", " } else { ": " })?;
        }
        if self.line > 0 {
            write!(f, "line {} (byte {}): ", self.line, self.offset)?;
        }
        f.write_str(&self.message)
    }
}

/// Problems of one file, bounded: a hostile file has as many as it has bytes.
#[derive(Default)]
pub(crate) struct Problems {
    list: Vec<Problem>,
    more: u64,
}

/// Problems kept one by one; the rest is counted.
const PROBLEMS_MAX: usize = 200;

impl Problems {
    pub(crate) fn push(&mut self, table: &str, line: u64, offset: u64, message: &str) {
        let message = message.chars().take(300).collect();
        self.add(Problem { table: table.into(), line, offset, message });
    }

    fn add(&mut self, problem: Problem) {
        // Room is kept for the last words about the whole file.
        let cap = if problem.line > 0 { PROBLEMS_MAX } else { PROBLEMS_MAX + 20 };
        match self.list.len() < cap {
            true => self.list.push(problem),
            false => self.more += 1,
        }
    }

    /// Appends those of what comes later in the file.
    pub(crate) fn join(&mut self, later: Problems) {
        later.list.into_iter().for_each(|p| self.add(p));
        self.more += later.more;
    }

    pub(crate) fn finish(mut self) -> Vec<Problem> {
        if self.more > 0 {
            let message = format!("{} further problems", self.more);
            self.list.push(Problem { table: String::new(), line: 0, offset: 0, message });
        }
        self.list
    }
}
