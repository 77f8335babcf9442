//! Objects that leave by way of something else: a table of addresses and sizes, a buffer of bytes that they are put
//! into.

use super::super::objects::Objects;
use super::{TRANSFERS, buffer};

/// Line and sentence of the first such place.
pub(super) fn in_file(objects: &Objects<'_, '_>) -> Option<(u32, String)> {
    (0..objects.code.len()).find_map(|i| {
        let how = match objects.text(i) {
            "{" => table(objects, i),
            "(" => put(objects, i),
            _ => None,
        };
        Some((objects.code.line(i), how?))
    })
}

/// `struct region saved[] = { { &x, sizeof x } }`, and `fwrite(saved[i].at, saved[i].bytes, 1, f)`.
fn table(objects: &Objects<'_, '_>, open: usize) -> Option<String> {
    let code = &objects.code;
    let comma = objects.address(open + 1).filter(|&end| code.text(end) == ",")?;
    if code.text(comma + 1) != "sizeof" {
        return None;
    }
    let name = code.initialised(open)?;
    let ty = code.declaration(name).map(|d| code.text(d.ty));
    let of_table = |j: usize| {
        let declared = code.variable(code.text(j), j).map(|d| code.text(d.ty));
        code.text(j) == code.text(name) || (ty.is_some() && declared == ty)
    };
    let call = transfers(objects).find(|&(_, (from, to))| to > from + 1 && of_table(from))?;
    Some(format!("{}() takes the bytes that {} tells", code.text(call.0), code.text(name)))
}

/// `*(struct s *)(o->data + o->used) = x`, and `write(1, o->data, o->used)`.
fn put(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let code = &objects.code;
    let close = code.closing(i).filter(|&c| c - i < 8 && code.text(c.wrapping_sub(1)) == "*")?;
    let end = code.closing(close + 1).filter(|_| code.text(close + 1) == "(")?;
    let at = close + 2 + usize::from(code.text(close + 2) == "&");
    let last = objects.path_end(at);
    let inside = last > at && last < end && matches!(code.text(last + 1), "+" | "[");
    if !inside || !objects.names_type(i + 1, close) {
        return None;
    }
    let whole = |&(_, (from, _)): &(usize, (usize, usize))| {
        let taken = from + usize::from(code.text(from) == "&");
        let own = objects.path_end(taken);
        own > taken && code.text(own) == code.text(last)
    };
    let call = transfers(objects).find(whole)?;
    Some(format!("it lies in {}, which {}() takes", code.text(last), code.text(call.0)))
}

/// Calls that move bytes out of the process or into it, and the argument that points to these.
fn transfers<'o>(objects: &'o Objects<'_, '_>) -> impl Iterator<Item = (usize, (usize, usize))> + 'o {
    let calls = TRANSFERS.iter().flat_map(|t| objects.code.places(t).iter().copied());
    calls.filter_map(|i| Some((i, buffer(objects, i)?)))
}

#[cfg(test)]
mod tests {
    use crate::patch::uses::{Ask, check};

    fn found(code: &str) -> String {
        let text =
            format!("struct s {{ int a; int b; }};\nstruct out {{ int used; char room[64]; }};\n{code}\n");
        check("s", None, Ask::LAYOUT, &[("x.c", &text)]).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn tables_of_addresses_and_sizes() {
        let table = "static struct s x;\nstruct region { void *at; unsigned long bytes; };\n\
            static struct region all[] = { { &x, sizeof x }, { &n, sizeof n } };\n";
        assert!(
            found(&format!("{table}void f(int i) {{ fwrite(all[i].at, all[i].bytes, 1, o); }}"))
                .contains("that all tells")
        );
        let walked = "void f(struct region *r) { write(1, r->at, r->bytes); }";
        assert!(found(&format!("{table}{walked}")).contains("write()"));
        assert_eq!(found(&format!("{table}void f(int i) {{ memset(all[i].at, 0, all[i].bytes); }}")), "");
        let written = format!("{table}void f(struct buf *b) {{ write(1, b->at, b->bytes); }}");
        assert!(!found(&written).contains("that all tells"));
    }

    #[test]
    fn buffers_that_hold_it() {
        let put = "void put(struct out *o, struct s v) { *(struct s *)(o->room + o->used) = v; }\n";
        assert!(
            found(&format!("{put}void f(struct out *o) {{ write(1, o->room, o->used); }}"))
                .contains("lies in room")
        );
        assert_eq!(found(&format!("{put}void f(struct out *o) {{ write(1, o->text, o->used); }}")), "");
        assert_eq!(found(put), "");
    }

    #[test]
    fn system_calls_and_functions_that_map_files() {
        let own = "struct s *p = get(); long n = sizeof *p;";
        assert!(
            found(&format!("void f(void) {{ {own} syscall(SYS_write, 1, p, n); }}")).contains("system call")
        );
        assert_eq!(
            found(&format!("void f(void) {{ {own} syscall(SYS_futex, &p->a, 1); syscall(SYS_gettid); }}")),
            ""
        );
        let map = |flags: &str| {
            format!(
                "static void *map(int fd, long n) {{ void *m = mmap(0, n, 3, {flags}, fd, 0); return m; }}\n\
                void f(int fd) {{ struct s *p = map(fd, sizeof *p); p->a = 1; }}"
            )
        };
        assert!(found(&map("MAP_SHARED")).contains("map() maps it"));
        assert_eq!(found(&map("MAP_PRIVATE | MAP_ANONYMOUS")), "");
    }
}
