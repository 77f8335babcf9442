use super::*;
use insta::assert_snapshot;

fn view() -> View {
    let facts = vec![
        Fact { key: "command".into(), label: "command".into(), cell: Cell::text("./a <b> | c") },
        Fact { key: "e".into(), label: "invalidations".into(), cell: Cell::count(1_234_567).tone(Tone::Bad) },
        Fact { key: "phase_bytes".into(), label: "phase".into(), cell: Cell::unknown() },
    ];
    let table = Node::Table {
        key: "fields".into(),
        columns: vec![Column::text("field", "field"), Column::number("writes", "writes")],
        rows: vec![
            vec![Cell::text("struct stats.hits").tone(Tone::Name), Cell::count(50_000)],
            vec![Cell::text("x"), Cell::count(7)],
        ],
    };
    let finding = Finding {
        rule: "false-sharing".into(),
        level: Level::Error,
        message: "`hits` and `misses`: 100% false".into(),
        file: Some("src/a b.c".into()),
        line: Some(7),
        ..Finding::default()
    };
    let section = Node::Section {
        key: "line".into(),
        title: "Line 1".into(),
        nodes: vec![
            table,
            Node::Text(vec![
                Span::plain("Both are written by "),
                Span { text: "two".into(), tone: Tone::Strong },
            ]),
            Node::Finding(finding),
            Node::Block { key: "patch".into(), language: "diff", text: "-a\n+b```\n".into() },
        ],
    };
    let data = Node::Data { key: "raw".into(), value: serde_json::json!({"x": [1, 2]}) };
    View { kind: "report", schema_version: 1, nodes: vec![Node::Facts(facts), section, data] }
}

#[test]
fn elements_written_before_read_as_values_do() {
    let all = serde_json::json!([{"name": "a", "list": [{"x": 1}, {"x": [2, 3]}]}, {"empty": []}]);
    let view = |node| View { kind: "layout", schema_version: 1, nodes: vec![node] };
    let items = all.as_array().unwrap().iter().map(crate::laid_out).collect();
    let written = view(Node::Written { key: "types".into(), items });
    let data = view(Node::Data { key: "types".into(), value: all });
    assert_eq!(render(&written, Format::Json, plain()), render(&data, Format::Json, plain()));
    let none = view(Node::Written { key: "types".into(), items: Vec::new() });
    let empty = view(Node::Data { key: "types".into(), value: serde_json::json!([]) });
    assert_eq!(render(&none, Format::Json, plain()), render(&empty, Format::Json, plain()));
}

fn plain() -> Style {
    Style { colour: false, width: None }
}

/// Letters of one thread have its colour, in the drawing and in the legend; those of several are red.
#[test]
fn bytes_have_the_colours_of_their_threads() {
    let stretch = |start, threads: &[usize]| {
        let uses = threads.iter().map(|&thread| Use { thread, reads: 1, writes: 1 }).collect();
        Stretch { start, size: 8, short: "f".into(), uses, ..Stretch::default() }
    };
    let drawn = Bytes {
        title: "s".into(),
        line_bytes: 64,
        threads: vec!["t1".into(), "t2".into()],
        stretches: vec![stretch(0, &[0]), stretch(8, &[1]), stretch(16, &[0, 1])],
        ..Bytes::default()
    };
    let view = View { kind: "report", schema_version: 1, nodes: vec![Node::Bytes(Box::new(drawn))] };
    let text = render(&view, Format::Text, Style { colour: true, ..Style::default() });
    for (code, letters) in [("36", "aaaaaaaa"), ("33", "bbbbbbbb"), ("31", "cccccccc"), ("36", "a f (t1)")] {
        assert!(text.contains(&format!("\u{1b}[{code}m{letters}\u{1b}[0m")), "{letters}: {text:?}");
    }
}

#[test]
fn text() {
    assert_snapshot!(render(&view(), Format::Text, plain()), @r#"
    command        ./a <b> | c
    invalidations  1,234,567
    phase          unknown

    Line 1
      field              writes
      struct stats.hits  50,000
      x                       7

      Both are written by two

      error: `hits` and `misses`: 100% false [false-sharing] (src/a b.c:7)

    -a
    +b```
    "#);
}

#[test]
fn json() {
    let text = render(&view(), Format::Json, plain());
    let back: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(back["line"]["fields"][0]["writes"], 50_000);
    assert_eq!(back["phase_bytes"], serde_json::Value::Null);
    assert_eq!(back["line"]["findings"][0]["line"], 7);
    assert_snapshot!(text, @r#"
    {
      "kind": "report",
      "schema_version": 1,
      "command": "./a <b> | c",
      "e": 1234567,
      "phase_bytes": null,
      "line": {
        "fields": [
          {"field": "struct stats.hits", "writes": 50000},
          {"field": "x", "writes": 7}
        ],
        "patch": "-a\n+b```\n",
        "findings": [
          {
            "rule": "false-sharing",
            "level": "error",
            "message": "`hits` and `misses`: 100% false",
            "file": "src/a b.c",
            "line": 7
          }
        ]
      },
      "raw": {
        "x": [1, 2]
      }
    }
    "#);
}

#[test]
fn markdown() {
    assert_snapshot!(render(&view(), Format::Markdown, plain()), @r#"
    - command: ./a \<b\> \| c
    - invalidations: **1,234,567**
    - phase: unknown

    ## Line 1

    | field | writes |
    | --- | ---: |
    | `struct stats.hits` | 50,000 |
    | x | 7 |

    Both are written by **two**

    - **error**: \`hits\` and \`misses\`: 100% false (`false-sharing`), `src/a b.c:7`

    ````diff
    -a
    +b```
    ````
    "#);
}

#[test]
fn sarif() {
    assert_snapshot!(render(&view(), Format::Sarif, plain()), @r#"
    {
      "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
      "version": "2.1.0",
      "runs": [
        {
          "tool": {
            "driver": {
              "name": "tussle",
              "version": "0.1.0",
              "rules": [
                {"id": "false-sharing"}
              ]
            }
          },
          "results": [
            {
              "ruleId": "false-sharing",
              "level": "error",
              "message": {"text": "`hits` and `misses`: 100% false"},
              "locations": [
                {
                  "physicalLocation": {
                    "artifactLocation": {"uri": "src/a%20b.c"},
                    "region": {"startLine": 7}
                  }
                }
              ]
            }
          ]
        }
      ]
    }
    "#);
}

#[test]
fn github() {
    let want = "::error file=src/a b.c,line=7,title=false-sharing::`hits` and `misses`: 100%25 false\n";
    assert_eq!(render(&view(), Format::Github, plain()), want);
}

#[test]
fn html_escapes_and_refers_to_nothing_outside() {
    let page = render(&view(), Format::Html, plain());
    assert!(page.contains("./a &lt;b&gt; | c"));
    assert!(!page.contains("http:") && !page.contains("https:"));
    assert_eq!(page.matches("<script").count(), 1);
}

#[test]
fn colour_only_where_allowed_and_no_escape_gets_through() {
    let coloured = render(&view(), Format::Text, Style { colour: true, width: None });
    assert!(coloured.contains("\u{1b}["));
    let mut hostile = view();
    hostile.nodes.push(Node::Text(vec![Span::plain("\u{1b}]0;owned\u{7}")]));
    hostile.nodes.push(Node::Block { key: "b".into(), language: "text", text: "\u{1b}[2J".into() });
    assert!(!render(&hostile, Format::Text, plain()).contains('\u{1b}'));
}

#[test]
fn a_patch_keeps_the_ends_of_its_lines() {
    let text = "--- a/x\n-int a;\r\n+int b;\r\n";
    let node = Node::Block { key: "patch".into(), language: "diff", text: text.into() };
    let view = View { kind: "x", schema_version: 1, nodes: vec![node] };
    assert!(render(&view, Format::Text, plain()).ends_with(text));
}

#[test]
fn narrow_terminals_wrap_text_and_never_lose_a_word() {
    let words: Vec<String> = (0..60).map(|i| format!("word{i}")).collect();
    let node = Node::Text(vec![Span::plain(words.join(" "))]);
    let view = View { kind: "x", schema_version: 1, nodes: vec![node] };
    let text = render(&view, Format::Text, Style { colour: false, width: Some(40) });
    assert!(text.lines().all(|l| l.chars().count() <= 40));
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), words);
}

fn plot() -> Plot {
    let dot = |x: f64, y: f64, half: Option<f64>, label: &str| Dot {
        x,
        y,
        interval: half.map(|h| (y - h, y + h)),
        label: label.into(),
    };
    let measured = vec![dot(1.0, 10.0, Some(1.0), "t-1"), dot(2.0, 16.0, None, "t-2 <b>")];
    let reference = vec![dot(1.0, 10.0, None, ""), dot(2.0, 20.0, None, "")];
    let curve = |name: &str, draw, points| Curve { name: name.into(), draw, points };
    Plot {
        key: "plot".into(),
        title: "rate & <i>".into(),
        x: Axis { label: "tasks".into(), ..Axis::default() },
        y: Axis { label: "ops/s".into(), from_zero: true, ..Axis::default() },
        series: vec![curve("threads", Draw::Points, measured), curve("perfect", Draw::Reference, reference)],
        marks: vec![Mark { x: 1.5, label: "+60%".into(), tone: Tone::Good }],
    }
}

fn of_plot(plot: Plot, format: Format) -> String {
    render(&View { kind: "scaling", schema_version: 1, nodes: vec![Node::Plot(plot)] }, format, plain())
}

#[test]
fn a_plot_as_characters_data_and_picture() {
    assert_snapshot!(of_plot(plot(), Format::Text), @r"
    rate & <i>
    t-1      ==========================|--o--|                 10.00
             ------------------------------------------------  +60%
    t-2 <b>  ===============================================o  16.00
    ");
    let markdown = of_plot(plot(), Format::Markdown);
    assert!(markdown.starts_with("rate & \\<i\\>\n\n```text\nt-1 "), "{markdown}");
    let json: serde_json::Value = serde_json::from_str(&of_plot(plot(), Format::Json)).unwrap();
    let point = |i: usize| json["plot"]["series"][0]["points"][i].clone();
    let expect = |low: Option<f64>, high: Option<f64>, x: f64, y: f64, label: &str| {
        let mut point = serde_json::json!({ "x": x, "y": y, "label": label });
        point["low"] = low.into();
        point["high"] = high.into();
        point
    };
    assert_eq!(point(0), expect(Some(9.0), Some(11.0), 1.0, 10.0, "t-1"));
    assert_eq!(point(1), expect(None, None, 2.0, 16.0, "t-2 <b>"));
    assert_eq!(json["plot"]["series"][1]["draw"], "reference");
    assert_eq!((&json["plot"]["y"], &json["plot"]["marks"][0]["label"]), (&"ops/s".into(), &"+60%".into()));
    let html = of_plot(plot(), Format::Html);
    for part in [
        "<figcaption>rate &amp; &lt;i&gt;</figcaption>",
        "t-2 &lt;b&gt;: 16.00</title>",
        "t-1: 10.00 (9.000 .. 11.00)</title>",
        "class=\"ln rf\"",
        "class=\"mk mg\"",
        ">+60%</text>",
        ">ops/s</text>",
        "--p1",
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    assert!(!html.contains("NaN") && html.matches("<script").count() == 1, "{html}");
    assert!(!render(&view(), Format::Html, plain()).contains("--p1"));
}

#[test]
fn a_plot_of_nothing_or_of_one_level_is_drawn_without_harm() {
    let with = |points: Vec<Dot>| {
        let mut plot = plot();
        plot.series = vec![Curve { name: "c".into(), draw: Draw::Points, points }];
        plot
    };
    let dot = |x: f64, y: f64| Dot { x, y, interval: None, label: "d".into() };
    for empty in [with(Vec::new()), with(vec![dot(f64::NAN, 1.0), dot(1.0, f64::INFINITY)])] {
        assert_eq!(of_plot(empty.clone(), Format::Text), "");
        assert!(!of_plot(empty, Format::Html).contains("<svg"));
    }
    let mut level = with(vec![dot(0.0, 5.0), dot(4.0, 5.0)]);
    level.y.from_zero = false;
    level.x.scale = Scale::Log2;
    assert_eq!(
        of_plot(level.clone(), Format::Text).lines().count(),
        2,
        "zero has no place on an axis of doublings"
    );
    let html = of_plot(level, Format::Html);
    assert!(html.contains("<svg") && !html.contains("NaN"), "{html}");
}

/// Arrows from a value to another around zero, which every picture shows.
#[test]
fn arrows_point_from_the_first_end_to_the_second() {
    let bar = |i: u32, from: f64, to: f64| Dot {
        x: f64::from(i),
        y: (from + to) / 2.0,
        interval: Some((from, to)),
        label: format!("u{i} <b>"),
    };
    let points = vec![bar(0, -4.0, 8.0), bar(1, 8.0, 2.0), bar(2, 2.0, 2.0)];
    let plot = Plot {
        key: String::new(),
        y: Axis { label: "change".into(), from_zero: true, percent: true, ..Axis::default() },
        series: vec![Curve { name: String::new(), draw: Draw::Bars, points }],
        marks: Vec::new(),
        ..plot()
    };
    assert_snapshot!(of_plot(plot.clone(), Format::Text), @r"
    rate & <i>
    u0 <b>  |===============:==============================>  -4.0% to +8.0%
    u1 <b>                  :       <======================|  +8.0% to +2.0%
    u2 <b>                  :       o                         +2.0% to +2.0%
    ");
    let html = of_plot(plot.clone(), Format::Html);
    for part in
        ["<title>u1 &lt;b&gt;: +8.0% to +2.0%</title>", "class=\"zr\"", ">5%</text>", ">change</text>"]
    {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    let heads = |sign: &str| html.matches(&format!("l{sign}9 -6v12z")).count();
    assert_eq!((heads("-"), heads("")), (2, 1), "heads at the second end: {html}");
    assert!(!html.contains("NaN") && !of_plot(plot, Format::Json).contains("series"), "no name, not in JSON");
}

/// Bars begin at zero wherever that lies.
#[test]
fn a_value_below_zero_stands_left_of_it() {
    let dot = |x: f64, y: f64| Dot { x, y, interval: Some((y - 1.0, y + 1.0)), label: format!("{x}") };
    let mut plot = plot();
    plot.y.percent = true;
    plot.series =
        vec![Curve { name: "c".into(), draw: Draw::Points, points: vec![dot(1.0, -5.0), dot(2.0, 5.0)] }];
    plot.marks.clear();
    assert_snapshot!(of_plot(plot, Format::Text), @r"
    rate & <i>
    1  |---o---|===============                          -5.0%
    2                          ===============|---o---|  +5.0%
    ");
}

/// Thousands of findings stand in the page, but are not laid out until somebody asks for them.
#[test]
fn many_findings_are_folded() {
    let finding = |i: usize| {
        Node::Finding(Finding {
            rule: "r".into(),
            level: Level::Error,
            message: format!("case {i}!"),
            file: None,
            line: None,
            help: None,
            fingerprint: None,
        })
    };
    let page = |n: usize| {
        let nodes = (0..n).map(finding).chain([Node::Text(vec![Span::plain("after")])]).collect();
        render(&View { kind: "report", schema_version: 1, nodes }, Format::Html, plain())
    };
    assert!(!page(100).contains("<details>"));
    let many = page(1250);
    let (open, rest) = many.split_once("<details><summary>1,150 more findings</summary>").unwrap();
    let (folded, after) = rest.split_once("</details>").unwrap();
    assert!(open.contains("case 99!") && !open.contains("case 100!"));
    assert!(folded.contains("case 100!") && folded.contains("case 1249!") && after.contains("after"));
}

/// A picture is never squeezed: what belongs to its row stands below it where both have no room side by side.
#[test]
fn beside_a_picture_without_room_text_goes_below() {
    let columns = vec![
        Column::number("line", "line"),
        Column::text("offset", "offset").rank(1),
        Column::picture("cells", "bytes"),
        Column::text("fields", "fields"),
    ];
    let picture = Cell::text("|aaaaaaaabbbbbbbb....|");
    let row = [Cell::count(11), Cell::text("704"), picture, Cell::text("a=tenants b=stats")];
    let table = Node::Table { key: "t".into(), columns, rows: vec![row.into()] };
    let view = View { kind: "layout", schema_version: 1, nodes: vec![table] };
    let at = |width| render(&view, Format::Text, Style { colour: false, width: Some(width) });
    assert_snapshot!(at(80), @r"
    line  offset  bytes                   fields
      11  704     |aaaaaaaabbbbbbbb....|  a=tenants b=stats
    ");
    assert_snapshot!(at(30), @r"
    line  bytes
      11  |aaaaaaaabbbbbbbb....|
        a=tenants b=stats
    (left out, the screen is
    narrow: offset)
    ");
}

#[test]
fn narrow_screens_wrap_text_first_and_then_give_up_columns_by_rank() {
    let columns = vec![
        Column::number("e", "E"),
        Column::number("even", "even split").rank(2),
        Column::text("threads", "threads").rank(1),
        Column::text("field", "field"),
    ];
    let words = ["1,234", "2,345", "4 × worker_main()", "struct server_stats.audit_lock.audits_of_all_kinds"];
    let table = Node::Table { key: "t".into(), columns, rows: vec![words.map(Cell::text).into()] };
    let view = View { kind: "report", schema_version: 1, nodes: vec![table] };
    let at = |width| render(&view, Format::Text, Style { colour: false, width: Some(width) });
    for width in [40, 60, 80, 120] {
        assert!(at(width).lines().all(|l| l.chars().count() <= width), "{width}:\n{}", at(width));
    }
    assert_snapshot!(at(120), @r"
        E  even split  threads            field
    1,234       2,345  4 × worker_main()  struct server_stats.audit_lock.audits_of_all_kinds
    ");
    assert_snapshot!(at(50), @r"
        E  threads            field
    1,234  4 × worker_main()  struct
                              server_stats.audit_lock.
                              audits_of_all_kinds
    (left out, the screen is narrow: even split)
    ");
    assert_snapshot!(at(40), @r"
        E  field
    1,234  struct
           server_stats.audit_lock.audits_
           of_all_kinds
    (left out, the screen is narrow: even
    split, threads)
    ");
}

#[test]
fn signs_become_one_ascii_character_each() {
    assert_eq!(ascii("4 × a() ⟷ b ← c · größe"), "4 x a() ~ b < c . größe");
}

#[test]
fn names_of_drawings_and_long_tables_stay_text_in_pages() {
    let evil = "</script><img src=x onerror=alert(1)>";
    let stretch = Stretch {
        size: 8,
        name: evil.into(),
        short: evil.into(),
        code: vec![evil.into()],
        ..Stretch::default()
    };
    let drawn = Bytes {
        title: evil.into(),
        line_bytes: 64,
        threads: vec![evil.into()],
        stretches: vec![stretch],
        ..Bytes::default()
    };
    let rows = vec![vec![Cell::text(evil).tone(Tone::Bad)]; 1000];
    let table = Node::Table { key: "t".into(), columns: vec![Column::text("name", evil)], rows };
    let help = Node::Help { title: evil.into(), text: evil.into() };
    let section = Node::Section {
        key: "s".into(),
        title: evil.into(),
        nodes: vec![Node::Bytes(Box::new(drawn)), table, help],
    };
    let html =
        render(&View { kind: "report", schema_version: 1, nodes: vec![section] }, Format::Html, plain());
    assert!(!html.contains("<img"), "{html}");
    // the drawing's data, the table's other rows, the page's own
    assert_eq!((html.matches("<script").count(), html.matches("</script").count()), (3, 3));
    assert!(html.contains("id=\"script-img-src-x-onerror-alert-1\""));
    let data = html.split("class=\"rest\">").nth(1).and_then(|s| s.split("</script>").next()).unwrap();
    let rest: Vec<Vec<(String, String)>> = serde_json::from_str(data).unwrap();
    assert_eq!((rest.len(), &rest[0][0]), (700, &(evil.to_string(), "b".to_string())));
}

#[test]
fn names_neither_turn_the_text_nor_talk_to_terminals() {
    let evil = "a\u{202e}b\u{2066}\x1b[2J\u{2028}c&lt;d";
    let row = vec![Cell::text(evil), Cell::text(evil).tone(Tone::Name), Cell::text(evil).tone(Tone::Bad)];
    let columns = ["x", "y", "z"].map(|k| Column::text(k, evil)).to_vec();
    let finding =
        Finding { message: evil.into(), file: Some(evil.into()), rule: evil.into(), ..Finding::default() };
    let nodes = vec![Node::Table { key: "t".into(), columns, rows: vec![row] }, Node::Finding(finding)];
    let view = View { kind: "report", schema_version: 1, nodes };
    for format in [Format::Text, Format::Markdown, Format::Github, Format::Html] {
        let text = render(&view, format, Style::default());
        let script = text.split("<script").next().unwrap();
        let obeyed: Vec<char> = script.chars().filter(|c| *c != '\n' && text::is_obeyed(*c)).collect();
        assert!(obeyed.is_empty(), "{format:?}: {obeyed:?}");
    }
    let markdown = render(&view, Format::Markdown, Style::default());
    assert!(markdown.contains("c&amp;lt;d"), "{markdown}");
    assert_eq!(visible("a\n\tb\x1b\u{202e}"), "a\n\tb\u{fffd}\u{fffd}");
}

/// Nobody's screen: tables have an end all the same, no cell and no column is lost, and sentences stay whole.
#[test]
fn in_a_pipe_tables_have_an_end_and_lose_nothing() {
    let words = |n: usize| (0..n).map(|i| format!("word{i}")).collect::<Vec<_>>().join(" ");
    let columns = (0..4).map(|i| Column::text(&format!("c{i}"), &format!("column {i}")).rank(i)).collect();
    let row = vec![Cell::text(words(2)), Cell::text(words(60)), Cell::text(words(1)), Cell::text(words(40))];
    let table = Node::Table { key: "t".into(), columns, rows: vec![row] };
    let view = View { nodes: vec![table, Node::Text(vec![Span::plain(words(80))])], ..view() };
    let text = render(&view, Format::Text, Style::default());
    let (rows, sentence) = text.split_once("\n\n").unwrap();
    assert!(rows.lines().all(|l| l.chars().count() <= 200), "{rows}");
    assert!(rows.contains("column 3") && rows.contains("word59") && rows.contains("word39"), "{rows}");
    assert_eq!(sentence.trim_end(), words(80));
}

#[test]
fn commands_in_a_sentence_are_code_and_no_name_is_markup() {
    let of = |text: &str| {
        let nodes = vec![Node::Text(vec![Span::plain(text)])];
        let page = render(&View { nodes, ..view() }, Format::Html, plain());
        let main = page.split_once("</nav>").map_or(page.clone(), |(_, rest)| rest.into());
        main.split("</main>").next().unwrap().to_string()
    };
    assert!(of("run `tussle advise` now").contains("run <code>tussle advise</code> now"));
    assert!(of("a ` b").contains("a ` b") && of("`a` and ` b").contains("<code>a</code> and ` b"));
    assert!(of("`<img src=x>`").contains("<code>&lt;img src=x&gt;</code>"));
}

#[test]
fn passages_of_the_glossary_are_whole() {
    let text =
        "First line\nand `its` second.\n\n- one\n  `more`\n- two\n\n    a rule\n      of two lines\n\nLast.";
    let help = Node::Help { title: "t".into(), text: text.into() };
    let page = render(&View { nodes: vec![help], ..view() }, Format::Html, plain());
    for part in [
        "<p>First line and <code>its</code> second.</p>",
        "<pre>    a rule\n      of two lines</pre>",
        "<p>Last.</p>",
        "<li>one <code>more</code></li>\n<li>two</li>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains('\u{fffd}'));
}

/// What turns the direction of writing is an escape in JSON, which says the same and turns nothing.
#[test]
fn json_and_sarif_hold_no_character_that_a_screen_obeys() {
    let message = "a\u{202e}b\u{7f}c\u{2066}\nd";
    let (rule, level) = ("r\u{200f}".into(), Level::Error);
    let finding = Finding { rule, level, message: message.into(), ..Finding::default() };
    let view = View { kind: "report", schema_version: 1, nodes: vec![Node::Finding(finding)] };
    for format in [Format::Json, Format::Sarif] {
        let text = render(&view, format, plain());
        assert!(!text.contains(|c: char| c != '\n' && crate::text::is_obeyed(c)), "{text}");
        assert!(text.contains(r"a\u202eb\u007fc\u2066\nd"), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let said = value.pointer("/findings/0/message").or(value.pointer("/runs/0/results/0/message/text"));
        assert_eq!(said.unwrap(), message);
    }
}

/// Whatever a table holds, no line of it is wider than the screen and no word is broken that has room on a line.
#[test]
fn tables_fit_every_screen() {
    let title = "wall time in seconds (geometric mean)";
    let long = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for columns in 1..14usize {
        let heads: Vec<Column> = (0..columns)
            .map(|i| match i % 3 {
                0 => Column::number("n", title),
                1 => Column::text("t", "a name"),
                _ => Column::number("m", "faults").rank(i as u8 % 5),
            })
            .collect();
        let row = (0..columns).map(|i| match i % 3 {
            0 => Cell::count(123_456_789),
            1 => Cell::text(format!("{long} {long}")),
            _ => Cell::count(7),
        });
        let rows = vec![row.collect::<Vec<_>>(); 3];
        let table = Node::Table { key: "t".into(), columns: heads, rows };
        let section =
            Node::Section { key: "s".into(), title: format!("#1 {long} {long} {long}"), nodes: vec![table] };
        let view = View { kind: "report", schema_version: 1, nodes: vec![section] };
        for width in [80, 120, 200] {
            let text = render(&view, Format::Text, Style { colour: false, width: Some(width) });
            let wide = text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
            assert!(wide <= width, "{columns} columns on {width}: {wide}\n{text}");
            let whole = text.matches(long).count();
            assert!(columns < 2 || whole >= 3 + 6, "{columns} columns on {width}: a broken word\n{text}");
            assert_eq!(text.matches("123,456,789").count(), 3 * columns.div_ceil(3), "{text}");
        }
    }
}
