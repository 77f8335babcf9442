use super::*;
use crate::sample::Sample;

#[test]
fn round_trip() {
    let e = Sample::two_counters().evidence();
    let mut bytes = Vec::new();
    write(&e, &mut bytes).unwrap();
    let (back, problems) = read(&bytes).unwrap();
    assert_eq!(problems, []);
    assert_eq!(format!("{e:?}"), format!("{back:?}"));
}
