//! Keeps a shell in a sandbox from typing on the user's terminal.
//!
//! The shell needs that terminal as its own, or it could not stop and continue jobs; but whoever has
//! a terminal may put characters into its input (`TIOCSTI`, and `TIOCLINUX` on a console), which the
//! user's own shell reads as commands when the sandbox is gone. So the kernel refuses these two.

/// The requests that fake input, as every architecture below numbers them.
const FAKE_INPUT: [u32; 2] = [0x5412, 0x541c];

/// Every architecture whose programs may run, as `seccomp` names it, and its number of `ioctl`.
const IOCTL: [(u32, u32); 6] = [
    (0xc000_003e, 16),          // x86-64
    (0xc000_003e, 0x4000_0202), // the same with short pointers
    (0x4000_0003, 54),          // x86
    (0xc000_00b7, 29),          // ARM, 64 bits
    (0x4000_0028, 54),          // ARM, 32 bits
    (0xc000_00f3, 29),          // RISC-V
];

/// Where the fields of a system call lie. Of the request the kernel, too, looks at this half only.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const REQUEST: u32 = 24;

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const NOT_PERMITTED: u32 = 0x0005_0001;

/// The filter, in the form that bubblewrap hands to the kernel.
pub(super) fn filter() -> Vec<u8> {
    // An operation, how far to jump if so and if not, and what it is about.
    let mut filter: Vec<(u16, usize, usize, u32)> = Vec::new();
    let checks = 4 * IOCTL.len();
    filter.push((LOAD, 0, 0, REQUEST));
    filter.push((JUMP_IF_EQUAL, 1, 0, FAKE_INPUT[0]));
    filter.push((JUMP_IF_EQUAL, 0, checks, FAKE_INPUT[1]));
    for (index, (architecture, number)) in IOCTL.into_iter().enumerate() {
        let rest = checks - 4 * (index + 1);
        filter.push((LOAD, 0, 0, ARCHITECTURE));
        filter.push((JUMP_IF_EQUAL, 0, 2, architecture));
        filter.push((LOAD, 0, 0, NUMBER));
        filter.push((JUMP_IF_EQUAL, rest + 1, 0, number));
    }
    filter.push((RETURN, 0, 0, ALLOW));
    filter.push((RETURN, 0, 0, NOT_PERMITTED));
    let bytes = filter.into_iter().flat_map(|(operation, so, not, about)| {
        let [so, not] =
            [so, not].map(|jump| u8::try_from(jump).expect("the filter is short enough"));
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&operation.to_ne_bytes());
        bytes[2..4].copy_from_slice(&[so, not]);
        bytes[4..].copy_from_slice(&about.to_ne_bytes());
        bytes
    });
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter says to a system call.
    fn verdict(architecture: u32, number: u32, request: u32) -> u32 {
        let filter = filter();
        let (mut at, mut loaded) = (0, 0);
        loop {
            let bytes = &filter[8 * at..8 * (at + 1)];
            let about = u32::from_ne_bytes(bytes[4..].try_into().unwrap());
            at += 1;
            match u16::from_ne_bytes([bytes[0], bytes[1]]) {
                LOAD => {
                    loaded = match about {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        _ => request,
                    }
                }
                JUMP_IF_EQUAL => at += usize::from(bytes[if loaded == about { 2 } else { 3 }]),
                _ => return about,
            }
        }
    }

    #[test]
    fn fake_input_is_refused_on_every_architecture_and_nothing_else_is() {
        for (architecture, number) in IOCTL {
            for request in FAKE_INPUT {
                assert_eq!(verdict(architecture, number, request), NOT_PERMITTED);
                assert_eq!(verdict(architecture, number + 1, request), ALLOW);
            }
            assert_eq!(verdict(architecture, number, 0x5413), ALLOW);
        }
    }
}
