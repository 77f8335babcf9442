//! Line view, pahole text, diff with cause, rules, slots.
