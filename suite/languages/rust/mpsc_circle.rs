//! Quiet: threads stand in a circle and hand on blocks through channels. A block is one whole line, and who received it
//! changes it 25,000 times before it goes on: eight hand-offs of each block in all, each by ownership.
//! Shared beside the blocks are the channels' own words, some ten stores for each message.
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Barrier};
use std::{env, thread};

const ROUNDS: usize = 8;
const STEPS: usize = 25_000;

#[derive(Default)]
#[repr(align(64))]
struct Block {
    words: [u64; 8],
}

impl Block {
    #[inline(never)]
    fn change(&mut self, step: usize) {
        self.words[step % 8] += 1;
    }
}

/// Returns the block that is here in the end and how many were handed on.
fn work(next: Sender<Box<Block>>, own: Receiver<Box<Block>>) -> (Box<Block>, usize) {
    let mut block = Box::new(Block::default());
    let mut handed = 0;
    for _ in 0..ROUNDS {
        for step in 0..STEPS {
            block.change(step);
        }
        next.send(block).unwrap();
        handed += 1;
        block = own.recv().unwrap();
    }
    (block, handed)
}

fn main() {
    let threads: usize = env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4).clamp(2, 64);
    let start = Arc::new(Barrier::new(threads));
    let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel()).unzip();
    senders.rotate_left(1);
    let begin = |(next, own)| {
        let start = Arc::clone(&start);
        thread::spawn(move || {
            start.wait();
            work(next, own)
        })
    };
    let all: Vec<_> = senders.into_iter().zip(receivers).map(begin).collect();
    let mut handoffs = 0;
    for one in all {
        let (block, handed) = one.join().unwrap();
        assert_eq!(block.words.iter().sum::<u64>(), (ROUNDS * STEPS) as u64);
        handoffs += handed;
    }
    println!("handoffs {handoffs}");
}
