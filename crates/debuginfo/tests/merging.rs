//! Types of several units that print alike and are not.

mod common;

use std::collections::BTreeSet;

use common::*;
use tussle_model::leaf::Arrays;
use tussle_model::{Leaf, Type, TypeId, TypeTable, leaves};
use tussle_testkit::need;

/// Same source position in both units, other contents of what is held by value or behind pointers.
const UNIT: &str = r#"# 1 "common.h"
#ifdef ONE
# 2 "common.h"
struct elem { int flag; }; typedef struct { int left; } half; enum mode { SLOW };
#else
# 2 "common.h"
struct elem { int hits; }; typedef struct { int right; } half; enum mode { FAST };
#endif
# 10 "common.h"
struct in { struct elem e; int n; };
struct deep { struct in in[2]; };
struct halves { half h; const half c; half *far; };
struct modes { enum mode m; };
union either { struct elem e; int raw; };
# 20 "unit.c"
"#;

/// Every definition of every named type with its leaf fields and what their types are called.
fn definitions(table: &TypeTable) -> BTreeSet<String> {
    let spell = |id| {
        let field = |l: &Leaf| format!("{}@{} {}", l.path, l.offset, spelled(table, l.ty));
        let fields: Vec<String> = leaves(table, id, Arrays::Whole).iter().map(field).collect();
        format!("{}: {}", table.name(id), fields.join(", "))
    };
    table.aggregates().filter(|(_, a)| a.name.is_some()).map(|(id, _)| spell(id)).collect()
}

/// The name of a type; of an enumeration also its values.
fn spelled(table: &TypeTable, id: TypeId) -> String {
    match table.get(table.strip(id)) {
        Type::Enum(e) => format!("{} {:?}", table.name(id), e.values),
        _ => table.name(id),
    }
}

/// The definitions of both units together are those of the linked program.
fn check(one: &str, two: &str, flags: &str) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("one.c"), one).unwrap();
    std::fs::write(dir.path().join("two.c"), two).unwrap();
    if attempt(dir.path(), &format!("gcc {flags} -c one.c two.c")).is_none() {
        return;
    }
    run(dir.path(), "gcc -nostdlib -r -o both.o one.o two.o");
    let read = |name: &str| definitions(&read(&dir.path().join(name)));
    let (one, two) = (read("one.o"), read("two.o"));
    assert_ne!(one, two);
    assert_eq!(read("both.o"), one.union(&two).cloned().collect(), "{flags}");
}

#[test]
fn members_by_value_are_compared_by_content() {
    let user = |name: &str| {
        format!(
            "int {name}(struct in *a, struct deep *b, struct halves *c, struct modes *d, union either *e) {{\n\
             return !a + !b + !c + !d + !e; }}\n"
        )
    };
    let (one, two) = (format!("#define ONE\n{UNIT}{}", user("one")), format!("{UNIT}{}", user("two")));
    for flags in ["-g", "-gdwarf-4", "-g -O2"] {
        check(&one, &two, flags);
    }
}

#[test]
fn pointers_are_compared_by_what_they_point_to() {
    let unit = |target: &str, row: &str, arg: &str| {
        format!(
            "# 1 \"common.h\"\nstruct far {{ {target} ******p; }}; struct rows {{ int (*r)[{row}]; }};\n\
             struct calls {{ int (*f)({arg}); struct {{ {target} *****q; }} in; }};\n\
             # 20 \"unit.c\"\n{target} use(struct far *a, struct rows *b, struct calls *c) {{ return !a + !b + !c; }}\n"
        )
    };
    let (one, two) = (unit("int", "4", "int"), unit("char", "8", "char *").replace("use", "used"));
    check(&one, &two, "-g");
    check(&one, &two, "-gdwarf-4 -fdebug-types-section");
}

#[test]
fn constants_above_64_bits_tell_enumerations_apart() {
    let unit = |bit: u32, name: &str| {
        format!(
            "# 1 \"common.h\"\nenum wide : unsigned __int128 {{ LOW = 5, HIGH = (unsigned __int128)3 << {bit} }};\n\
             struct holder {{ wide w; }};\n# 20 \"unit.c\"\nholder {name};\n"
        )
    };
    for compiler in ["g++", "clang++"].into_iter().filter(|c| need(c)) {
        for flags in ["-gdwarf-5", "-gdwarf-4"] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("one.cc"), unit(70, "one")).unwrap();
            std::fs::write(dir.path().join("two.cc"), unit(71, "two")).unwrap();
            run(dir.path(), &format!("{compiler} {flags} -c one.cc two.cc"));
            run(dir.path(), &format!("{compiler} -nostdlib -r -o both.o one.o two.o"));
            let table = read(&dir.path().join("both.o"));
            let values = |id: TypeId| match table.get(table.strip(table.aggregate(id).unwrap().members[0].ty))
            {
                Type::Enum(e) => e.values.iter().map(|v| v.wide()).collect::<Vec<_>>(),
                other => panic!("{other:?}"),
            };
            let holders = table.aggregates().filter(|(_, a)| a.name.as_deref() == Some("holder"));
            let found: BTreeSet<Vec<i128>> = holders.map(|(id, _)| values(id)).collect();
            let want = [70, 71].map(|bit| vec![5, 3i128 << bit]);
            assert_eq!(found, BTreeSet::from(want), "{compiler} {flags}");
        }
    }
}
