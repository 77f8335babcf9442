//! Which process came of which: by fork, or by exec with the same process id. Ids tell those of one namespace apart.

use crate::raw::RawFile;
use crate::wire::*;
use std::collections::HashMap;

/// Processes of a recording by the positions of their files.
pub(crate) struct Family {
    headers: Vec<Header>,
    /// What names a file: process id and number.
    by_name: HashMap<(u32, u32), usize>,
    /// Files of one process id of one namespace, oldest first.
    by_pid: HashMap<(u32, u32), Vec<usize>>,
}

impl Family {
    pub fn new(files: &[&RawFile<'_>]) -> Family {
        Family::of(files.iter().map(|f| f.header()).collect())
    }

    fn of(headers: Vec<Header>) -> Family {
        let mut by_name = HashMap::new();
        let mut by_pid: HashMap<_, Vec<usize>> = HashMap::new();
        for (i, h) in headers.iter().enumerate() {
            by_name.entry((h.pid, h.seq)).or_insert(i);
            by_pid.entry((h.pid_namespace, h.pid)).or_default().push(i);
        }
        for files in by_pid.values_mut() {
            files.sort_by_key(|&i| (headers[i].seq, headers[i].forked == 0));
        }
        Family { headers, by_name, by_pid }
    }

    /// The process that this one was forked from.
    pub fn forked_from(&self, i: usize) -> Option<usize> {
        let h = self.headers.get(i).filter(|h| h.forked != 0)?;
        self.by_name.get(&(h.parent_pid, h.parent_seq)).copied().filter(|&p| p != i)
    }

    /// Of the files with this one's process id, the one before (`by` -1) or after it.
    fn beside(&self, i: usize, by: isize) -> Option<usize> {
        let h = self.headers.get(i)?;
        let same = self.by_pid.get(&(h.pid_namespace, h.pid))?;
        let at = same.iter().position(|&s| s == i)?;
        same.get(at.checked_add_signed(by)?).copied()
    }

    /// True if the process executed another program, which has the next file. Ids are given again, and so are those of
    /// namespaces: what exited was not replaced, and what was forked replaces nothing.
    pub fn replaced(&self, i: usize) -> bool {
        let header = |i: usize| self.headers.get(i);
        let exited = header(i).is_none_or(|h| [END_EXITED, END_UNDERSCORE_EXIT].contains(&h.end));
        !exited && self.beside(i, 1).and_then(header).is_some_and(|h| h.forked == 0)
    }

    /// What it was forked from, was before exec, or has for a parent otherwise.
    pub fn parent(&self, i: usize) -> Option<u32> {
        let h = self.headers.get(i)?;
        let exec_of = || self.beside(i, -1).filter(|&before| self.replaced(before));
        let by_pid = || self.by_pid.get(&(h.pid_namespace, h.ppid)).and_then(|p| p.first()).copied();
        let found = self.forked_from(i).or_else(exec_of).or_else(by_pid);
        found.filter(|&p| p != i).map(|p| p as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(pid_namespace: u32, pid: u32, seq: u32, ppid: u32, fork: Option<(u32, u32)>) -> Header {
        let bytes = vec![0u8; 8192];
        let file = RawFile::for_tests(&bytes);
        let (parent_pid, parent_seq) = fork.unwrap_or_default();
        let forked = u32::from(fork.is_some());
        Header { pid_namespace, pid, seq, ppid, parent_pid, parent_seq, forked, ..file.header() }
    }

    #[test]
    fn equal_ids_of_two_namespaces_are_two_processes() {
        let f = Family::of(vec![header(7, 1, 0, 0, None), header(8, 1, 1, 0, None)]);
        assert!(!f.replaced(0) && !f.replaced(1));
        assert_eq!((f.parent(0), f.parent(1)), (None, None));
    }

    #[test]
    fn what_exited_was_not_replaced() {
        let first = Header { end: END_EXITED, ..header(7, 1, 0, 0, None) };
        let f = Family::of(vec![first, header(7, 1, 1, 0, None)]);
        assert!(!f.replaced(0));
        assert_eq!(f.parent(1), None);
    }

    #[test]
    fn exec_keeps_the_id_and_a_fork_that_was_given_it_again_does_not() {
        let f = Family::of(vec![
            header(7, 5, 0, 2, None),
            header(7, 5, 1, 2, None),
            header(7, 5, 2, 9, Some((9, 0))),
            header(7, 9, 0, 1, None),
        ]);
        assert_eq!((f.replaced(0), f.replaced(1), f.replaced(2)), (true, false, false));
        assert_eq!((f.parent(1), f.parent(2), f.forked_from(2)), (Some(0), Some(3), Some(3)));
    }

    #[test]
    fn a_forked_child_that_executes_is_one_process() {
        let f = Family::of(vec![
            header(7, 2, 0, 1, None),
            header(7, 5, 0, 2, Some((2, 0))),
            header(7, 5, 1, 2, None),
        ]);
        assert!(f.replaced(1));
        assert_eq!((f.parent(1), f.parent(2)), (Some(0), Some(1)));
    }
}
