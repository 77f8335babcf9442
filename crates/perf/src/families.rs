//! Which kernel functions work on which primitive: the small knowledge that ties a function's name to a field when no
//! debug information of that build is at hand. Names as in Linux 4.x to 6.x.

/// Functions that work on the insides of certain types.
pub(crate) struct Family {
    /// A function belongs here when its name contains one of these.
    pub functions: &'static [&'static str],
    /// Types (without keyword) on whose insides they work.
    pub types: &'static [&'static str],
    /// `(part of the function's name, member it mostly touches)`, first match counts; `""` matches all.
    pub members: &'static [(&'static str, &'static str)],
}

/// All families; a function belongs to the first that matches.
pub(crate) const FAMILIES: &[Family] = &[
    Family {
        functions: &["rwsem_", "down_read", "down_write", "up_read", "up_write", "downgrade_write"],
        types: &["rw_semaphore"],
        members: &[
            ("owner", "owner"),
            ("mark_wake", "wait_list"),
            ("add_waiter", "wait_list"),
            ("", "count"),
        ],
    },
    Family {
        functions: &[
            "mutex_spin_on_owner",
            "mutex_lock",
            "mutex_unlock",
            "mutex_trylock",
            "mutex_optimistic",
        ],
        types: &["mutex"],
        members: &[("", "owner")],
    },
    Family {
        functions: &["osq_lock", "osq_unlock", "osq_wait_next"],
        types: &["optimistic_spin_queue"],
        members: &[("", "tail")],
    },
    Family { functions: &["lockref_"], types: &["lockref"], members: &[("", "count")] },
    Family {
        functions: &["spin_lock", "spin_unlock", "spin_trylock", "queued_spin_lock", "raw_spin_"],
        types: &["spinlock", "raw_spinlock", "qspinlock", "lockref"],
        members: &[("", "val"), ("", "lock")],
    },
    Family {
        functions: &[
            "read_lock",
            "read_unlock",
            "write_lock",
            "write_unlock",
            "queued_read_",
            "queued_write_",
        ],
        types: &["qrwlock", "rwlock_t"],
        members: &[("", "cnts")],
    },
    Family {
        functions: &["interval_tree_insert"],
        types: &["rb_root_cached", "rb_root"],
        members: &[("", "rb_node")],
    },
    Family {
        functions: &["interval_tree_remove"],
        types: &["rb_root_cached", "rb_root"],
        members: &[("", "rb_leftmost")],
    },
    Family {
        functions: &["interval_tree", "rb_insert", "rb_erase", "rb_first", "rb_next"],
        types: &["rb_root_cached", "rb_root", "rb_node"],
        members: &[("", "rb_node")],
    },
    Family { functions: &["xas_", "xa_"], types: &["xarray"], members: &[("", "xa_head")] },
    Family {
        functions: &["list_add", "list_del", "list_lru_"],
        types: &["list_head", "hlist_head", "hlist_node"],
        members: &[("", "next")],
    },
    Family { functions: &["percpu_counter_"], types: &["percpu_counter"], members: &[("", "count")] },
    Family { functions: &["page_counter_"], types: &["page_counter"], members: &[("", "usage")] },
    Family { functions: &["refcount_"], types: &["refcount_struct"], members: &[("", "refs")] },
    Family {
        functions: &["wake_up", "prepare_to_wait"],
        types: &["wait_queue_head"],
        members: &[("", "head")],
    },
];

/// Types whose insides only their own functions touch.
const PRIVATE: &[&str] = &[
    "rw_semaphore",
    "mutex",
    "optimistic_spin_queue",
    "spinlock",
    "raw_spinlock",
    "qspinlock",
    "qrwlock",
    "rb_root_cached",
    "rb_root",
    "xarray",
    "wait_queue_head",
    "percpu_counter",
];

/// The family of a function.
pub(crate) fn family(function: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|f| f.functions.iter().any(|n| function.contains(n)))
}

/// Words of a name, lower case, short and empty ones left out.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| w.len() > 2)
}

/// How well a function fits a field, -1 to 1.5: `types` are the names of the types from the object down to the field,
/// outermost first, `path` is the field's path and `target` what it points to, if it is a pointer.
pub(crate) fn fit(function: &str, path: &str, types: &[String], target: Option<&str>) -> f64 {
    let inside = |list: &[&str]| types.iter().any(|t| list.contains(&t.as_str()));
    if let Some(f) = family(function) {
        if !inside(f.types) {
            return -1.0;
        }
        let member = f.members.iter().find(|(part, _)| function.contains(part)).map(|m| m.1);
        let hit = member.is_some_and(|m| path.rsplit('.').take(2).any(|p| p == m));
        return if hit { 1.5 } else { 0.5 };
    }
    if inside(PRIVATE) {
        return -0.5;
    }
    // Opening something installs or reads its operations.
    let operations = target.is_some_and(|t| t.ends_with("operations") || t.ends_with("_ops"));
    let opens = words(function).any(|w| w == "open" || w == "check");
    let shared =
        words(function).any(|w| words(path).chain(types.iter().flat_map(|t| words(t))).any(|x| x == w));
    match (operations && opens, shared) {
        (true, _) => 0.75,
        (false, true) => 0.5,
        (false, false) => 0.0,
    }
}
