//! Which kernel functions work on which primitive: the small knowledge that ties a function's name to a field when no
//! debug information of that build is at hand. Names as in Linux 4.x to 6.x.

/// Functions that work on the insides of certain types.
pub(crate) struct Family {
    /// A function belongs here when its name contains one of these.
    pub functions: &'static [&'static str],
    /// Types (without keyword) on whose insides they work.
    pub types: &'static [&'static str],
    /// `(part of the function's name, member it mostly touches)`, the first part that matches counts, with all
    /// its members; `""` matches all.
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
        members: &[("", "val"), ("", "lock"), ("", "locked"), ("", "locked_pending"), ("", "pending")],
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
        functions: &[
            "interval_tree",
            "rb_insert",
            "rb_erase",
            "rb_first",
            "rb_last",
            "rb_next",
            "rb_prev",
            "rb_replace",
        ],
        types: &["rb_root_cached", "rb_root", "rb_node"],
        members: &[("", "rb_node")],
    },
    Family { functions: &["xas_", "xa_"], types: &["xarray"], members: &[("", "xa_head")] },
    Family {
        functions: &["list_add", "list_del", "list_move", "list_splice", "list_lru_", "list_bl_"],
        types: &[
            "list_head",
            "hlist_head",
            "hlist_node",
            "hlist_bl_head",
            "hlist_bl_node",
            "hlist_nulls_node",
        ],
        members: &[("", "next"), ("", "first")],
    },
    Family { functions: &["percpu_counter_"], types: &["percpu_counter"], members: &[("", "count")] },
    Family { functions: &["page_counter_"], types: &["page_counter"], members: &[("", "usage")] },
    Family {
        functions: &["refcount_", "kref_get", "kref_put"],
        types: &["refcount_struct", "kref"],
        members: &[("", "refs")],
    },
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

/// What a function of a family can give at most.
pub(crate) const FAMILY: f64 = 1.5;

/// What a function gives of which nothing is known: as much as it could, so it neither helps nor harms.
pub(crate) const NEUTRAL: f64 = 0.25;

/// How well a function fits a field, -1 to [`FAMILY`]: `types` are the names of the types from the object down to the
/// field, outermost first, `path` is the field's path. A function outside of all families speaks against the insides
/// of types that only their own functions touch, and for a field with which it shares a word.
pub(crate) fn fit(function: &str, path: &str, types: &[String]) -> f64 {
    let inside = |list: &[&str]| types.iter().any(|t| list.contains(&t.as_str()));
    if let Some(f) = family(function) {
        if !inside(f.types) {
            return -1.0;
        }
        let part = f.members.iter().find(|(part, _)| function.contains(part)).map(|m| m.0);
        let members = f.members.iter().filter(|m| Some(m.0) == part);
        let hit = members.into_iter().any(|m| path.rsplit('.').take(2).any(|p| p == m.1));
        return if hit { FAMILY } else { 0.5 };
    }
    if inside(PRIVATE) {
        return -0.5;
    }
    let shared =
        words(function).any(|w| words(path).chain(types.iter().flat_map(|t| words(t))).any(|x| x == w));
    if shared { 0.5 } else { NEUTRAL }
}
