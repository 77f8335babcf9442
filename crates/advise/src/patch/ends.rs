//! Uses that count on which member is the last one: the bytes up to the end of an object.

use super::neighbours::Uses;

impl Uses<'_, '_, '_> {
    /// `(char *)(p + 1)` and `reinterpret_cast<char *>(&x + 1)`, where a member's bytes up to there are used: the
    /// function names a member that is an array, and it is not the object behind that is meant.
    pub(super) fn up_to_its_end(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        let (code, text) = (&objects.code, |j: usize| objects.text(j));
        let (close, operand) = match text(i) {
            "(" => code.closing(i).map(|c| (c, c + 2)).filter(|c| text(c.0 + 1) == "(")?,
            _ => code.matching(i + 1, ["<", ">"], 8).map(|c| (c, c + 2))?,
        };
        let bytes = (i + 1..close).any(|j| matches!(text(j), "char" | "void" | "byte" | "uint8_t" | "u8"));
        let pointer = text(close - 1) == "*" && bytes;
        let end = objects.address(operand).filter(|_| pointer)?;
        let behind = (text(end), text(end + 1), text(end + 2)) == ("+", "1", ")");
        (behind && self.has_array_near(i)).then(|| "the bytes up to its end are used".into())
    }

    /// `sizeof *p - ((char *)p->name - (char *)p)`: what is left of its size.
    pub(super) fn rest_of_size(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        let code = &objects.code;
        let end = match objects.text(i + 1) {
            "(" => code.closing(i + 1)? + 1,
            _ => (i + 1..i + 8).find(|&j| code.is_word(j)).map(|j| objects.path_end(j) + 1)?,
        };
        // `sizeof p->name - 1` is a member's size.
        let whole =
            (i + 1..end).any(|j| objects.is_name(j) || objects.is_object(j) && objects.path_end(j) == j);
        let minus = objects.text(end) == "-" && objects.text(end + 1) != ">" && whole;
        (minus && self.has_array_near(i)).then(|| "what is left of its size is counted".into())
    }

    /// The function around `i` names a member of it that is an array.
    fn has_array_near(&self, i: usize) -> bool {
        let code = &self.objects.code;
        let (open, end) = code.function(i);
        let start = code.start_of(open);
        let member = |j: usize| matches!(code.text(j - 1), "." | ">");
        let mut arrays = self.members.iter().filter(|m| m.array);
        arrays.any(|m| code.places(&m.name).iter().any(|&j| start < j && j < end && member(j)))
    }
}
