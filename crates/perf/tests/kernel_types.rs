//! Guesses for other structures than the one that the scoring was made with, on a whole kernel's types: lines made of
//! functions and the fields that they work on. The right type comes first, or nothing is decided.
//!
//! `TUSSLE_VMLINUX` names a vmlinux or BTF file; /sys/kernel/btf/vmlinux otherwise.

use tussle_debuginfo::{NoCompanions, dwarf::Want};
use tussle_model::leaf::{Arrays, leaves};
use tussle_model::{TypeId, TypeTable};
use tussle_perf::guess::{Candidate, candidates};
use tussle_perf::text::{Counts, TextLine, TextRow};

/// Below this nothing is decided.
const DECIDED: f64 = 0.8;

#[track_caller]
fn kernel() -> Option<TypeTable> {
    let named = std::env::var("TUSSLE_VMLINUX");
    if named.is_err() && !tussle_testkit::need("kernel types") {
        return None;
    }
    let bytes = std::fs::read(named.unwrap_or("/sys/kernel/btf/vmlinux".into())).unwrap();
    Some(tussle_debuginfo::open(&bytes, &Want::All, &mut NoCompanions).unwrap().0)
}

fn offset_of(table: &TypeTable, ty: TypeId, path: &str) -> Option<u64> {
    let all = leaves(table, ty, Arrays::Whole);
    let fits = |p: &str| p == path || p.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    all.iter().find(|l| fits(&l.path)).map(|l| l.offset)
}

/// The line of `ty` at `phase` that holds most of the fields, as a table would show it.
fn line(table: &TypeTable, ty: TypeId, phase: u64, rows: &[(&str, &str)]) -> Option<TextLine> {
    let places: Vec<(&str, u64)> =
        rows.iter().filter_map(|(f, path)| Some((*f, offset_of(table, ty, path)? + phase))).collect();
    let count = |l: u64| places.iter().filter(|p| p.1 / 64 == l).count();
    let best = places.iter().map(|p| p.1 / 64).max_by_key(|l| count(*l))?;
    let row = |p: &&(&str, u64)| TextRow {
        percent: vec![0.0, 10.0, 0.0, 0.0],
        offset: p.1 % 64,
        code: 0xffff_ffff_8100_0000 + p.1 * 64,
        records: Some(50),
        kernel: true,
        symbol: p.0.into(),
        ..TextRow::default()
    };
    let rows: Vec<TextRow> =
        places.iter().filter(|p| p.1 / 64 == best).collect::<Vec<_>>().iter().map(row).collect();
    let counts = Counts { local_hitm: 1000, ..Counts::default() };
    (rows.len() > 1).then_some(TextLine {
        index: 0,
        address: 0xffff_8881_0000_0000 + best * 64,
        counts,
        rows,
    })
}

/// Type, and which function works on which field of it.
const CASES: &[(&str, &[(&str, &str)])] = &[
    (
        "address_space",
        &[
            ("vma_interval_tree_insert", "i_mmap.rb_root.rb_node"),
            ("vma_interval_tree_remove", "i_mmap.rb_leftmost"),
            ("rwsem_down_write_slowpath", "i_mmap_rwsem.count"),
            ("rwsem_spin_on_owner", "i_mmap_rwsem.owner"),
        ],
    ),
    (
        "anon_vma",
        &[
            ("down_write", "rwsem.count"),
            ("up_write", "rwsem.owner"),
            ("rwsem_spin_on_owner", "rwsem.owner"),
            ("osq_lock", "rwsem.osq"),
            ("anon_vma_interval_tree_insert", "rb_root.rb_root.rb_node"),
            ("anon_vma_interval_tree_remove", "rb_root.rb_leftmost"),
        ],
    ),
    (
        "mm_struct",
        &[
            ("down_read_trylock", "mmap_lock.count"),
            ("up_read", "mmap_lock.count"),
            ("rwsem_spin_on_owner", "mmap_lock.owner"),
            ("osq_lock", "mmap_lock.osq"),
        ],
    ),
    (
        "inode",
        &[
            ("down_write", "i_rwsem.count"),
            ("rwsem_spin_on_owner", "i_rwsem.owner"),
            ("osq_lock", "i_rwsem.osq"),
            ("__raw_spin_lock", "i_lock.rlock.raw_lock"),
        ],
    ),
    (
        "dentry",
        &[
            ("lockref_get_not_dead", "d_lockref"),
            ("__d_lookup_rcu", "d_parent"),
            ("__d_lookup_rcu", "d_name"),
        ],
    ),
    (
        "file",
        &[
            ("mutex_lock", "f_pos_lock.owner"),
            ("mutex_spin_on_owner", "f_pos_lock.owner"),
            ("osq_lock", "f_pos_lock.osq"),
        ],
    ),
    ("files_struct", &[("_raw_spin_lock", "file_lock"), ("alloc_fd", "next_fd")]),
    ("sighand_struct", &[("_raw_spin_lock_irq", "siglock"), ("refcount_inc_not_zero", "count.refs")]),
    ("page_counter", &[("page_counter_try_charge", "usage"), ("page_counter_cancel", "usage")]),
    (
        "super_block",
        &[("down_read", "s_umount.count"), ("up_read", "s_umount.count"), ("osq_lock", "s_umount.osq")],
    ),
    ("pipe_inode_info", &[("mutex_lock", "mutex.owner"), ("prepare_to_wait_event", "rd_wait.head")]),
    ("xarray", &[("xas_load", "xa_head"), ("_raw_spin_lock_irqsave", "xa_lock")]),
];

/// Structures and functions that the families were not written with.
const LATER: &[(&str, &[(&str, &str)])] = &[
    (
        "bdi_writeback",
        &[
            ("_raw_spin_lock", "list_lock"),
            ("inode_io_list_move_locked", "b_dirty.next"),
            ("percpu_counter_add_batch", "stat.count"),
        ],
    ),
    (
        "eventpoll",
        &[
            ("mutex_lock", "mtx.owner"),
            ("__wake_up_locked", "wq.head.next"),
            ("prepare_to_wait_event", "wq.head.next"),
            ("_raw_spin_lock_irqsave", "wq.lock"),
        ],
    ),
    ("futex_hash_bucket", &[("_raw_spin_lock", "lock"), ("futex_q_lock", "waiters"), ("plist_add", "chain")]),
    ("journal_s", &[("_raw_read_lock", "j_state_lock"), ("start_this_handle", "j_running_transaction")]),
    ("kernfs_root", &[("down_read", "kernfs_rwsem.count"), ("up_read", "kernfs_rwsem.count")]),
    ("kmem_cache_node", &[("_raw_spin_lock_irqsave", "list_lock"), ("list_del", "partial.next")]),
    ("lruvec", &[("_raw_spin_lock_irqsave", "lru_lock"), ("lru_add_fn", "anon_cost")]),
    ("mem_cgroup", &[("page_counter_uncharge", "memory.usage"), ("page_counter_try_charge", "memory.usage")]),
    ("net", &[("refcount_inc_not_zero", "passive.refs"), ("fib_lookup", "dev_base_seq")]),
    ("rq", &[("_raw_spin_lock", "__lock"), ("update_curr", "nr_running"), ("cpuacct_charge", "nr_switches")]),
    ("signal_struct", &[("refcount_dec_and_test", "sigcnt.refs"), ("__wake_up", "wait_chldexit.head.next")]),
    (
        "sock",
        &[
            ("_raw_spin_lock_bh", "sk_lock.slock"),
            ("lock_sock_nested", "sk_lock.owned"),
            ("sock_def_readable", "sk_wq"),
            ("tcp_rcv_established", "sk_rcvbuf"),
        ],
    ),
    ("swap_info_struct", &[("_raw_spin_lock", "lock"), ("scan_swap_map_slots", "inuse_pages")]),
    (
        "task_struct",
        &[
            ("_raw_spin_lock_irqsave", "pi_lock"),
            ("wake_q_add", "wake_q.next"),
            ("rt_mutex_setprio", "pi_waiters"),
        ],
    ),
    ("user_struct", &[("refcount_inc", "__count.refs"), ("percpu_counter_add_batch", "epoll_watches.count")]),
    (
        "zone",
        &[
            ("_raw_spin_lock_irqsave", "lock"),
            ("rmqueue_bulk", "free_area"),
            ("zone_watermark_fast", "_watermark"),
        ],
    ),
];

/// Functions of the cases that belong to no family; what they are called must not decide.
const STRANGERS: &[&str] = &[
    "__d_lookup_rcu",
    "alloc_fd",
    "cpuacct_charge",
    "fib_lookup",
    "futex_q_lock",
    "inode_io_list_move_locked",
    "lock_sock_nested",
    "lru_add_fn",
    "plist_add",
    "rmqueue_bulk",
    "rt_mutex_setprio",
    "scan_swap_map_slots",
    "sock_def_readable",
    "start_this_handle",
    "tcp_rcv_established",
    "update_curr",
    "wake_q_add",
    "zone_watermark_fast",
];

fn rename(row: &mut TextRow) {
    row.symbol = "quux".into();
}

/// Every field that the candidate names is that of the object, or the end of its path: a lock that is named as a lock,
/// not as the one of a structure, is right too.
fn is(table: &TypeTable, c: &Candidate, ty: TypeId, line: &TextLine, base: u64) -> bool {
    let all = leaves(table, ty, Arrays::Whole);
    c.fields.iter().all(|(offset, _, field)| {
        let at = line.address.wrapping_add(*offset).wrapping_sub(base);
        let here = all.iter().filter(|l| l.offset <= at && at < l.end());
        here.into_iter().any(|l| l.path == *field || l.path.ends_with(&format!(".{field}")))
    })
}

#[test]
#[ignore = "reads a whole kernel's types: minutes unoptimised"]
fn the_right_type_first_or_undecided() {
    score(CASES);
}

#[test]
#[ignore = "reads a whole kernel's types: minutes unoptimised"]
fn structures_named_later_come_first_or_undecided() {
    score(LATER);
}

/// The cases with and without the names of strangers, at two phases.
#[track_caller]
fn score(cases: &[(&str, &[(&str, &str)])]) {
    let Some(table) = kernel() else { return };
    let (mut first, mut undecided, mut wrong) = (0, 0, Vec::new());
    let settings = [(0, false), (24, false), (0, true), (24, true)];
    for (name, rows) in cases {
        let Some(ty) = table.find(&format!("struct {name}")) else { continue };
        for (phase, renamed) in settings {
            let Some(mut line) = line(&table, ty, phase, rows) else { continue };
            if renamed {
                line.rows.iter_mut().filter(|r| STRANGERS.contains(&r.symbol.as_str())).for_each(rename);
            }
            let base = 0xffff_8881_0000_0000 + phase;
            let all = candidates(&line, &[&table], 64);
            let shown: Vec<String> = all
                .iter()
                .take(3)
                .map(|c| format!("{} fit {:.2} sure {:.2}", c.type_name, c.fit, c.confidence))
                .collect();
            println!("{name} +{phase}{}: {}", if renamed { " renamed" } else { "" }, shown.join(" | "));
            match all.first() {
                Some(c) if is(&table, c, ty, &line, base) => first += 1,
                None => undecided += 1,
                Some(c) if c.confidence < DECIDED => undecided += 1,
                Some(c) => {
                    wrong.push(format!("{name} at phase {phase}: {} {:.2}", c.type_name, c.confidence))
                }
            }
        }
    }
    println!("first {first}, undecided {undecided}, wrong {}", wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(first > 0);
}
