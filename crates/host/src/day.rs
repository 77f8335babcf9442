//! Days of the calendar.

/// The day, UTC, as `2027-01-31`. The algorithm is Howard Hinnant's `civil_from_days`.
pub fn today() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    day_of(now.as_secs())
}

/// The day of so many seconds since 1970, UTC.
pub fn day_of(unix_s: u64) -> String {
    let days = unix_s / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{:04}-{month:02}-{of_month:02}", era * 400 + year + u64::from(month <= 2))
}
