//! Whether a program needs shared libraries of the machine it runs on.

use std::io::{self, Read as _};

use camino::Utf8Path;

/// How much of a program is looked at: its headers are at its start.
const HEADERS_BYTES: u64 = 64 << 10;
/// The kind of header that names a loader.
const INTERPRETER: u64 = 3;

/// Whether the program at `path` is one that needs a loader, and with it shared libraries. A file that is
/// no ELF program, such as a script, needs something else or nothing.
pub fn needs_loader(path: &Utf8Path) -> io::Result<bool> {
    let mut bytes = Vec::new();
    fs_err::File::open(path)?.take(HEADERS_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes.starts_with(b"\x7fELF\x02\x01") && names_loader(&bytes).unwrap_or_default())
}

/// `None`: its headers are not where they usually are.
fn names_loader(elf: &[u8]) -> Option<bool> {
    let number = |offset: u64, length: usize| {
        let start = usize::try_from(offset).ok()?;
        let bytes = elf.get(start..start.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    let (table, entry, count) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
    for index in 0..count {
        if number(table.checked_add(entry * index)?, 4)? == INTERPRETER {
            return Some(true);
        }
    }
    Some(false)
}
