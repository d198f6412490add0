//! Which part of a file is asked for.

/// What a `Range` header means for a file of some length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// All of it: there is no range, none that can be read, or more than one.
    Whole,
    /// The bytes from the first to the last of these.
    Part {
        /// The first byte.
        first: u64,
        /// The last byte, which is in the file.
        last: u64,
    },
    /// Nothing of what is asked for exists.
    Nothing,
}

impl Wanted {
    /// Reads a `Range` header about a file of `length` bytes.
    pub fn read(header: &str, length: u64) -> Self {
        let Some((unit, ranges)) = header.split_once('=') else { return Self::Whole };
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return Self::Whole;
        }
        // Whoever asks for several parts can live with the whole.
        let Some((first, last)) = ranges.trim().split_once('-') else { return Self::Whole };
        let (first, last) = (first.trim_end(), last.trim_start());
        match (number(first), number(last)) {
            // The last so many bytes.
            (None, Some(count)) if first.is_empty() => match (count, length) {
                (0, _) | (_, 0) => Self::Nothing,
                _ => Self::Part { first: length.saturating_sub(count), last: length - 1 },
            },
            (Some(first), end) if end.is_some() || last.is_empty() => {
                let last = end.unwrap_or(u64::MAX);
                if first > last {
                    Self::Whole
                } else if first >= length {
                    Self::Nothing
                } else {
                    Self::Part { first, last: last.min(length - 1) }
                }
            }
            _ => Self::Whole,
        }
    }
}

/// Digits as a number; what is too large for one is larger than every file.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_is_a_part_of_the_file_or_is_told_apart() {
        let part = |first, last| Wanted::Part { first, last };
        for (header, wanted) in [
            ("bytes=0-0", part(0, 0)),
            ("bytes=0-", part(0, 9)),
            ("BYTES = 3-4", part(3, 4)),
            ("bytes=9-99999999999999999999999", part(9, 9)),
            ("bytes=-3", part(7, 9)),
            ("bytes=-99", part(0, 9)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=4-3", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("bytes=1--2", Wanted::Whole),
            ("bytes=a-2", Wanted::Whole),
            ("bytes=1-b", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
            ("", Wanted::Whole),
        ] {
            assert_eq!(Wanted::read(header, 10), wanted, "{header}");
        }
        assert_eq!(Wanted::read("bytes=0-", 0), Wanted::Nothing);
        assert_eq!(Wanted::read("bytes=-1", 0), Wanted::Nothing);
    }

    proptest! {
        #[test]
        fn a_part_lies_in_the_file_whatever_is_asked(
            header in "bytes=[0-9 ,-]{0,30}|\\PC{0,20}",
            length in prop_oneof![0..20_u64, any::<u64>()],
        ) {
            if let Wanted::Part { first, last } = Wanted::read(&header, length) {
                prop_assert!(first <= last && last < length);
            }
        }

        #[test]
        fn bytes_from_the_first_to_the_last_are_those(
            (length, first) in (1..1000_u64).prop_flat_map(|length| (Just(length), 0..length)),
            more in 0..1000_u64,
        ) {
            let last = first + more;
            let wanted = Wanted::read(&format!("bytes={first}-{last}"), length);
            prop_assert_eq!(wanted, Wanted::Part { first, last: last.min(length - 1) });
            let from_end = Wanted::read(&format!("bytes=-{}", length - first), length);
            prop_assert_eq!(from_end, Wanted::Part { first, last: length - 1 });
        }
    }
}
