use crate::support::*;
use tussle_evidence::*;

const SOURCE: &str = r#"
#include <stdlib.h>
struct job { int *slots; int id; };
struct node { long a; long b; };
typedef struct { long *word; } lock;
#define tally(p, n) __atomic_fetch_add(p, n, __ATOMIC_RELAXED)
static long *hits, *spare;
static int **rows;
static unsigned long *total, *failed;
static volatile int *bins;
static char *arena;
void begin(void) { hits = malloc(64 * sizeof *hits); bins = malloc(4096); arena = malloc(4096); }
void take(lock *l) { tally(l->word, 1); } // l1
static void bump(int *p, int k) { p[k]++; } // b1
void other(long n) { spare[n] = 1; } // o1
void copy(long *from, long n) { long *p = hits; if (n) p = spare; p[n] = 2; } // c2
void work(struct job *j, int k) {
    volatile int *mine = bins + 100 * k;
    long *here = &hits[k];
    hits[j->id]++; // w1
    hits[k] = 3; // w2
    bump(j->slots, k); // w3
    rows[0][k] += 2; // w4
    tally(total, 1); // w5
    *failed += 1; // w6
    mine[5]++; // w7
    *here = 4; // w8
    ((struct node *)arena)->b = 1; // w9
    arena[k] = 1; // w10
}
int main(int argc, char **argv) {
    struct job j = { malloc(40), argc };
    begin();
    work(&j, argc);
    take((lock *)&j.slots);
    other(argc);
    copy(hits, argc);
    return 0;
}
"#;

struct Seen {
    program: Program,
    base: u64,
}

impl Seen {
    fn block(&mut self, size: u64) -> u32 {
        self.base += 0x1_0000;
        self.program.object(ObjectKind::Heap, self.base, size, None)
    }

    fn write(&mut self, block: u32, offset: u64, size: u32, line: &str, token: &str) {
        let code = self.program.code(line, token, &[]);
        self.program.touch(block, offset, size, code, TouchKind::Write);
    }

    fn names(mut self) -> Vec<String> {
        self.program.name();
        self.program.touched()
    }
}

fn seen() -> Option<Seen> {
    Some(Seen { program: compile("gcc", &["-O0"], SOURCE)?, base: 0x7f00_0000_0000 })
}

#[test]
fn numbers_are_called_by_the_pointer_that_leads_there() {
    let Some(mut s) = seen() else { return };
    let (hits, row) = (s.block(512), s.block(400));
    s.write(hits, 8, 8, "hits[j->id]++; // w1", "++");
    s.write(hits, 16, 8, "hits[k] = 3", "=");
    s.write(row, 4, 4, "rows[0][k] += 2", "+=");
    let bins = s.block(4096);
    s.write(bins, 420, 4, "mine[5]++", "++");
    s.write(hits, 24, 8, "*here = 4", "=");
    assert_eq!(s.names(), ["hits[]", "hits[]", "rows[][]", "bins[]", "hits[]"]);
}

#[test]
fn a_members_target_is_not_written_like_the_member() {
    let Some(mut s) = seen() else { return };
    let slots = s.block(40);
    let caller = s.program.code("bump(j->slots, k); // w3", "bump", &[]);
    let code = s.program.code("p[k]++; } // b1", "++", &[caller]);
    s.program.touch(slots, 8, 4, code, TouchKind::Write);
    assert_eq!(s.names(), ["(struct job.slots)[]"]);
}

#[test]
fn words_of_one_block_are_called_by_pointers_of_their_own() {
    let Some(mut s) = seen() else { return };
    let block = s.block(4096);
    s.write(block, 1024, 8, "tally(total, 1)", "tally");
    s.write(block, 2048, 8, "*failed += 1", "+=");
    let word = s.block(8);
    s.write(word, 0, 8, "tally(l->word, 1)", "tally");
    assert_eq!(s.names(), ["*total", "*failed", "*(lock.word)"]);
}

#[test]
fn where_the_code_names_two_pointers_there_is_no_name() {
    let Some(mut s) = seen() else { return };
    let block = s.block(512);
    s.write(block, 8, 8, "hits[k] = 3", "=");
    s.write(block, 8, 8, "spare[n] = 1", "=");
    let other = s.block(512);
    s.write(other, 8, 8, "p[n] = 2", "=");
    assert_eq!(s.names(), ["heap block, bytes 8..15", "heap block, bytes 8..15", "heap block, bytes 8..15"]);
}

#[test]
fn a_block_with_a_struct_in_it_is_no_array() {
    let Some(mut s) = seen() else { return };
    let arena = s.block(4096);
    s.write(arena, 8, 8, "((struct node *)arena)->b = 1", "=");
    s.write(arena, 100, 1, "arena[k] = 1", "=");
    assert!(s.names().iter().all(|n| n.starts_with("struct node[]")));
}

#[test]
fn bytes_between_two_arrays_of_a_block_belong_to_neither() {
    let Some(mut s) = seen() else { return };
    let block = s.block(8192);
    let caller = s.program.code("bump(j->slots, k); // w3", "bump", &[]);
    let code = s.program.code("p[k]++; } // b1", "++", &[caller]);
    for offset in [64, 68, 76, 4096, 4100] {
        s.program.touch(block, offset, 4, code, TouchKind::Write);
    }
    let unread = s.program.row(BIAS, &[]);
    s.program.touch(block, 2048, 8, unread, TouchKind::Write);
    let slots = "(struct job.slots)[]";
    assert_eq!(s.names(), [slots, slots, slots, slots, slots, "heap block, bytes 2048..2055"]);
}
