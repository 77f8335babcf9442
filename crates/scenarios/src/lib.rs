//! Locks, objects and five stories about them, each written once: the same code runs in the simulator, in the
//! explorer of all interleavings, and on real threads.
//!
//! [`locks`] are generic over [`tussle_sim::Env`]; [`AtomicEnv`](atomic::AtomicEnv) is the one for real threads.
//! Whoever
//! only wants a lock in variants takes it from here.

pub mod answer;
pub mod atomic;
pub mod decide;
pub mod duel;
pub mod layouts;
pub mod locks;
pub mod nodes;
pub mod objects;
mod pictures;
pub mod predict;
pub mod recorded;
pub mod stories;
pub mod subject;
pub mod validation;
pub mod view;

pub use nodes::Nodes;
pub use stories::{Setup, Side, Story, World};
