//! Whose a source file is, as far as its path tells.

/// A path into a folder into which cargo puts crates of others: from a registry, or from a repository.
pub fn is_fetched(path: &str) -> bool {
    ["/registry/src/", "/git/checkouts/"].iter().any(|f| path.contains(f))
}
