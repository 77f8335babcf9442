//! Deterministic simulator of cache coherence, scheduling and locks.
//!
//! A run is a pure function of (program, layout, machine, seed): no clock, no threads, no global state, integer time
//! in picoseconds. Tasks are ordinary sequential code written against [`Env`]; the engine charges every access by the
//! state of its cache line and the distance to whoever holds it.
//!
//! ```
//! use tussle_sim::{Config, Env, MemoryMap, Note, Program, Shape, Words, machine, simulate};
//!
//! /// Two CPUs add to one counter.
//! struct Counter(MemoryMap, tussle_sim::Cell);
//!
//! impl Program for Counter {
//!     fn tasks(&self) -> usize { 2 }
//!     fn memory(&self) -> &MemoryMap { &self.0 }
//!     fn init(&self, _: &mut dyn Words) {}
//!     async fn run<E: Env>(&self, env: &E) {
//!         while !env.stopping() {
//!             env.add(self.1, 1).await;
//!             env.note(Note::Done);
//!         }
//!     }
//!     fn check(&self, words: &mut dyn Words) -> Result<(), String> {
//!         (words.get(self.1) > 0).then_some(()).ok_or("nothing was counted".into())
//!     }
//! }
//!
//! let shape = std::sync::Arc::new(Shape::new("counter", 8, &[("value", 0, 8)]));
//! let mut memory = MemoryMap::new();
//! let cell = memory.object(&shape, 0).unwrap();
//! let machine = machine::find("2s-icelake-sp-96").unwrap();
//! let run = simulate(&Counter(memory, cell), &machine, &Config::new(2, 50_000, 1)).unwrap();
//! assert!(run.operations > 0);
//! ```

pub mod curve;
pub mod engine;
pub mod env;
pub mod explore;
pub mod machine;
pub mod memory;
mod port;

pub use curve::{Curve, Pattern};
pub use engine::{Config, Counters, SimError, Simulated, Whole, simulate};
pub use env::{Env, Note, Op, Program, Spin, SpinEnd, Visit};
pub use machine::{Machine, MachineError};
pub use memory::{Cell, LayoutError, MemoryMap, Shape, Words};
