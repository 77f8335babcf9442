use super::*;
use proptest::prelude::*;

fn piece(actor: u32, first: u32, size: u32, vt: (u64, u64), writes: f64) -> Piece {
    Piece {
        actor,
        part: first / 8,
        first,
        size,
        vt0: vt.0,
        vt1: vt.1,
        reads: 0.0,
        writes,
        rmws: 0.0,
        under: Under::NONE,
    }
}

fn all(pieces: &[Piece], window: u64) -> LineE {
    line_e(pieces, window, &|_| 0)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
}

#[test]
fn two_threads_on_one_line_lose_it_half_the_time() {
    let got = all(&[piece(0, 0, 8, (0, 9000), 5000.0), piece(1, 8, 8, (0, 9000), 5000.0)], 1000);
    assert!(near(got.e, 5000.0), "{got:?}");
    assert!(near(got.e_even, 5000.0), "{got:?}");
    assert!(near(got.e_false, 5000.0) && got.e_true == 0.0 && got.e_mixed == 0.0, "{got:?}");
    assert_eq!(
        got.pairs.iter().map(|p| (p.0, p.1, p.2.round())).collect::<Vec<_>>(),
        [(0, 1, 2500.0), (1, 0, 2500.0)]
    );
}

#[test]
fn one_counter_for_all_is_true_sharing() {
    let pieces: Vec<Piece> = (0..4).map(|a| piece(a, 16, 8, (0, 9000), 1000.0)).collect();
    let got = all(&pieces, 1000);
    assert!(near(got.e, 3000.0) && near(got.e_true, 3000.0), "{got:?}");
}

#[test]
fn a_lock_and_the_data_under_it_are_true_sharing_for_threads_that_all_touch_both() {
    let mut pieces = Vec::new();
    for a in 0..3 {
        pieces.push(piece(a, 0, 4, (0, 9000), 2000.0));
        pieces.push(piece(a, 8, 8, (0, 9000), 1000.0));
    }
    let got = all(&pieces, 1000);
    assert!(near(got.e, 6000.0) && near(got.e_true, 6000.0), "{got:?}");
}

#[test]
fn elements_of_many_threads_are_different_bytes() {
    let pieces: Vec<Piece> =
        (0..200).map(|a| Piece { part: 0, ..piece(a, 8 * (a % 4), 8, (0, 9000), 1000.0) }).collect();
    let got = all(&pieces, 1000);
    let mates = 49.0 / 199.0;
    assert!(
        (got.e_true / got.e - mates).abs() < 0.01 && (got.e_false / got.e - 1.0 + mates).abs() < 0.01,
        "{got:?}"
    );
}

#[test]
fn a_pointer_that_all_read_beside_a_counter_that_all_write_is_mixed() {
    // Two of three accesses read the pointer, which nobody writes: that part of the losses need not be.
    let mut pieces = Vec::new();
    for a in 0..2 {
        pieces.push(piece(a, 0, 8, (0, 9000), 1000.0));
        pieces.push(Piece { reads: 2000.0, writes: 0.0, ..piece(a, 24, 8, (0, 9000), 0.0) });
    }
    let got = all(&pieces, 1000);
    assert!(
        near(got.e, 1000.0) && near(got.e_true, 1000.0 / 3.0) && near(got.e_mixed, 2000.0 / 3.0),
        "{got:?}"
    );
}

#[test]
fn a_shared_lock_beside_private_counters_is_mixed() {
    let pieces = [
        piece(0, 0, 4, (0, 9000), 1000.0),
        piece(0, 8, 8, (0, 9000), 4000.0),
        piece(1, 0, 4, (0, 9000), 1000.0),
        piece(1, 16, 8, (0, 9000), 4000.0),
    ];
    let got = all(&pieces, 1000);
    assert!(near(got.e_true, 200.0) && near(got.e_mixed, 4800.0) && got.e_false == 0.0, "{got:?}");
}

#[test]
fn a_reader_of_a_field_that_nobody_writes_suffers_from_its_neighbour() {
    let reader = Piece { reads: 5000.0, writes: 0.0, ..piece(1, 8, 8, (0, 9000), 0.0) };
    let got = all(&[piece(0, 0, 8, (0, 9000), 5000.0), reader], 1000);
    assert!(near(got.e, 2500.0) && near(got.e_false, 2500.0), "{got:?}");
    assert_eq!(got.pairs.len(), 1);
}

#[test]
fn phases_that_follow_each_other_are_handoffs_not_contention() {
    // A barrier after every 50,000 accesses, not on the window grid: 100 phases, 99 hand-offs.
    let mut pieces = Vec::new();
    for phase in 0..100u64 {
        let from = phase * 50_300;
        pieces.push(piece((phase % 2) as u32, 0, 8, (from, from + 50_300), 50_000.0));
    }
    let got = all(&pieces, 1000);
    assert!(near(got.e_whole_run, 2_500_000.0), "{got:?}");
    assert_eq!((got.e, got.e_even, got.handoffs), (0.0, 0.0, 99));
}

#[test]
fn a_few_stretches_among_many_turns_are_the_exception() {
    // Turns of one window each; every `missed`th one happens together with the one before it.
    let turns = |missed: u64| {
        let turn = |k: u64| {
            let at = (k - u64::from(k % missed == missed - 1)) * 1000;
            piece((k % 2) as u32, 8 * (k % 2) as u32, 8, (at, at + 1000), 900.0)
        };
        all(&(0..160).map(turn).collect::<Vec<_>>(), 1000)
    };
    let rarely = turns(40);
    assert!(rarely.e > 1000.0 && rarely.overlaps == 8 && rarely.by_turns(), "{rarely:?}");
    assert!(!turns(5).by_turns(), "{:?}", turns(5));
    // Who waits looks at what the other one stores to: a word by which they take turns.
    let turn = |k: u64| piece((k % 2) as u32, 0, 8, (k * 1000, k * 1000 + 1000), 900.0);
    let look = Piece { reads: 100.0, writes: 0.0, ..piece(1, 0, 8, (80_000, 81_000), 0.0) };
    let waits = all(&(0..160).map(turn).chain([look]).collect::<Vec<_>>(), 1000);
    assert!(waits.e_true > 0.0 && waits.handoffs > 100 && !waits.by_turns(), "{waits:?}");
    // One long stretch counts by its length.
    let alone = |k: u64| piece((k % 2) as u32, 0, 8, (k * 1000, k * 1000 + 1000), 900.0);
    let mut long: Vec<Piece> = (0..40).map(alone).collect();
    long.extend((0..2).map(|a| piece(a, 8 * a, 8, (100_000, 130_000), 27_000.0)));
    let long = all(&long, 1000);
    assert!(long.handoffs >= 39 && !long.by_turns(), "{long:?}");
}

#[test]
fn short_visits_meet_in_their_window_and_not_across_windows() {
    let same = [piece(0, 0, 8, (100, 130), 30.0), piece(1, 0, 8, (800, 830), 30.0)];
    assert!(near(all(&same, 1000).e, 30.0));
    let apart = [piece(0, 0, 8, (100, 130), 30.0), piece(1, 0, 8, (1800, 1830), 30.0)];
    assert_eq!(all(&apart, 1000).e, 0.0);
}

#[test]
fn the_even_split_does_not_depend_on_who_drained_the_queue() {
    // 10,000 stores in all; the first thread does 50%, 70% or 90% of them, at the same rate per virtual time.
    let split = |share: f64| {
        let pieces =
            |a: u32, share: f64| piece(a, 0, 8, (0, (20_000.0 * share).round() as u64), 10_000.0 * share);
        all(&[pieces(0, share), pieces(1, 1.0 - share)], 1000)
    };
    for share in [0.5, 0.7, 0.9] {
        let got = split(share);
        assert!(near(got.e_even, 5000.0), "{share}: {got:?}");
        assert!(near(got.e, 10_000.0 * (1.0 - share)), "{share}: {got:?}");
    }
}

#[test]
fn threads_that_finish_one_after_the_other_count_as_if_all_had_stayed() {
    // A queue of 10,000 items and four threads that got 40, 30, 20 and 10 percent of them.
    let pieces: Vec<Piece> = (0..4u32)
        .map(|a| piece(a, 0, 8, (0, 10_000 - 2500 * u64::from(a)), 1000.0 * f64::from(4 - a)))
        .collect();
    let got = all(&pieces, 100);
    assert!(near(got.e_even, 7500.0), "{got:?}");
    assert!(got.e < 6500.0, "{got:?}");
}

#[test]
fn roles_keep_their_own_shares_in_the_even_split() {
    // One producer stores, three consumers read: an even split among consumers changes nothing.
    let mut pieces = vec![piece(0, 0, 8, (0, 9000), 900.0)];
    for a in 1..4 {
        pieces.push(Piece { reads: 900.0, writes: 0.0, ..piece(a, 0, 8, (0, 9000), 0.0) });
    }
    let got = line_e(&pieces, 1000, &|a| u32::from(a > 0));
    assert!(near(got.e, 675.0) && near(got.e_even, 675.0), "{got:?}");
}

#[test]
fn elements_of_a_work_queue_are_split_evenly_but_a_duty_of_one_worker_is_not() {
    // Each worker has its own element; the first did 9 of 10 items.
    let elements = [piece(0, 0, 8, (0, 9000), 9000.0), piece(1, 8, 8, (0, 9000), 1000.0)];
    let got = all(&elements, 1000);
    assert!(near(got.e, 1800.0) && near(got.e_even, 5000.0), "{got:?}");
    // Only the first worker stores; all read another field now and then.
    let reads = |a: u32| Piece { reads: 100.0, writes: 0.0, ..piece(a, 16, 8, (0, 9000), 0.0) };
    let got = all(&[piece(0, 0, 8, (0, 9000), 9800.0), reads(0), reads(1)], 1000);
    assert!(near(got.e, 98.0) && near(got.e_even, 98.0), "{got:?}");
}

#[test]
fn hostile_times_and_counts_do_not_panic() {
    let huge = Piece { vt0: u64::MAX - 1, vt1: u64::MAX, ..piece(0, 120, 8, (0, 0), f64::MAX) };
    let backwards = Piece { vt0: 500, vt1: 3, ..piece(1, 0, 128, (0, 0), 1.0) };
    for window in [0, 1, u64::MAX] {
        let got = all(&[huge, backwards, huge], window);
        assert!(!got.e.is_nan());
    }
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let one = (0u32..4, 0u32..8, 0u64..20_000, 1u64..9000, 0u32..2000, 0u32..2000, 0u32..500).prop_map(
        |(actor, word, vt0, length, reads, writes, rmws)| Piece {
            actor,
            part: word,
            first: word * 8,
            size: 8,
            vt0,
            vt1: vt0 + length,
            reads: f64::from(reads),
            writes: f64::from(writes),
            rmws: f64::from(rmws),
            under: Under::NONE,
        },
    );
    proptest::collection::vec(one, 1..20)
}

/// Each piece cut at every multiple of `window`, its counts in proportion.
fn cut(pieces: &[Piece], window: u64) -> Vec<Piece> {
    let mut out = Vec::new();
    for p in pieces {
        let mut from = p.vt0;
        while from < p.vt1 {
            let to = p.vt1.min((from / window + 1) * window);
            let share = (to - from) as f64 / (p.vt1 - p.vt0) as f64;
            out.push(Piece {
                vt0: from,
                vt1: to,
                reads: p.reads * share,
                writes: p.writes * share,
                rmws: p.rmws * share,
                ..*p
            });
            from = to;
        }
    }
    out
}

/// More actors than are each compared with each.
#[test]
fn a_crowd_is_judged_like_its_members() {
    const ACTORS: u32 = 800;
    let pieces: Vec<Piece> = (0..ACTORS).map(|a| piece(a, a % 8 * 8, 8, (0, 900), 100.0)).collect();
    let got = all(&pieces, 1000);
    let (others, alike) = (f64::from(ACTORS - 1), f64::from(ACTORS / 8 - 1));
    assert!(near(got.e, 100.0 * others), "{}", got.e);
    assert!(near(got.e_true, 100.0 * alike) && near(got.e_mixed, 0.0), "{} {}", got.e_true, got.e_mixed);
    assert!(near(got.e_false, 100.0 * (others - alike)), "{}", got.e_false);
    let own = got.pairs.iter().filter(|p| p.0 == p.1).map(|p| p.2).sum();
    assert!(near(own, 100.0 * alike), "{own}");
    assert!(got.actor_e.iter().all(|a| near(a.1, 2.0 * got.e / f64::from(ACTORS))));
}

proptest! {
    #[test]
    fn shares_and_pairs_of_crowds_add_up_to_e(some in pieces(), window in 1u64..5000) {
        // Each of many actors does what some did, a little later.
        let again = |k: u32| some.iter().map(move |p| {
            let later = u64::from(k) * 37;
            Piece { actor: p.actor + 50 * k, vt0: p.vt0 + later, vt1: p.vt1 + later, ..*p }
        });
        let many: Vec<Piece> = (0..70).flat_map(again).collect();
        let got = all(&many, window);
        prop_assert!(near(got.e_true + got.e_false + got.e_mixed, got.e), "{:?}", got);
        prop_assert!(near(got.pairs.iter().map(|p| p.2).sum(), got.e), "{:?}", got);
        prop_assert!(near(got.actor_e.iter().map(|a| a.1).sum(), 2.0 * got.e), "{:?}", got);
        prop_assert!(near(got.e, quick_e(&many, window)));
    }

    #[test]
    fn e_lies_between_zero_and_the_stores(pieces in pieces(), window in 1u64..5000) {
        let got = all(&pieces, window);
        let stores: f64 = pieces.iter().map(Piece::stores).sum();
        prop_assert!(got.e >= 0.0 && got.e <= stores * (1.0 + 1e-9));
        prop_assert!(got.e_even >= 0.0 && got.e_whole_run >= 0.0);
        prop_assert!(near(got.e, quick_e(&pieces, window)));
    }

    #[test]
    fn shares_and_pairs_add_up_to_e(pieces in pieces(), window in 1u64..5000) {
        let got = all(&pieces, window);
        prop_assert!(near(got.e_true + got.e_false + got.e_mixed, got.e), "{:?}", got);
        prop_assert!(near(got.pairs.iter().map(|p| p.2).sum(), got.e), "{:?}", got);
        prop_assert!(near(got.actor_e.iter().map(|a| a.1).sum(), 2.0 * got.e), "{:?}", got);
    }

    #[test]
    fn who_never_meets_does_not_fight(some in pieces(), window in 1u64..5000, few in 1usize..6) {
        let some = &some[..some.len().min(few)];
        let meet = |a: &Piece, b: &Piece| {
            let end = |p: &Piece| p.vt1.max(p.vt0 + 1).div_ceil(window);
            a.actor != b.actor && a.vt0 / window < end(b) && b.vt0 / window < end(a)
        };
        let any = some.iter().any(|a| some.iter().any(|b| meet(a, b)));
        prop_assert_eq!(never_meet(some, window), !any);
        if !any {
            let got = all(some, window);
            prop_assert_eq!((got.e, got.e_even), (0.0, 0.0));
            let cost = crate::objective::line_cost_of(&Spans::new(some, window), some, window);
            prop_assert_eq!(cost, crate::objective::LineCost::default());
        }
    }

    #[test]
    fn one_actor_never_fights(pieces in pieces(), window in 1u64..5000) {
        let alone: Vec<Piece> = pieces.iter().map(|p| Piece { actor: 7, ..*p }).collect();
        let got = all(&alone, window);
        prop_assert_eq!((got.e, got.e_even, got.e_whole_run, got.handoffs), (0.0, 0.0, 0.0, 0));
    }

    #[test]
    fn nobody_fights_over_a_line_that_is_only_read(pieces in pieces(), window in 1u64..5000) {
        let reads: Vec<Piece> = pieces.iter().map(|p| Piece { writes: 0.0, rmws: 0.0, ..*p }).collect();
        prop_assert_eq!(all(&reads, window).e, 0.0);
    }

    #[test]
    fn cutting_pieces_at_window_boundaries_changes_nothing(pieces in pieces(), window in 1u64..5000) {
        let whole = all(&pieces, window);
        let parts = all(&cut(&pieces, window), window);
        prop_assert!(near(whole.e, parts.e), "{} {}", whole.e, parts.e);
        prop_assert!(near(whole.e_false, parts.e_false));
    }
}
