//! The workspace of a cargo package: its manifest, lock file and other members lie above the package.

use super::system::Package;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the workspace that the package in `dir` is a member of, if that is another folder.
pub(super) fn root_above(dir: &Path) -> Option<PathBuf> {
    let own = manifest(dir)?;
    if has_workspace(&own) {
        return None;
    }
    if let Some(named) = values(&own, "package", "workspace").first() {
        return dir.join(named).canonicalize().ok();
    }
    let above = dir.ancestors().skip(1).filter_map(|d| Some((d, manifest(d)?)));
    let (root, text) = above.into_iter().find(|(_, text)| has_workspace(text))?;
    let excluded = values(&text, "workspace", "exclude").iter().any(|e| dir.starts_with(root.join(e)));
    (!excluded).then(|| root.to_path_buf())
}

/// The program that `cargo run` means in a package that has several.
pub(super) fn default_run(dir: &Path) -> Option<String> {
    values(&manifest(dir)?, "package", "default-run").pop()
}

/// The first program of a package that asks for features: `Some(("app", "a,b"))`.
pub(super) fn required_features(dir: &Path) -> Option<(String, String)> {
    let table: toml::Table = manifest(dir)?.parse().ok()?;
    let programs = table.get("bin")?.as_array()?;
    programs.iter().find_map(|program| {
        let name = program.get("name")?.as_str()?.to_string();
        let features = program.get("required-features")?.as_array()?;
        let features: Vec<&str> = features.iter().filter_map(toml::Value::as_str).collect();
        (!features.is_empty()).then(|| (name, features.join(",")))
    })
}

/// What of the package in `dir` is a program: the examples, if it is a library that has some.
pub(super) fn programs(dir: &Path) -> Package {
    let table: toml::Table = manifest(dir).and_then(|m| m.parse().ok()).unwrap_or_default();
    let named = |key: &str| table.get(key).and_then(toml::Value::as_array).is_some_and(|a| !a.is_empty());
    let holds = |folder: &str, file: &str| {
        let entries = fs::read_dir(dir.join(folder)).into_iter().flatten().flatten();
        entries.map(|e| e.path()).any(|p| p.extension().is_some_and(|e| e == "rs") || p.join(file).is_file())
    };
    let has_program = named("bin") || dir.join("src/main.rs").is_file() || holds("src/bin", "main.rs");
    match table.contains_key("package") && !has_program && (named("example") || holds("examples", "main.rs"))
    {
        true => Package::Examples,
        false => Package::Programs,
    }
}

fn manifest(dir: &Path) -> Option<String> {
    fs::read_to_string(dir.join("Cargo.toml")).ok()
}

fn has_workspace(manifest: &str) -> bool {
    manifest.lines().map(str::trim).any(|l| l.starts_with("[workspace]") || l.starts_with("[workspace."))
}

/// The strings of `key = "a"` or `key = ["a", "b"]` in a table.
fn values(manifest: &str, table: &str, key: &str) -> Vec<String> {
    let manifest = &manifest.lines().map(without_comment).collect::<Vec<_>>().join("\n");
    let header = format!("[{table}]");
    let Some(at) = manifest.lines().find(|l| l.trim() == header) else { return Vec::new() };
    let begin = at.as_ptr() as usize - manifest.as_ptr() as usize + at.len();
    let body = manifest[begin..].split("\n[").next().unwrap_or("");
    let named = body.match_indices(key).find_map(|(at, _)| {
        let first = body[..at].trim_end_matches([' ', '\t']).ends_with('\n');
        body[at + key.len()..].trim_start().strip_prefix('=').filter(|_| first)
    });
    let text = named.map_or("", str::trim_start);
    let end = if text.starts_with('[') { ']' } else { '\n' };
    let quotes = ['"', '\''];
    text.split(end).next().unwrap_or("").split(quotes).skip(1).step_by(2).map(String::from).collect()
}

/// A line up to the `#` that begins its comment.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') => return &line[..at],
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), _) if q == c => quote = None,
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_says_what_cargo_runs() {
        let dir = tempfile::tempdir().unwrap();
        let put = |text: &str| fs::write(dir.path().join("Cargo.toml"), text).unwrap();
        put("[package]\nname = 'duo'\ndefault-run = \"serve\" # not admin\n[[bin]]\nname = 'admin'\n");
        assert_eq!(default_run(dir.path()).as_deref(), Some("serve"));
        put("[package]\nname = 'duo'\n[package.metadata.x]\ndefault-run = 'no'\n");
        assert_eq!(default_run(dir.path()), None);
    }

    #[test]
    fn a_program_says_which_features_it_asks_for() {
        let dir = tempfile::tempdir().unwrap();
        let put = |text: &str| fs::write(dir.path().join("Cargo.toml"), text).unwrap();
        put(
            "[package]\nname = 'a'\n[[bin]]\nname = 'a'\n[[bin]]\nname = 'b'\nrequired-features = ['x', 'y']\n",
        );
        assert_eq!(required_features(dir.path()), Some(("b".into(), "x,y".into())));
        put("[package]\nname = 'a'\n[[bin]]\nname = 'a'\nrequired-features = []\n");
        assert_eq!(required_features(dir.path()), None);
    }

    #[test]
    fn a_member_knows_its_workspace() {
        let top = tempfile::tempdir().unwrap();
        let put = |at: &str, text: &str| {
            let folder = top.path().join(at);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("Cargo.toml"), text).unwrap();
        };
        let excluded = "exclude = [ # don't build\n 'other', # ]\n 'alone',\n]\n";
        put("ws", &format!("[workspace]\nmembers = ['a/*']\n{excluded}resolver = '2'\n"));
        put("ws/a/app", "[package]\nname = 'app'\n");
        put("ws/alone", "[package]\nname = 'alone'\n");
        put("ws/own", "[package]\nname = 'own'\n[workspace]\n");
        put("far", "[package]\nname = 'far'\nworkspace = '../ws'\n");
        put("single", "[package]\nname = 'single'\n");
        let of = |at: &str| root_above(&top.path().join(at));
        assert_eq!(of("ws/a/app"), Some(top.path().join("ws")));
        assert_eq!(of("far"), Some(top.path().canonicalize().unwrap().join("ws")));
        for at in ["ws", "ws/alone", "ws/own", "single", "nowhere"] {
            assert_eq!(of(at), None, "{at}");
        }
    }
}
