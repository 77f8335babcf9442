//! What is wished for as the type of an object, before the debug information is read for all of them at once.

use std::rc::Rc;

use crate::slab::type_names;
use crate::typed::Told;

/// A type that is still to be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum TypeWish {
    /// Nothing is known.
    #[default]
    Unknown,
    /// The type at an entry of `.debug_info`.
    Entry(usize),
    /// The first of these structs that exists and fits.
    Named(Vec<String>),
    /// What variables say that held the object's address.
    Told(Rc<Told>),
    /// An object of a cache that is made for one type.
    Cache(OfCache),
}

/// Whose objects a cache holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OfCache {
    /// Its name.
    pub name: String,
    /// The first of these structs that exists and fits.
    pub names: Vec<String>,
    /// What variables say, for caches that are not named after their struct.
    pub told: Option<Rc<Told>>,
}

impl OfCache {
    /// By the cache's name alone.
    pub fn new(name: &str) -> OfCache {
        OfCache { name: name.into(), names: type_names(name), told: None }
    }
}

/// Structs that lead into others.
pub(crate) fn is_link(name: &str) -> bool {
    const LINKS: [&str; 6] =
        ["list_head", "hlist_node", "hlist_head", "rb_node", "llist_node", "callback_head"];
    LINKS.contains(&name.trim_start_matches("struct "))
}
