use super::*;

const COUNTERS: &str = "use std::sync::atomic::AtomicU64;\n\n#[derive(Default)]\nstruct Counter {\n\
\x20   done: AtomicU64, \
                        // all\n    /// Lost.\n    failed: AtomicU64,\n}\n";

fn edit(text: &str, name: &str, edits: &[&str]) -> Result<String, String> {
    let edits: Vec<Edit> = edits.iter().map(|e| e.parse().unwrap()).collect();
    patch(text, name, None, &edits, &Wrapper::own(&[text], &edits)).map(|p| p.text).map_err(|e| e.to_string())
}

#[test]
fn a_struct_is_aligned() {
    let new = edit(COUNTERS, "app::Counter", &["element=64"]).unwrap();
    assert!(new.contains("#[derive(Default)]\n#[repr(align(64))]\nstruct Counter {"), "{new}");
    let one = edit(
        "#[repr(C)] pub(crate) struct A<T: Fn() -> u8> where T: Copy { a: T }",
        "A<u8>",
        &["element=64"],
    );
    assert_eq!(
        one.unwrap(),
        "#[repr(C)] #[repr(align(64))] pub(crate) struct A<T: Fn() -> u8> where T: Copy { a: T }"
    );
    let more = edit("#[repr(C, align(16))]\nstruct A { a: u8 }", "A", &["element=64"]).unwrap();
    assert_eq!(more, "#[repr(C, align(64))]\nstruct A { a: u8 }");
}

#[test]
fn what_is_unclear_is_refused() {
    let refused = |text: &str, edits: &str, why: &str| {
        let e = edit(text, "A", &[edits]).unwrap_err();
        assert!(e.contains(why), "{e}");
    };
    refused("#[repr(packed)]\nstruct A { a: u8 }", "element=64", "packed");
    refused("#[cfg_attr(x, repr(C))]\nstruct A { a: u8 }", "element=64", "condition");
    refused("macro_rules! m { ($t:ty) => { struct A { a: $t } } }", "element=64", "macro");
    refused("struct A(u8, u8);", "element=64", "no names");
    refused("struct B { a: u8 }", "element=64", "no definition");
    refused("struct A { a: u8 }\nmod m { struct A { b: u8 } }", "element=64", "2 definitions");
    refused("struct A { a: u8, b: u8 }", "a:after:b", "the compiler orders");
    refused("#[repr(C)]\n#[derive(Pod)]\nstruct A {\n    a: u8,\n    b: u8,\n}", "b:first", "Pod");
    let ffi = "#[repr(C)]\nstruct A {\n    a: u8,\n    b: u8,\n}\nextern \"C\" fn f(a: &A) {}";
    refused(ffi, "b:first", "calling convention");
    refused("struct A { a: u8 }", "pad=64", "types alone");
    refused("#[repr(C)]\nstruct A { a: u8, /* two */ b: u8 }", "b:first", "shares its line");
    let debug = "#[repr(C)]\nstruct A {\n    a: u8,\n    #[cfg(debug_assertions)]\n    b: u8,\n}";
    for edits in ["b:first", "swap:a,b", "align:b=64"] {
        refused(debug, edits, "cfg(debug_assertions)");
    }
    assert!(edit(debug, "A", &["a:after:b"]).is_ok());
    let line = "#[repr(C)]\nstruct A { a: u8, pub b: [u8; 2], c: u64 }";
    let moved = edit(line, "A", &["c:first"]).unwrap();
    assert_eq!(moved, "#[repr(C)]\nstruct A { c: u64, a: u8, pub b: [u8; 2] }");
}

#[test]
fn fields_of_repr_c_move_with_their_comments() {
    let text = "#[repr(C)]\nstruct A {\n    a: Vec<(u8, u16)>, // first\n    /// Two.\n    #[allow(unused)]\n\
    \x20   pub b: [u8; 2],\n    c: u8\n}\n";
    assert_eq!(
        edit(text, "A", &["c:after:a"]).unwrap(),
        "#[repr(C)]\nstruct A {\n    a: Vec<(u8, u16)>, // first\n    c: u8,\n    /// Two.\n\
        \x20   #[allow(unused)]\n    pub b: [u8; 2],\n}\n"
    );
    assert_eq!(
        edit(text, "A", &["swap:a,c"]).unwrap(),
        "#[repr(C)]\nstruct A {\n    c: u8,\n    /// Two.\n    #[allow(unused)]\n    pub b: [u8; 2],\n\
        \x20   a: Vec<(u8, u16)>, // first\n}\n"
    );
}

#[test]
fn a_field_gets_lines_of_its_own_where_it_is_declared_and_made() {
    let text = "#[derive(Debug, Default, Serialize)]\nstruct A {\n    a: AtomicU64,\n    b: AtomicU64,\n}\n\n\
    impl A {\n    fn new(b: \
                AtomicU64) -> A {\n        let a = Self { a: AtomicU64::new(0), b };\n\
                \x20       let A { a: x, .. } = a;\n        A { a: \
                x, b: AtomicU64::new(f::<u8, u8>(1, 2)) }\n    }\n}\n";
    let new = edit(text, "A", &["align:b=64"]).unwrap();
    for expected in [
        "    b: CacheLine64<AtomicU64>,\n",
        "Self { a: AtomicU64::new(0), b: CacheLine64(b) }",
        "let A { a: x, .. } = a;",
        "A { a: x, b: CacheLine64(AtomicU64::new(f::<u8, u8>(1, 2))) }",
        "-> A {\n",
        "#[derive(Default)]\n#[repr(align(64))]\nstruct CacheLine64<T>(T);",
        "impl<T: core::fmt::Debug> core::fmt::Debug for CacheLine64<T> {",
        "impl<T: core::fmt::Display> core::fmt::Display for CacheLine64<T> {",
    ] {
        assert!(new.contains(expected), "{expected}\n{new}");
    }
    let again = edit(&new, "A", &["align:a=64"]).unwrap();
    assert_eq!(again.matches("struct CacheLine64").count(), 1, "{again}");
    assert!(edit(&new, "A", &["align:b=64"]).unwrap_err().contains("already"));
    let padded = Wrapper::Padded("crossbeam_utils::CachePadded".into());
    let edits = ["align:a=64".parse().unwrap()];
    let new = patch(text, "A", None, &edits, &padded).unwrap();
    assert!(new.text.contains("a: crossbeam_utils::CachePadded<AtomicU64>,"), "{}", new.text);
    assert!(
        new.text.contains("a: crossbeam_utils::CachePadded::new(AtomicU64::new(0)), b }"),
        "{}",
        new.text
    );
}

#[test]
fn the_type_around_a_field_has_a_name_of_its_own() {
    let text = "struct A { a: u64, b: u64 }\n";
    for other in [
        "struct CacheLine64<const N: usize>([u8; N]);",
        "use lib::CacheLine64;",
        "use lib::Line as CacheLine64;",
        "enum CacheLine64 { Full }",
    ] {
        let new = edit(&format!("{text}{other}\n"), "A", &["align:b=64"]).unwrap();
        let wrapped = "b: OwnLine64<u64>";
        assert!(new.contains(wrapped) && new.contains("struct OwnLine64<T>(T);"), "{other}: {new}");
        let again = edit(&new, "A", &["align:a=64"]).unwrap();
        assert_eq!(again.matches("struct OwnLine64").count(), 1, "{again}");
        assert!(edit(&new, "A", &["align:b=64"]).unwrap_err().contains("already"), "{new}");
    }
    let ours = format!("{text}#[repr(align(64))]\npub struct CacheLine64<T>(pub T);\n");
    let new = edit(&ours, "A", &["align:b=64"]).unwrap();
    assert!(new.contains("b: CacheLine64<u64>") && new.matches("struct CacheLine64").count() == 1, "{new}");
    let edits: Vec<Edit> = vec!["align:b=128".parse().unwrap()];
    assert_eq!(Wrapper::own(&[text, "struct CacheLine64;"], &edits), Wrapper::own(&[], &edits));
    assert_ne!(Wrapper::own(&[text, "struct CacheLine128;"], &edits), Wrapper::own(&[], &edits));
}

#[test]
fn what_is_no_struct_says_what_it_is() {
    let text =
        "// static A\nenum State { Idle }\nstatic mut ERRORS: u64 = 0;\nstatic A: u8 = 0;\nstruct S;\n";
    let why = |name: &str| no_struct(text, name).map(|r| r.to_string()).unwrap_or_default();
    assert!(why("r::State").starts_with("r::State: line 2 defines an enum"), "{}", why("r::State"));
    assert!(why("r::ERRORS").contains("line 3 defines a static"), "{}", why("r::ERRORS"));
    assert!(why("A").contains("line 4"), "{}", why("A"));
    assert_eq!((why("r::S"), why("Idle")), (String::new(), String::new()));
}

#[test]
fn order_is_known_by_repr() {
    assert!(is_ordered("#[repr(C, align(8))]\nstruct A { a: u8 }", "x::A<u8>", None));
    assert!(!is_ordered("struct A { a: u8 }", "A", None));
    assert!(!is_ordered("", "A", None));
}

/// What refuses the edit of `Q` where this code stands behind it; empty where nothing does.
fn run(code: &str, edit: &str) -> String {
    let text = format!("#[repr(C)]\nstruct Q {{ head: u64, tail: u64 }}\n{code}\n");
    // The word itself would be looked for in this file's code.
    let text = text.replace("danger", concat!("un", "safe"));
    let edits: Vec<Edit> = vec![edit.parse().unwrap()];
    uses::check("app::Q", &edits, true, &[("a.rs", &text)]).err().map(|e| e.to_string()).unwrap_or_default()
}

fn refused(code: &str, why: &str) {
    for edit in ["swap:head,tail", "align:tail=64"] {
        let found = run(code, edit);
        assert!(found.contains(why) && found.contains("a.rs:3"), "{code}: {found:?}");
    }
}

#[test]
fn uses_that_see_the_layout() {
    refused("fn f(q: &Q) { let w = danger { &*(q as *const Q as *const [u64; 2]) }; }", "an array");
    refused("fn f(q: &Q) { let p = q as *const _ as *const u64; }", "looked at as u64");
    refused("fn f(q: &Q) { let p = ptr::from_ref(q).cast::<u64>(); }", "looked at as u64");
    refused("fn f(q: Q) -> [u64; 2] { danger { transmute(q) } }", "transmute");
    refused("impl Q { fn f(&self) { let p = self as *const Self as *const u8; } }", "looked at as u8");
    refused("fn f(q: &Q) { let p = &q.head as *const u64; danger { *p.add(1) } }", "address of head");
    refused("union U { q: ManuallyDrop<Q>, w: [u64; 2] }", "union");
    refused("danger impl bytemuck::Pod for Q {}", "Pod");
    refused("fn f() { println!(\"{}\", offset_of!(Q, tail)); }", "is printed");
    refused("fn f(b: &[u8]) { let q = b.as_ptr() as *const Q; }", "bytes become one");
    refused("fn f() { println!(\"{}\", std::mem::size_of::<Q>()); }", "its size is printed");
    assert!(run("fn f() { let n = 4096 / size_of::<Q>(); }", "element=64").contains("divides"));
    let sliced = "fn f(q: &Q) { slice::from_raw_parts(q as *const Q as *const u8, size_of::<Q>()); }";
    assert!(run(sliced, "element=64").contains("slice"));
    for fine in [
        "fn f(q: &Q) { let w = danger { &*(q as *const Q as *const [u64; 2]) }; }",
        "fn f(n: usize) { let l = Layout::from_size_align(n * size_of::<Q>(), 8); }",
    ] {
        assert_eq!(run(fine, "element=64"), "", "{fine}");
    }
    // Kept in a variable, typed by what it is bound to, seen by a function.
    refused(
        "impl Q { fn f(&self) -> u64 { let p = self as *const Self; danger { *p.cast::<u64>() } } }",
        "as u64",
    );
    refused("fn f(q: &Q) { let p: *const Head = ptr::addr_of!(q).cast(); }", "looked at as Head");
    refused(
        "fn f(q: &Q) { tail(1, q as *const Q as *const ()); } \
         danger fn tail(n: u64, p: *const ()) -> u64 { (*(p as *const Head)).tail }",
        "looked at as Head",
    );
    for fine in [
        "fn f(q: &Q) { tail(1, q as *const Q as *const ()); } \
         danger fn tail(n: u64, p: *const ()) -> u64 { (*(p as *const Q)).tail }",
        "fn f(q: &Q) { let p = q as *const Q; use_it(p); }\nfn g(p: *const Head) { p.cast::<u64>(); }",
        "fn f(q: &Q) { let p: *const Q = ptr::from_ref(q).cast(); }",
        "fn f(q: &Q) { let p = q as *const Q as *const c_void; let a = q.head + q.tail; }",
        "fn f(p: *mut c_void) { let q = p as *mut Q; }",
        "fn f(q: &Q) { let p = &q.head as *const u64; danger { *p } }",
        "fn f(q: *mut Q) { danger { dealloc(q as *mut u8, Layout::new::<Q>()) } }",
    ] {
        assert_eq!(run(fine, "swap:head,tail"), "", "{fine}");
    }
}

#[test]
fn generic_functions_and_macros() {
    let words = "fn words<T>(t: &T) -> &[u64] { danger { from_raw_parts((t as *const T).cast(), size_of::<T>() \
        / 8) } }";
    refused(&format!("{words} fn f(q: Q) {{ use_it(words(&q)); }}"), "words looks at the bytes");
    let parse = "fn parse<T: Copy>(b: &[u8]) -> T { assert!(b.len() >= size_of::<T>()); \
        danger { read_unaligned(b.as_ptr() as *const T) } }";
    refused(&format!("{parse} fn f(b: &[u8]) {{ let q: Q = parse(b); }}"), "parse looks at the bytes");
    let array = "macro_rules! array { ($t:ty) => { impl AsRef<[u64; 2]> for $t { fn as_ref(&self) -> &[u64; 2] { \
        danger { &*(self as *const Self as *const [u64; 2]) } } } }; }";
    refused(&format!("{array} array!(Q);"), "array looks at the bytes");
    let index = "impl Index<usize> for Q { fn index(&self, i: usize) -> &u64 { \
        danger { &*(&self.head as *const u64).add(i) } } }";
    refused(index, "address of head");
    assert_eq!(
        run(&format!("{words} fn f(q: &Q, r: &R) -> u64 {{ use_it(words(r)); q.head }}"), "swap:head,tail"),
        ""
    );
    let inline = "trait Store { const INLINE: bool; } impl<T> Store for T { const INLINE: bool = size_of::<T>() \
    <= 16; } \
                  fn f() -> bool { <Q as Store>::INLINE }";
    assert!(run(inline, "element=64").contains("Store counts on its size"), "{}", run(inline, "element=64"));
}

/// Elements that part are refused, and so is every other edit.
fn seen(code: &str, why: &str) {
    for edit in ["element=64", "align:tail=64"] {
        let found = run(code, edit);
        assert!(found.contains(why) && found.contains("a.rs:3"), "{code}: {found:?}");
    }
}

#[test]
fn bytes_of_an_array() {
    seen("fn f(v: &[Q]) { let p = &v[0] as *const Q as *const u8; }", "looked at as u8");
    seen("fn f(v: &[Q]) { let p: *const u8 = v.as_ptr() as *const u8; }", "looked at as u8");
    seen("fn f(v: &[Q]) { let (_, b, _) = danger { v.align_to::<u8>() }; }", "looked at as u8");
    seen("fn f(v: &[Q]) { let w = danger { transmute::<&[Q], &[[u64; 2]]>(v) }; }", "transmute");
    seen("fn f(v: &[Q]) { let p = addr_of!(v[0]); danger { (*p.byte_add(32)).tail } }", "steps of bytes");
    seen("fn f(v: Arc<Vec<Q>>) { let w = v.clone(); let n = w.as_ptr() as usize; }", "becomes a number");
    seen("fn f(v: &[Q]) { let mut p = v.as_ptr().cast::<[u64; 2]>(); p = p.add(2); }", "an array");
    seen("fn f(t: &Table) { t.all.as_ptr().cast::<u8>(); }\nstruct Table { all: Box<[Q]> }", "as u8");
    seen(
        "fn f() { let v: Vec<_> = (0..4).map(|i| Q { head: i, tail: 0 }).collect(); g(v.as_ptr() as *const u8) }",
        "u8",
    );
    seen(
        "fn f() { for q in all() { let b = q as *const Q as *const u8; b.add(32); } }\nfn all() -> &'static [Q] {}",
        "u8",
    );
    seen(
        "fn f() { memcmp(ALL.as_ptr().cast(), b, 32); }\nextern \"C\" { fn memcmp(a: *const c_void); }\n\
        static ALL: [Q; 4] = Q::all();",
        "no Rust",
    );
    seen("fn f(v: &[Q]) { let p = v.as_ptr() as *const c_void; p.byte_add(24); }", "steps of bytes");
    seen("fn f(b: &[u8]) -> &[Q] { from_raw_parts(b.as_ptr() as *const Q, 4) }", "bytes become");
    seen("fn f(v: &[Cell]) { let p = v.as_ptr() as *const u8; }\nstruct Cell(UnsafeCell<Q>);", "as u8");
    seen("fn f(v: &[Q]) -> &[u8] { bytemuck::cast_slice(v) }", "cast_slice looks at");
    seen("union U { all: [Q; 2], words: [u64; 4] }", "union");
    seen("fn f(v: &[Q]) { let a = &v[0].head as *const u64; danger { *a.add(2) } }", "address of head");
    let macros =
        "macro_rules! raw { ($x:expr) => { from_raw_parts(from_ref(&$x[0]).cast::<u8>(), $x.len() * 16) } } ";
    seen(&format!("{macros} fn f(v: &[Q]) {{ raw!(v).iter() }}"), "raw looks at the bytes");
}

#[test]
fn bytes_of_what_generic_code_is_given() {
    let whole =
        "fn all<T: Copy>(t: &[T]) -> &[u8] { from_raw_parts(t.as_ptr() as *const u8, size_of_val(t)) } ";
    seen(&format!("{whole} fn f(v: &Vec<Q>) {{ all(&v[..]) }}"), "all looks at the bytes");
    let bytes = "impl<T> Bytes for [T] { fn bytes(&self) -> &[u8] { from_raw_parts(self.as_ptr().cast(), \
        size_of_val(self)) } } ";
    seen(&format!("{bytes} fn f(v: &Vec<Q>) {{ write(v.bytes()) }}"), "bytes looks at the bytes");
    let list = "struct List<T> { all: Vec<T> } impl<T> List<T> { fn words(&self) -> *const u64 { self.all.as_ptr() as \
        *const u64 } } ";
    seen(&format!("{list} fn f(v: &List<Q>) {{ v.words() }}"), "words looks at the bytes");
    let default =
        "trait Raw { fn raw(&self) -> &[u8] { from_raw_parts(self as *const Self as *const u8, 16) } } ";
    seen(&format!("{default} fn f(q: &Q) {{ q.raw() }}"), "raw looks at the bytes");
}

#[test]
fn sizes_and_offsets_that_become_data() {
    let size = "fn header(n: usize) -> [u8; 4] { ((n * std::mem::size_of::<Q>()) as u32).to_le_bytes() }";
    seen(size, "its size becomes bytes");
    let kept = "fn peek() -> u64 { mem::offset_of!(Q, tail) as u64 }\n\
        fn main() { let x = peek(); println!(\"peek {x}\"); }";
    refused(kept, "an offset is what peek gives, which is printed");
    let twice = "fn a() -> usize { offset_of!(Q, tail) } fn b() -> usize { a() } fn main() { println!(\"{}\", b()); }";
    refused(twice, "an offset is what a gives");
    seen(
        "fn a() -> usize { 4 * size_of::<Q>() } fn f(n: usize) -> bool { n == a() }",
        "its size is what a gives",
    );
    for fine in [
        "fn a(n: usize) -> usize { n * size_of::<Q>() } fn f() { let l = Layout::from(a(4)); alloc(l); }",
        "fn a() -> usize { offset_of!(Q, tail) } fn f(p: *mut Q) { g(p, a()) }",
        "fn a(p: &P) -> u64 { get(p, offset_of!(Q, tail)) } fn f() { println!(\"{}\", a(p)); }",
    ] {
        assert_eq!(run(fine, "align:tail=64"), "", "{fine}");
    }
}

#[test]
fn arrays_whose_bytes_nobody_sees() {
    for fine in [
        "fn f(v: &[Q], b: &[u8]) { let p = b.as_ptr() as *const u64; let n = b.as_ptr() as usize; v.len() }",
        "fn f(v: &[Q]) { assert!(v.as_ptr() as usize % 64 == 0); }",
        "fn f(v: &[Q]) { let p = v.as_ptr(); danger { (*p.add(2)).tail } }",
        "fn f(v: &[Q], i: usize) { pthread_create(t, null(), run, &v[i] as *const Q as *mut c_void); }\n\
         extern \"C\" { fn pthread_create(); }",
        "fn f() { let a: [MaybeUninit<Q>; 4] = g(); let p = a.as_ptr() as *const Q; let b: [Q; 4] = transmute(a); }",
        "fn f(n: usize) { let v = danger { from_raw_parts_mut(alloc(l) as *mut Q, n) }; }",
        "fn f(v: &[Q]) { let n: Vec<u64> = v.iter().map(|q| q.head).collect(); g(n.as_ptr() as *const u8) }",
        "fn f(v: &mut [Q]) { swap(v); let w = danger { from_raw_parts(v.as_ptr(), v.len()) }; }",
        "fn make<T>(n: usize) -> Vec<T> { let p = alloc(n * size_of::<T>()) as *mut T; from_raw_parts(p, n, n) } \
         fn f() -> Vec<Q> { let v: Vec<Q> = make(4); v }",
    ] {
        assert_eq!(run(fine, "element=64"), "", "{fine}");
    }
}
