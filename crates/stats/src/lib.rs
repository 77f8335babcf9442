//! Means, intervals, tests, sequential stopping. Pure.
