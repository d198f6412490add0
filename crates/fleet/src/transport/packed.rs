//! The program as it is sent: compressed once for all hosts, in blocks, so that a host that has a part of
//! it gets the rest without anybody compressing that again.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use camino::Utf8Path;
use flate2::Compression;
use flate2::write::GzEncoder;

/// How much of the program is one block; what is left of one is compressed for the host that lacks it.
const BLOCK_BYTES: u64 = 1 << 20;

/// A compressed file. One block after the other is what `gzip -dc` takes.
#[derive(Debug)]
pub(super) struct Packed {
    bytes: Vec<u8>,
    /// Where each block begins in `bytes`.
    starts: Vec<usize>,
}

impl Packed {
    pub(super) fn of(path: &Utf8Path) -> io::Result<Self> {
        let mut file = fs_err::File::open(path)?;
        let mut packed = Self { bytes: Vec::new(), starts: Vec::new() };
        let mut block = Vec::new();
        while (&mut file).take(BLOCK_BYTES).read_to_end(&mut block)? > 0 {
            packed.starts.push(packed.bytes.len());
            packed.bytes.append(&mut pack(&block)?);
            block.clear();
        }
        Ok(packed)
    }

    /// What follows the first `there` bytes of the file at `path`: the end of a block, and all other blocks.
    pub(super) fn rest(&self, path: &Utf8Path, there: u64) -> io::Result<(Vec<u8>, &[u8])> {
        let next = there.div_ceil(BLOCK_BYTES);
        let start = usize::try_from(next).ok().and_then(|next| self.starts.get(next).copied());
        let others = &self.bytes[start.unwrap_or(self.bytes.len())..];
        let left = next * BLOCK_BYTES - there;
        let mut end = Vec::new();
        if left > 0 {
            let mut file = fs_err::File::open(path)?;
            file.seek(SeekFrom::Start(there))?;
            file.take(left).read_to_end(&mut end)?;
            end = pack(&end)?;
        }
        Ok((end, others))
    }
}

fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(bytes)?;
    packer.finish()
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;
    use flate2::read::MultiGzDecoder;

    use super::*;

    #[test]
    fn a_host_that_has_a_part_gets_the_rest_of_what_was_compressed_for_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(folder.path().join("program")).unwrap();
        let bytes: Vec<u8> = (0..3_500_000_u32).map(|at| (at / 7).to_le_bytes()[0]).collect();
        fs_err::write(&path, &bytes).unwrap();
        let packed = Packed::of(&path).unwrap();
        assert_eq!(packed.starts.len(), 4);
        for there in [0, 1, 1 << 20, (1 << 20) + 1, 3 << 20, 3_400_000, 3_499_999] {
            let (end, others) = packed.rest(&path, there).unwrap();
            let mut unpacked = Vec::new();
            MultiGzDecoder::new(end.chain(others)).read_to_end(&mut unpacked).unwrap();
            let from = usize::try_from(there).unwrap();
            assert!(unpacked == bytes[from..], "{there}: {} bytes", unpacked.len());
            // At most one block is compressed for this host; the others are those of all.
            assert!(packed.bytes.ends_with(others));
            assert!(
                others.is_empty() || others.as_ptr_range().end == packed.bytes.as_ptr_range().end
            );
        }
    }
}
