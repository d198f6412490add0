//! Time spans and sizes: a number with a unit.

/// Seconds by unit, the reference's long names included.
pub const DURATIONS: [(&[&str], f64); 8] = [
    (&["ns", "nsecs"], 1e-9),
    (&["us", "µs", "usecs"], 1e-6),
    (&["ms", "msecs"], 1e-3),
    (&["s", "secs", "sec"], 1.0),
    (&["m", "min", "mins"], 60.0),
    (&["h", "hrs", "hr"], 3600.0),
    (&["d", "days", "day"], 86_400.0),
    (&["w", "weeks", "week"], 604_800.0),
];

/// No time span is a thousand years long.
const SECONDS_MAX: f64 = 3.2e10;

/// Bytes by unit.
pub const SIZES: [(&[&str], u64); 9] = [
    (&["B"], 1),
    (&["KiB", "K"], 1 << 10),
    (&["MiB", "M"], 1 << 20),
    (&["GiB", "G"], 1 << 30),
    (&["TiB", "T"], 1 << 40),
    (&["KB", "kB"], 1_000),
    (&["MB"], 1_000_000),
    (&["GB"], 1_000_000_000),
    (&["TB"], 1_000_000_000_000),
];

/// The seconds of a time span; a bare number counts seconds.
pub fn seconds_of(text: &str) -> Option<f64> {
    let (number, unit) = split(text);
    let number = decimal(number)?;
    if unit.is_empty() {
        return Some(number);
    }
    let (_, seconds) = DURATIONS.iter().find(|(names, _)| names.contains(&unit))?;
    Some(number * seconds).filter(|seconds| *seconds < SECONDS_MAX)
}

/// The bytes of a size; a bare number counts bytes.
pub fn bytes_of(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    let number: u64 = number.parse().ok()?;
    if unit.is_empty() {
        return Some(number);
    }
    let (_, bytes) = SIZES.iter().find(|(names, _)| names.contains(&unit))?;
    number.checked_mul(*bytes)
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

fn decimal(text: &str) -> Option<f64> {
    if !text.starts_with(|first: char| first.is_ascii_digit()) || text.ends_with('.') {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite())
}
