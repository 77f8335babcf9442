//! The commands in `tests/cmd/*.md` do what the documents say.

#[test]
fn documented_commands_hold() {
    trycmd::TestCases::new()
        .case("../../tests/cmd/*.md")
        .case("../../docs/guide.md")
        .case("../../docs/stories.md")
        .case("../../docs/statistics.md");
}
