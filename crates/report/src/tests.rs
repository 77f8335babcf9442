use super::*;
use insta::assert_snapshot;
use tussle_evidence::sample::Sample;
use tussle_render::{Format, Style, render};

fn plain(e: &Evidence, names: &[&str]) -> (String, bool) {
    let options = Options { names: names.iter().map(|n| n.to_string()).collect(), ..Options::default() };
    let r = report(e, &[], &options);
    (render(&r.view, Format::Text, Style { colour: false, width: Some(100) }), r.outcome.helps)
}

#[test]
fn two_counters_in_one_line() {
    let (text, finding) = plain(&Sample::two_counters().evidence(), &[]);
    assert!(finding);
    assert_snapshot!(text, @r"
    1 case that a layout helps; 1 line touched, 0 shared without harm.

    worst     `struct stats.hits` and `struct stats.misses` share a 64-byte line: 50,000 expected
              invalidations and copies lost, the best layout removes 100%
    next      tussle advise
    command   ./server --threads 2
    recorded  100,000 accesses by 3 threads
    lasted    1.25 s
    machine   Example CPU, 2 CPUs used, x86_64
    numbers   E: stores that find the line with another thread, expected from each thread's share of the
              accesses; recorded by tussle, not measured. Windows of 1,000 accesses, 64-byte lines.

    #       E  E even  transfers  removable  class         lines  threads       fields
    1  50,000  50,000     50,000       100%  layout helps      1  2 × worker()  struct stats.hits ⟷
                                                                                struct stats.misses
    (left out, the screen is narrow: of accesses)

    #1  struct stats.hits ⟷ struct stats.misses
      class       a layout helps: move the fields apart: `tussle advise` says how, or why not
      E           50,000 expected invalidations, 50% of 100,000 accesses
      even split  50,000: the same, the threads did equal shares
      transfers   50,000: 50,000 stores that find the line elsewhere, 0 copies lost; with every byte
                  range on a line of its own 0
      sharing     100% false (no byte in common)
      threads     2 × worker()
      object      struct stats, 16 bytes
      type        90% certain: sizeof at the allocation
      from        malloc in make_stats (server.c:12)
      phase       0 (0x0) in its line; alignment of 16 bytes allows 4 phases
      lines       64 bytes, 128 (Apple, POWER, pairs of lines on x86), 256 (s390): a layout helps,
                  50,000 transfers

      struct stats in 64-byte lines: offsets of the object on the left
         byte  0       8       16      24      32      40      48      56
            0  aaaaaaaabbbbbbbb
      a hits (worker() T1)  b misses (worker() T2)

      field                 offset  threads      reads  writes  atomics
      struct stats.hits    0 (0x0)  worker() T1      ·  50,000        ·
      struct stats.misses  8 (0x8)  worker() T2      ·  50,000        ·

           E  share  stores to            take the line from users of  bytes
      25,000    50%  struct stats.hits    struct stats.misses          other
      25,000    50%  struct stats.misses  struct stats.hits            other

              field                code         function ← callers   samples
      writes  struct stats.hits    server.c:21  count_hit ← worker         1
      writes  struct stats.misses  server.c:25  count_miss ← worker        1

    error: `struct stats.hits` and `struct stats.misses` share a 64-byte line: 50,000 expected
      invalidations and copies lost, the best layout removes 100% [false-sharing] (server.h:2)
    ");
}

/// Per-worker elements (false), one counter for all (true), a channel that the allocator's luck keeps apart (latent),
/// and a lock beside a counter of another thread (mostly false).
fn server() -> Sample {
    let mut s = Sample::new(1000);
    let main = s.thread("tallyd", None);
    let start = s.code("worker_main", "worker.c", 70, &[]);
    let top = s.code("main", "main.c", 90, &[]);
    let create = s.code("server_create", "main.c", 41, &[top]);
    let count = s.code("count", "worker.c", 31, &[start]);
    let poll = s.code("dispatch", "main.c", 60, &[top]);
    let long = s.long();
    let stats =
        s.structure("worker_stats", 24, &[("requests", long, 0), ("weight", long, 8), ("misses", long, 16)]);
    let totals =
        s.structure("server_stats", 64, &[("polls", long, 0), ("audit_lock", long, 8), ("build", long, 24)]);
    let channel = s.structure("channel", 64, &[("sent", long, 0), ("received", long, 56)]);
    let array = s.heap(0x1010, 96, Some(stats), 4, 16, Some(create));
    let one = s.heap(0x2000, 64, Some(totals), 1, 16, Some(create));
    let pipe = s.heap(0x3020, 64, Some(channel), 1, 16, Some(create));
    let answer = s.global("answer_number", 0x4000, 8, Some(long), 64);
    let vt = (0, 100_000);
    for i in 0..4 {
        let w = s.worker(main, start);
        s.access(array, 24 * i, 8, w, vt, [0, 20_000, 0]);
        s.access(array, 24 * i + 8, 8, w, vt, [0, 20_000, 0]);
        s.access(one, 8, 8, w, vt, [100, 50, 100]);
        s.access(answer, 0, 8, w, vt, [0, 0, 10_000]);
        s.touch(array, 24 * i, 8, count, w, TouchKind::Write);
        if i == 0 {
            s.access(pipe, 56, 8, w, vt, [0, 5000, 0]);
        }
    }
    s.access(one, 0, 8, main, vt, [0, 50_000, 0]);
    s.access(pipe, 0, 8, main, vt, [0, 5000, 0]);
    s.touch(one, 0, 8, poll, main, TouchKind::Write);
    s
}

#[test]
fn a_server_with_one_case_of_each_kind() {
    let (text, finding) = plain(&server().evidence(), &[]);
    assert!(finding);
    assert_snapshot!("server", text);
}

/// Two variables side by side that the linker put on two lines, each stored to by a thread.
fn neighbours() -> Sample {
    let mut s = Sample::new(65_536);
    let main = s.thread("server", None);
    let long = s.long();
    for (name, base) in [("hits", 0x4038), ("misses", 0x4040)] {
        let (variable, thread) = (s.global(name, base, 8, Some(long), 8), s.thread(name, Some(main)));
        s.access(variable, 0, 8, thread, (0, 60_000), [0, 50_000, 0]);
    }
    s
}

#[test]
fn what_luck_hides_here_is_told_first() {
    let (text, finding) = plain(&neighbours().evidence(), &[]);
    assert!(finding);
    assert!(text.starts_with("1 case hidden here by luck that a layout helps"), "{text}");
    assert!(text.contains("where the linker puts them on one line (7 of 8 places)"), "{text}");
}

/// The JSON of a report is what the published schema says.
fn check_schema(view: &View, schema: &str) {
    let text = render(view, Format::Json, Style::default());
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    assert_eq!(tussle_render::schema::violations(&schema, &document), [""; 0], "{text}");
}

#[test]
fn json_follows_the_published_schema() {
    let schema = include_str!("../schema/report.json");
    let mut lossy = server();
    let loss = Loss { process: Some(0), what: "pieces merged".into(), count: 3, note: "E within 2%".into() };
    lossy.tables().losses.push(loss);
    lossy.tables().run.duration_s = None;
    let problems = [Problem { table: "code".into(), line: 3, offset: 99, message: "row dropped".into() }];
    let all = [Sample::new(1), Sample::two_counters(), server(), lossy, neighbours()].map(Sample::evidence);
    for e in all {
        check_schema(&report(&e, &problems, &Options::default()).view, schema);
        let comparison = include_str!("../schema/report_comparison.json");
        let other = Sample::two_counters().evidence();
        check_schema(&compare(&e, &other, [&[], &[]], &Options::default()).view, comparison);
    }
}

/// What is not asked for is not called harmless.
#[test]
fn a_filter_makes_no_other_line_harmless() {
    let e = server().evidence();
    let harmless = |names: &[&str]| {
        let text = plain(&e, names).0.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = text.split(" shared without harm").next().unwrap();
        words.rsplit(' ').next().unwrap().to_string()
    };
    assert_eq!(harmless(&["worker_stats"]), harmless(&[]));
}

#[test]
fn names_filter_by_type_and_variable() {
    let e = server().evidence();
    let titles = |names: &[&str]| {
        let options = Options { names: names.iter().map(|n| n.to_string()).collect(), ..Options::default() };
        let r = report(&e, &[], &options);
        let json: serde_json::Value =
            serde_json::from_str(&render(&r.view, Format::Json, Style::default())).unwrap();
        let lines = json["lines"].as_array().unwrap().clone();
        (lines.iter().map(|l| l["fields"].as_str().unwrap().to_string()).collect::<Vec<_>>(), r.outcome.helps)
    };
    assert_eq!(titles(&["answer_number"]), (vec!["answer_number".to_string()], false));
    assert_eq!(titles(&["server_stats"]).0.len(), 1);
    assert_eq!(titles(&["struct server_stats", "worker_stats"]).0.len(), 2);
    assert_eq!(titles(&["channel"]), (vec![], true), "malloc decides anew in every run");
    assert!(is_known(&e, "struct channel") && !is_known(&e, "chanel"));
}

#[test]
fn two_runs_side_by_side() {
    let old = server().evidence();
    let mut fixed = server();
    // Elements one line apart, the dispatcher's counter on its own line.
    let e = fixed.tables();
    for o in 0..4u64 {
        for a in e.accesses.iter_mut().filter(|a| a.object == 0 && a.offset / 24 == o && a.size == 8) {
            a.object = 4;
            a.offset = o * 64 + a.offset % 24;
        }
    }
    let mut padded = e.objects[0].clone();
    (padded.base, padded.size) = (0x8000, 256);
    e.objects.push(padded);
    let r = compare(&old, &fixed.evidence(), [&[], &[]], &Options::default());
    assert!(r.outcome.helps);
    assert_snapshot!(render(&r.view, Format::Text, Style::default()), @r#"
    old  ./server --threads 2
    new  ./server --threads 2

     E old   E new  change  E even old  E even new  fields
    80,000    none  gone        80,000        none  struct worker_stats[].requests ⟷ struct worker_stats[].weight
    30,000  30,000  same        30,000      30,000  answer_number
     1,577   1,577  same         1,577       1,577  struct server_stats.audit_lock ⟷ struct server_stats.polls
    "#);
}

/// A case has the name in a comparison that it has in the report of its run.
#[test]
fn names_are_the_same_alone_and_side_by_side() {
    let mut s = server();
    let long = s.long();
    let account = s.structure("account", 16, &[("paid_in", long, 0), ("paid_out", long, 8)]);
    let accounts = s.heap(0x9000, 64, Some(account), 4, 64, None);
    // Two fields are used, but of different elements it is the same one that is fought for.
    for i in 0..4 {
        s.access(accounts, 16 * i, 8, 1 + i as u32, (0, 100_000), [0, 50_000, 0]);
        s.access(accounts, 16 * i + 8, 8, 1 + i as u32, (0, 100_000), [0, 5_000, 0]);
    }
    let e = s.evidence();
    let rows = |r: &Report| -> Vec<String> {
        let json: serde_json::Value =
            serde_json::from_str(&render(&r.view, Format::Json, Style::default())).unwrap_or_default();
        let fields = json["lines"].as_array().into_iter().flatten().filter_map(|l| l["fields"].as_str());
        fields.map(String::from).collect()
    };
    let alone = rows(&report(&e, &[], &Options::default()));
    let both = rows(&compare(&e, &e, [&[], &[]], &Options::default()));
    assert!(alone.len() >= 3 && alone.iter().all(|name| both.contains(name)), "{alone:?}\n{both:?}");
}

#[test]
fn nothing_shared_is_said_in_one_line() {
    let (text, finding) = plain(&Sample::new(1).evidence(), &[]);
    assert!(!finding);
    assert_snapshot!(text, @r"
    Cannot say: nothing was recorded: code that was not built by `tussle cc` is not seen, a static
    library for instance; 0 lines touched, 0 shared without harm.

    command   ./server --threads 2
    recorded  0 accesses by 0 threads
    lasted    1.25 s
    machine   Example CPU, 2 CPUs used, x86_64
    numbers   E: stores that find the line with another thread, expected from each thread's share of the
              accesses; recorded by tussle, not measured. Windows of 1 access, 64-byte lines.
    ");
}

/// What was not read of a damaged evidence is not gone.
#[test]
fn what_damage_hides_is_unknown() {
    let old = server().evidence();
    let empty = Sample::new(1).evidence();
    let damage = [Problem { table: "accesses".into(), line: 0, offset: 0, message: "absent".into() }];
    let text = |r: &Report| render(&r.view, Format::Text, Style::default());
    let r = compare(&old, &empty, [&[], &damage], &Options::default());
    assert!(!text(&r).contains("gone") && text(&r).contains("unknown"), "{}", text(&r));
    assert!(r.outcome.blind.is_some() && text(&r).starts_with("The new evidence is damaged"), "{}", text(&r));
    let r = compare(&empty, &old, [&damage, &[]], &Options::default());
    assert!(
        text(&r).contains("The old evidence is damaged") && !text(&r).contains("  new  "),
        "{}",
        text(&r)
    );
    assert_eq!((r.outcome.helps, r.outcome.blind), (true, None));
}

/// Two recordings of different inputs or compilers are not put side by side without a word.
#[test]
fn comparisons_say_what_was_not_the_same() {
    let of = |input: Option<&str>, compiler: &str| {
        let mut s = server();
        let run = &mut s.tables().run;
        (run.input_hash, run.compiler) = (input.map(str::to_string), Some(compiler.into()));
        s.evidence()
    };
    let text = |a: &Evidence, b: &Evidence| {
        render(&compare(a, b, [&[], &[]], &Options::default()).view, Format::Text, Style::default())
    };
    let old = of(Some("crc32:1"), "GCC: 12.2.0");
    assert!(text(&old, &of(Some("crc32:2"), "GCC: 12.2.0")).contains("The inputs differ"));
    assert!(
        text(&old, &of(Some("crc32:1"), "clang 14"))
            .contains("different compilers (GCC: 12.2.0 and clang 14)")
    );
    for same in [of(Some("crc32:1"), "GCC: 12.2.0"), of(None, "GCC: 12.2.0")] {
        assert!(!text(&old, &same).contains("iffer"));
    }
}

/// Kernels and running programs: their worst lines are drawn, too, as in every other report.
#[test]
fn lines_of_every_source_are_drawn() {
    let mut e = Sample::two_counters().evidence();
    let transfer = |offset, actor| Transfer {
        object: 0,
        offset,
        size: 8,
        code: None,
        actor: Some(actor),
        kind: TouchKind::Write,
        transfers: 900,
        dirty: 400,
        schedule: None,
    };
    e.transfers = Some(vec![transfer(0, 1), transfer(8, 2)]);
    for report in [kernel::report(&e, &[], &Options::default()), live::report(&e, &[], &Options::default())] {
        let text = render(&report.view, Format::Text, Style { colour: false, width: Some(100) });
        let drawn = text.contains("struct stats in 64-byte lines") && text.contains("aaaaaaaabbbbbbbb");
        assert!(drawn, "{text}");
    }
}

/// Loads that the processor followed tell what a clock cannot; the two are never taken for each other.
#[test]
fn precise_samples_have_their_own_unit_and_words() {
    let mut e = Sample::two_counters().evidence();
    e.run.unit = Unit::PreciseSamples;
    let row = |offset, actor, hitm| Sampled {
        offset,
        size: 8,
        actor: Some(actor),
        records: 500,
        loads: Some(400),
        hitm_local: Some(hitm),
        hitm_remote: Some(0),
        latency_cycles: Some(hitm * 250),
        ..Sampled::default()
    };
    e.samples = Some(vec![row(0, 1, 120), row(8, 2, 80)]);
    let text = |e: &Evidence| plain(e, &[]).0;
    let precise = text(&e);
    for wanted in ["samples of precise loads and stores", "HITM", "200 of 800 loads, 250 cycles each"] {
        assert!(precise.contains(wanted), "{wanted}: {precise}");
    }
    assert!(!precise.contains("clock"), "{precise}");
    let mut clock = e.clone();
    clock.run.unit = Unit::ClockSamples;
    let words = text(&clock);
    assert!(
        words.contains("clock samples") && !words.contains("HITM") && !words.contains("precise"),
        "{words}"
    );
    let both = compare(&clock, &e, [&[], &[]], &Options::default());
    let both = render(&both.view, Format::Text, Style { colour: false, width: None });
    assert!(both.contains("cannot be compared"), "{both}");
}

/// Who fills a whole object once owns none of its fields in the drawing.
#[test]
fn a_memset_hides_no_field() {
    let mut s = Sample::two_counters();
    s.access(0, 0, 16, 0, (0, 100_000), [0, 1, 0]);
    s.access(0, 12, 4, 2, (0, 100_000), [7, 0, 0]);
    let (text, _) = plain(&s.evidence(), &[]);
    assert!(text.contains("aaaaaaaabbbbbbbb\n"), "{text}");
    assert!(text.contains("a hits (worker() T1)  b misses (worker() T2)\n"), "{text}");
}

/// A type's name is a stranger's word: a command that holds it is one command wherever it is pasted.
#[test]
fn commands_with_hostile_names_stay_one_command() {
    let name = "s'; touch pwned; echo 'x";
    let mut s = Sample::new(1000);
    let main = s.thread("srv", None);
    let start = s.code("worker", "w.c", 3, &[]);
    let long = s.long();
    let ty = s.structure(name, 16, &[("in", long, 0), ("out", long, 8)]);
    let o = s.heap(0x1000, 16, Some(ty), 1, 16, Some(start));
    for i in 0..2 {
        let w = s.worker(main, start);
        s.access(o, 8 * i, 8, w, (0, 100_000), [0, 50_000, 0]);
    }
    let e = s.evidence();
    let one = format!("-C {}", shell::quoted(&format!("struct {name}")));
    let asked = Options { names: vec![name.into()], ..Options::default() };
    let view = report(&e, &[], &asked).view;
    let text = render(&view, Format::Text, Style { colour: false, width: None });
    let next = text.lines().find(|l| l.contains("tussle advise -C")).unwrap();
    assert!(next.ends_with(&one), "{next}");
    let md = render(&view, Format::Markdown, Style::default());
    assert!(md.contains(&one) || md.contains(&one.replace('\\', r"\\")), "{md}");
    let advice = tussle_advise::advise(&e, &format!("struct {name}"), &Default::default()).unwrap();
    let text = render(&advice::view(&advice), Format::Text, Style { colour: false, width: None });
    let patch = text.lines().find(|l| l.starts_with("Patch: ")).unwrap();
    assert!(patch.starts_with(&format!("Patch: tussle fix {one} --move '")), "{patch}");
    // Nobody patches what came with the compiler.
    let file = "/rustc/0123/library/core/src/cell.rs".to_string();
    let decl = Some(tussle_model::SourceLoc { file, line: 9 });
    let text = render(
        &advice::view(&tussle_advise::advice::Report { decl, ..advice }),
        Format::Text,
        Style { colour: false, width: None },
    );
    assert!(!text.contains("tussle fix") && text.contains("is a library's"), "{text}");
}

/// A struct of a library holds the program's, or one of its own with what the program put in: a finding points at the
/// program's line, or nowhere.
#[test]
fn findings_point_into_the_programs_own_sources() {
    let finding = |inner: &str, code: &str| {
        let mut s = Sample::new(1000);
        let main = s.thread("srv", None);
        let start = s.code("work", code, 7, &[]);
        let long = s.long();
        let own = s.structure("pair<long, long>", 16, &[("first", long, 0), ("second", long, 8)]);
        let shared = s.structure("shared<pair<long, long>>", 32, &[("count", long, 0), ("data", own, 16)]);
        let o = s.heap(0x1000, 32, Some(shared), 1, 32, Some(start));
        for i in 0..2 {
            let w = s.worker(main, start);
            s.access(o, 16 + 8 * i, 8, w, (0, 100_000), [0, 50_000, 0]);
            s.touch(o, 16 + 8 * i, 8, start, w, TouchKind::Write);
        }
        let mut e = s.evidence();
        let mut file = |name: &str, to: &str| {
            let id = e.types.aggregates().find(|(_, a)| a.name.as_deref() == Some(name)).unwrap().0;
            let mut aggregate = e.types.aggregate(id).unwrap().clone();
            aggregate.decl.as_mut().unwrap().file = to.into();
            aggregate.language = tussle_model::types::Language::Cpp;
            e.types.set(id, tussle_model::Type::Aggregate(aggregate));
        };
        file("shared<pair<long, long>>", "/rustc/abc/library/alloc/src/sync.rs");
        file("pair<long, long>", inner);
        let view = report(&e, &[], &Options::default()).view;
        let f = tussle_render::findings(&view).into_iter().next()?;
        f.file.clone().map(|file| (file, f.line.unwrap()))
    };
    const LIBRARY: &str = "/rustc/abc/library/core/src/x.rs";
    assert_eq!(finding("src/m.rs", "src/main.rs"), Some(("src/m.rs".into(), 2)));
    assert_eq!(finding(LIBRARY, "src/main.rs"), Some(("src/main.rs".into(), 7)));
    assert_eq!(finding(LIBRARY, LIBRARY), None);
}

/// Where an object begins elsewhere, other bytes of it come onto the line: the drawing has them, with who uses them.
#[test]
fn bytes_that_move_onto_a_line_are_there() {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let start = s.code("worker", "w.c", 3, &[]);
    let (one, two) = (s.worker(main, start), s.worker(main, start));
    let long = s.long();
    let members =
        [("quiet", long, 0), ("head", long, 56), ("a", long, 64), ("b", long, 72), ("tail", long, 136)];
    let ty = s.structure("wide", 256, &members);
    let o = s.heap(0x1000, 256, Some(ty), 1, 16, Some(start));
    for (offset, actor) in [(64, one), (72, two), (56, two), (136, one)] {
        s.access(o, offset, 8, actor, (0, 100_000), [0, 50_000, 0]);
    }
    let e = s.evidence();
    let json: serde_json::Value = serde_json::from_str(&render(
        &report(&e, &[], &Options::default()).view,
        Format::Json,
        Style::default(),
    ))
    .unwrap_or_default();
    let drawn = &json["layout_helps"][0]["bytes"];
    let beyond = drawn["beyond"].as_array().cloned().unwrap_or_default();
    let place = |s: &serde_json::Value| Some((s["offset_bytes"].as_i64()?, s["size_bytes"].as_i64()?));
    let mut covered: Vec<i64> =
        beyond.iter().filter_map(place).flat_map(|(at, size)| at..at + size).collect();
    covered.sort_unstable();
    assert_eq!(
        covered,
        (1..64).chain(128..191).collect::<Vec<_>>(),
        "a line less a byte on either side: {drawn:#}"
    );
    let used = |name: &str| {
        let s = beyond.iter().find(|s| s["short"] == name)?;
        let thread = s["uses"][0]["thread"].as_u64()? as usize;
        Some((drawn["threads"][thread].as_str()?.to_string(), s["uses"][0]["writes"].as_u64()?))
    };
    assert_eq!(used("tail"), Some(("worker() T1".into(), 50_000)), "{drawn:#}");
    assert_eq!(used("head"), Some(("worker() T2".into(), 50_000)), "{drawn:#}");
    assert_eq!(used("quiet"), None);
}
