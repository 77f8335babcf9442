//! What mailers do to text.

/// Quoted-printable (RFC 2045): `=C2=B1` is a byte each, `=` at the end of a line joins it with the next. What is no
/// escape stays as it is.
pub(super) fn quoted_printable(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&b) = bytes.get(at) {
        let hex = |i: usize| bytes.get(i).and_then(|b| char::from(*b).to_digit(16));
        match (b, hex(at + 1), hex(at + 2)) {
            (b'=', Some(high), Some(low)) => {
                out.push((16 * high + low) as u8);
                at += 3;
            }
            (b'=', ..) if bytes.get(at + 1) == Some(&b'\n') => at += 2,
            (b'=', ..) if bytes.get(at + 1..at + 3) == Some(b"\r\n") => at += 3,
            _ => {
                out.push(b);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::quoted_printable;

    #[test]
    fn escapes_and_joined_lines() {
        assert_eq!(quoted_printable("310805 =C2=B1  2%=\n  a=3Db\n=zz =4"), "310805 ±  2%  a=b\n=zz =4");
        assert_eq!(quoted_printable("=C2"), "\u{fffd}");
        assert_eq!(quoted_printable("a=\r\nb="), "ab=");
    }
}
