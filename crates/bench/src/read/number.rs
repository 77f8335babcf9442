//! A number as printed: its value and how far rounding may have moved it.

/// A printed number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// The value.
    pub value: f64,
    /// One unit of its last digit.
    pub unit: f64,
}

impl Printed {
    /// Reads `-12.50`, `3.105e+09`, `1,234`. `None` for anything else, `nan` and `inf` included.
    pub fn parse(text: &str) -> Option<Printed> {
        let text = text.trim().replace(',', "");
        if text.len() > 40 || !text.bytes().any(|b| b.is_ascii_digit()) {
            return None;
        }
        let value: f64 = text.parse().ok()?;
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
            None => (text.as_str(), 0),
        };
        let digits = mantissa.find('.').map_or(0, |at| mantissa.len() - at - 1) as i32;
        value.is_finite().then(|| Printed { value, unit: 10f64.powi(exponent.clamp(-400, 400) - digits) })
    }

    /// With as many digits as were printed.
    pub fn text(&self) -> String {
        // Rounding of the logarithm must not lose a digit of a unit like 0.001.
        let digits = (-self.unit.log10() - 1e-9).ceil().clamp(0.0, 15.0) as usize;
        format!("{:.digits$}", self.value)
    }

    /// Where the true number lies if it was rounded.
    pub fn range(&self) -> (f64, f64) {
        (self.value - 0.5 * self.unit, self.value + 0.5 * self.unit)
    }

    /// Where the true number lies if it may have been cut off instead (lkp prints whole numbers so).
    pub fn range_cut(&self) -> (f64, f64) {
        let (low, high) = self.range();
        if self.value < 0.0 { (self.value - self.unit, high) } else { (low, self.value + self.unit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_the_last_digit() {
        let check = |text: &str, expect: Option<(f64, f64)>| {
            let got = Printed::parse(text).map(|p| (p.value, p.unit));
            match (got, expect) {
                (Some(g), Some(e)) => {
                    assert!((g.0 - e.0).abs() < 1e-9 * e.0.abs() && (g.1 / e.1 - 1.0).abs() < 1e-9)
                }
                (g, e) => assert_eq!(g, e, "{text}"),
            }
        };
        check("12.50", Some((12.5, 0.01)));
        check("3.105e+09", Some((3.105e9, 1e6)));
        check("-1,234", Some((-1234.0, 1.0)));
        check("nan", None);
        check("", None);
        check("1e999", None);
        check("x1", None);
        for text in ["12.50", "0.2598", "-7", "0.001", "886331.2140", "123456789"] {
            assert_eq!(Printed::parse(text).unwrap().text(), text);
        }
        assert_eq!(Printed::parse("3.105e+09").unwrap().text(), "3105000000");
    }
}
