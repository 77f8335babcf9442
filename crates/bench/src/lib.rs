//! Paired runs, readers of foreign result formats.
