//! Members whose construction, copy and destruction nobody can see: asked of clang by assertions behind the unit.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::calls::Call;
use crate::project::Scratch;

/// `Inert<T>`: copies and destruction are trivial, and what a default constructor does the compiler can do as well.
const PRELUDE: &str = "
namespace tussle_query {
template <class T> struct Bare { typedef T type; };
template <class T> struct Bare<T &> { typedef T *type; };
template <class T> struct Bare<T &&> { typedef T *type; };
template <class T> struct Bare<T[]> { typedef T type; };
template <class T, decltype(sizeof(0)) N> struct Bare<T[N]> { typedef typename Bare<T>::type type; };
template <class T, int = ((void)T(), 0)> constexpr bool constant(int) { return true; }
template <class T> constexpr bool constant(...) { return !__is_constructible(T); }
template <class T, bool = __is_trivially_copyable(T) && __has_trivial_destructor(T)>
struct Inert { static constexpr bool value = __is_trivially_constructible(T) || constant<T>(0); };
template <class T> struct Inert<T, false> { static constexpr bool value = false; };
}
";

/// Those of `members` of `class` that are inert in this unit. None when the question itself does not compile (local
/// and unnamed classes, C++98).
pub(super) fn inert(clang: &Path, call: &Call, class: &str, members: &[String]) -> BTreeSet<String> {
    ask(clang, call, class, members).unwrap_or_default()
}

fn ask(clang: &Path, call: &Call, class: &str, members: &[String]) -> Option<BTreeSet<String>> {
    let file = call.file()?;
    let scratch = Scratch::empty().ok()?;
    let query = scratch.path().join("query.cpp");
    let class = super::super::without_unnamed(class);
    let mut text = format!("#include \"{}\"\n{PRELUDE}", file.display());
    for m in members {
        let of =
            format!("tussle_query::Inert<tussle_query::Bare<decltype(((::{class} *)0)->{m})>::type>::value");
        text.push_str(&format!("static_assert({of}, \"tussle:{m}:\");\n"));
    }
    std::fs::write(&query, text).ok()?;
    let out = call.clang(clang, &query, &["-fno-access-control"]).ok()?;
    let stderr = String::from_utf8_lossy(&out.stderr);
    let mut visible = BTreeSet::new();
    for line in stderr.lines().filter(|l| l.contains("error: ")) {
        visible.insert(line.split("\"tussle:").nth(1)?.split(':').next()?.to_string());
    }
    Some(members.iter().filter(|m| !visible.contains(*m)).cloned().collect())
}
