use super::*;
use crate::objective::{line_cost, transfers};
use crate::window::{line_e, quick_e};

const WINDOW: u64 = 1000;

fn piece(actor: u32, first: u32, writes: f64) -> Piece {
    let under = Under::NONE;
    Piece {
        actor,
        part: first / 8,
        first,
        size: 8,
        vt0: 0,
        vt1: 100_000,
        reads: 0.0,
        writes,
        rmws: 0.0,
        under,
    }
}

/// 40,000 stores in `sections` critical sections.
fn held(actor: u32, first: u32, sections: f64) -> Piece {
    Piece { under: Under { lock: 7, sections, storing: sections, turn: false }, ..piece(actor, first, 4e4) }
}

#[test]
fn data_under_one_lock_costs_a_transfer_per_turn() {
    let pieces = [held(1, 0, 10.0), held(2, 8, 10.0)];
    let e = line_e(&pieces, WINDOW, &|a| a);
    assert!((e.e - 10.0).abs() < 1e-6 && (quick_e(&pieces, WINDOW) - e.e).abs() < 1e-6, "{e:?}");
    assert!((e.e_false - 10.0).abs() < 1e-6 && e.pairs.len() == 2, "{e:?}");
    assert!((transfers(&pieces, WINDOW).total() - 10.0).abs() < 1e-6);
}

#[test]
fn sections_of_one_access_cost_what_they_cost_without_the_lock() {
    let free = [piece(1, 0, 4e4), piece(2, 0, 4e4)];
    let under = [held(1, 0, 4e4), held(2, 0, 4e4)];
    assert!((line_e(&free, WINDOW, &|a| a).e - line_e(&under, WINDOW, &|a| a).e).abs() < 1e-6);
}

/// The founding case: the lock's word beside the data, waiters polling it.
#[test]
fn who_polls_beside_a_lock_takes_the_line_from_its_holder() {
    let poller = Piece { reads: 8e4, writes: 0.0, ..piece(3, 16, 0.0) };
    let pieces = [held(1, 0, 10.0), held(2, 0, 10.0), poller];
    let cost = line_cost(&pieces, WINDOW);
    assert!(cost.now.copies > 7e4 && cost.now.stores > 3e4, "{cost:?}");
    assert!(cost.apart < 20.0, "{cost:?}");
    assert!(line_e(&pieces, WINDOW, &|a| a).e > 3e4);
}

#[test]
fn different_locks_protect_nothing_from_each_other() {
    let other =
        Piece { under: Under { lock: 8, sections: 10.0, storing: 10.0, turn: false }, ..piece(2, 8, 4e4) };
    let free = line_e(&[piece(1, 0, 4e4), piece(2, 8, 4e4)], WINDOW, &|a| a);
    assert_eq!(line_e(&[held(1, 0, 10.0), other], WINDOW, &|a| a).e, free.e);
}

#[test]
fn one_section_visits_a_line_once_however_many_fields_it_uses() {
    let mut pieces = Vec::new();
    for first in [0, 8, 16, 24] {
        pieces.extend([held(1, first, 10.0), held(2, first, 10.0)]);
    }
    assert!((transfers(&pieces, WINDOW).total() - 10.0).abs() < 1e-6);
}

#[test]
fn shares_and_pairs_add_up() {
    let pieces = [held(1, 0, 10.0), held(2, 8, 30.0), piece(1, 16, 500.0), piece(3, 0, 900.0)];
    let e = line_e(&pieces, WINDOW, &|a| a);
    let sums =
        [e.e_true + e.e_false + e.e_mixed, e.pairs.iter().map(|p| p.2).sum(), quick_e(&pieces, WINDOW)];
    assert!(sums.iter().all(|s| (s - e.e).abs() < 1e-6 * e.e), "{e:?} {sums:?}");
}
