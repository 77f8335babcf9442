//! What names of fields say, word by word.

/// The words of a name in lower case: `rxQueue_head2` is `rx`, `queue`, `head`.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in name.chars() {
        if c.is_ascii_alphabetic() {
            let begins = !before.is_ascii_alphabetic() || (c.is_uppercase() && before.is_lowercase());
            if begins {
                out.push(String::new());
            }
            if let Some(word) = out.last_mut() {
                word.push(c.to_ascii_lowercase());
            }
        }
        before = c;
    }
    out
}

/// Words for the two ends of what passes data between threads.
const ENDS: [(&str, &str); 12] = [
    ("head", "tail"),
    ("front", "back"),
    ("producer", "consumer"),
    ("prod", "cons"),
    ("enqueue", "dequeue"),
    ("enq", "deq"),
    ("push", "pop"),
    ("write", "read"),
    ("wr", "rd"),
    ("writer", "reader"),
    ("in", "out"),
    ("put", "get"),
];

/// The names differ only in the words for two opposite ends: `q_head` and `q_tail`.
pub(super) fn opposite_ends(a: &str, b: &str) -> bool {
    let (a, b) = (words(a), words(b));
    let mut differ = a.iter().zip(&b).filter(|(x, y)| x != y);
    let (Some((x, y)), None) = (differ.next(), differ.next()) else { return false };
    a.len() == b.len()
        && ENDS.iter().any(|e| *e == (x.as_str(), y.as_str()) || *e == (y.as_str(), x.as_str()))
}

/// Words for one of something each.
const EACH: [&str; 11] =
    ["thread", "threads", "worker", "workers", "cpu", "cpus", "percpu", "core", "cores", "shard", "shards"];
/// Words for what is set up once and read: names, numbers, settings.
const SETTINGS: [&str; 20] = [
    "id", "ids", "name", "names", "mask", "map", "set", "affinity", "config", "conf", "cfg", "max", "min",
    "limit", "attr", "info", "desc", "topology", "num", "nr",
];

/// An array of that name has one element for each thread or CPU.
pub(super) fn one_each(name: &str) -> bool {
    let words = words(name);
    words.iter().any(|w| EACH.contains(&w.as_str())) && !words.iter().any(|w| SETTINGS.contains(&w.as_str()))
}

/// Functions of that name run once, at the end of an object.
pub(super) fn runs_once(name: &str) -> bool {
    const ONCE: [&str; 14] = [
        "free",
        "release",
        "destroy",
        "destructor",
        "dtor",
        "delete",
        "cleanup",
        "close",
        "exit",
        "fini",
        "finalize",
        "deinit",
        "init",
        "open",
    ];
    words(name).iter().any(|w| ONCE.contains(&w.as_str()))
}

/// The type is a lock by its name, in projects that have their own.
pub(super) fn lock_type(name: &str) -> bool {
    const LOCKS: [&str; 6] = ["mutex", "spinlock", "rwlock", "rwmutex", "seqlock", "futex"];
    let bare = name.split('<').next().unwrap_or(name);
    let last = bare.rsplit([':', '.', ' ']).next().unwrap_or(bare);
    let last = last.strip_suffix("_t").unwrap_or(last).to_ascii_lowercase().replace('_', "");
    LOCKS.iter().any(|l| last.ends_with(l))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_words() {
        assert_eq!(words("rxQueue_head2"), ["rx", "queue", "head"]);
        assert!(opposite_ends("q_head", "q_tail") && opposite_ends("readIndex", "writeIndex"));
        assert!(!opposite_ends("head", "head") && !opposite_ends("a_head", "b_tail"));
        assert!(one_each("per_thread_stats") && !one_each("thread_ids") && !one_each("spread"));
        assert!(lock_type("uv_mutex_t") && lock_type("absl::Mutex") && !lock_type("struct mutex_stats"));
    }
}
