use super::*;
use crate::under::Under;

const WINDOW: u64 = 1000;

fn piece(actor: u32, first: u32, reads: f64, writes: f64) -> Piece {
    Piece {
        actor,
        part: first,
        first,
        size: 8,
        vt0: 0,
        vt1: 100_000,
        reads,
        writes,
        rmws: 0.0,
        under: Under::NONE,
    }
}

#[test]
fn neighbours_cost_only_while_they_are_together() {
    let cost = line_cost(&[piece(1, 0, 0.0, 5e4), piece(2, 8, 0.0, 5e4)], WINDOW);
    assert!((cost.total() - 5e4).abs() < 1.0, "{cost:?}");
    assert_eq!(cost.apart, 0.0);
}

#[test]
fn the_same_bytes_cost_the_same_anywhere() {
    let cost = line_cost(&[piece(1, 0, 0.0, 5e4), piece(2, 0, 0.0, 5e4)], WINDOW);
    assert!((cost.apart - cost.total()).abs() < 1.0 && (cost.main - cost.apart).abs() < 1e-9, "{cost:?}");
}

#[test]
fn a_poller_loses_a_copy_once_per_store_however_often_it_looks() {
    let of = |polls: f64| transfers(&[piece(1, 0, 0.0, 4e3), piece(2, 8, polls, 0.0)], WINDOW);
    assert!((of(1e5).copies - 4e3).abs() < 1.0, "{:?}", of(1e5));
    assert!((of(1e9).total() - of(1e5).total()).abs() < 1.0);
    // Between two looks there may be several stores.
    assert!((of(1e3).copies - 1e3).abs() < 1.0);
}

#[test]
fn a_store_of_the_whole_struct_does_not_join_its_fields() {
    let mut pieces = vec![piece(1, 0, 0.0, 5e4), piece(2, 8, 0.0, 5e4)];
    pieces.push(Piece { actor: 3, first: 0, size: 64, writes: 8.0, vt1: 10, ..pieces[0] });
    let cost = line_cost(&pieces, WINDOW);
    assert!(cost.removable_share() > 0.99, "{cost:?}");
}

/// A sleeping lock: each of four threads takes it, which is two additions to the count and two stores of the owner, and
/// polls the owner while others have it, so often per store of theirs.
#[test]
fn polls_do_not_flip_the_founding_case() {
    let share = |polls: f64| {
        let mut pieces = Vec::new();
        for actor in 1..=4 {
            pieces.push(Piece { rmws: 2e4, ..piece(actor, 0, 0.0, 0.0) });
            pieces.push(piece(actor, 8, polls * 6e4, 2e4));
        }
        line_cost(&pieces, WINDOW).removable_share()
    };
    for polls in [2.0, 7.0, 17.0, 50.0] {
        assert!(
            (share(polls) - share(2.0)).abs() < 0.01 && share(polls) >= 0.25,
            "{polls}: {}",
            share(polls)
        );
    }
}

/// A lock word of eight bytes, the counts that it guards in its upper half, and somebody else's counter beside it:
/// whoever takes the lock moves one line, not two.
#[test]
fn halves_of_a_word_that_is_accessed_as_one_may_stay_together() {
    let mut pieces = vec![piece(9, 0, 5e4, 5e4)];
    for actor in 1..=4 {
        pieces.push(Piece { rmws: 2e4, ..piece(actor, 8, 0.0, 0.0) });
        pieces.push(Piece { size: 4, ..piece(actor, 12, 1e3, 1e3) });
    }
    let alone: Vec<Piece> = pieces[1..].to_vec();
    let cost = line_cost(&pieces, WINDOW);
    assert!((cost.apart - transfers(&alone, WINDOW).total()).abs() < 1.0, "{cost:?}");
    assert!(cost.removable_share() > 0.25, "{cost:?}");
}

#[test]
fn phases_that_follow_each_other_cost_nothing() {
    let first = Piece { vt0: 0, vt1: 50_000, ..piece(1, 0, 0.0, 5e4) };
    let second = Piece { vt0: 50_000, vt1: 100_000, ..piece(2, 8, 0.0, 5e4) };
    assert_eq!(line_cost(&[first, second], WINDOW).total(), 0.0);
}

#[test]
fn a_message_is_no_case_and_a_flag_beside_a_counter_is_one() {
    // Filled by one, read by another, its length at every step.
    let mut message = vec![piece(1, 0, 0.0, 5e3), piece(2, 0, 4e6, 0.0)];
    for word in 1..8 {
        message.extend([piece(1, 8 * word, 0.0, 5e3), piece(2, 8 * word, 5e3, 0.0)]);
    }
    assert_eq!(line_cost(&message, WINDOW).removable(), 0.0);
    // A flag that is polled, beside a value that is read now and then: the poller wants the flag only.
    let polled =
        [piece(1, 0, 0.0, 100.0), piece(2, 0, 1e6, 0.0), piece(1, 8, 0.0, 4e4), piece(2, 8, 5e3, 0.0)];
    assert!(line_cost(&polled, WINDOW).removable_share() > 0.25);
    // Read is only what is hardly ever written.
    let flag = [piece(1, 0, 0.0, 1.0), piece(2, 0, 1e6, 0.0), piece(1, 8, 0.0, 4e4)];
    assert!(line_cost(&flag, WINDOW).removable_share() > 0.99);
}

/// Of a message of four words the receiver reads two: the others come along. What is filled more often than it, or is
/// more than what is read, does not.
#[test]
fn what_a_receiver_skips_of_a_message_comes_along() {
    let message = |skipped: &[(u32, f64)]| {
        let mut pieces = Vec::new();
        for at in [0, 24] {
            pieces.extend([piece(1, at, 0.0, 5e3), piece(2, at, 5e3, 0.0)]);
        }
        pieces.extend(skipped.iter().map(|(at, stores)| piece(1, *at, 0.0, *stores)));
        line_cost(&pieces, WINDOW).removable_share()
    };
    assert_eq!(message(&[(8, 5e3), (16, 5e3)]), 0.0);
    assert!(message(&[(8, 5e3), (16, 4e4)]) > 0.0, "a count of its own");
    assert!(message(&[(8, 5e3), (16, 5e3), (32, 5e3), (40, 5e3)]) > 0.0, "mostly the sender's");
}

/// Two counts of four bytes, and who lowers the first one looks at both with one load.
#[test]
fn a_load_of_a_word_is_not_parted_from_the_half_that_others_store_to() {
    let half = |actor| Piece { size: 4, rmws: 1e5, ..piece(actor, 0, 0.0, 0.0) };
    let pieces = [half(1), half(2), piece(1, 0, 5e4, 0.0), piece(2, 0, 5e4, 0.0)];
    let cost = line_cost(&pieces, WINDOW);
    assert!(cost.total() > 1e5 && cost.removable_share() < 0.01, "{cost:?}");
}

#[test]
fn words_that_come_together_are_told_from_words_fought_for_one_by_one() {
    // A message of seven words, handed over a thousand times; as many counters, of which each visit takes one.
    let words = |accesses: f64| [Piece { size: 56, ..piece(1, 8, accesses / 2.0, accesses / 2.0) }];
    let next = [piece(1, 0, 1e3, 1e3)];
    let share = |accesses: f64, next: &[Piece]| {
        let left = Left::default().with(&words(accesses), 1e3);
        let left = if next.is_empty() { left } else { left.with(next, 1e3) };
        left.main_share(1e3)
    };
    assert_eq!(share(14e3, &[]), 1.0 / 7.0);
    assert_eq!(share(14e3, &next), 1.0 / 8.0);
    assert_eq!(share(1e3, &[]), 1.0, "one by one");
    let lock = [Piece { size: 48, rmws: 1e3, ..piece(1, 0, 4e3, 4e3) }];
    assert_eq!(Left::default().with(&lock, 1e3).main_share(1e3), 1.0, "a lock of a library's is one word");
}
