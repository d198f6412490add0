//! `file:` URLs: copied, so that they are verified and moved into place like everything else.

use std::io::{self, Read as _};

use url::Url;

use crate::part::Part;
use crate::{DownloadError, Options, redacted};

/// How much is copied between two looks at the cancel flag.
const CHUNK_BYTES: usize = 256 * 1024;

/// Copies the file that `url` names into `part`.
pub(crate) fn copy(url: &Url, part: &mut Part, options: &Options<'_>) -> Result<(), DownloadError> {
    let read = |cause| DownloadError::Read { url: redacted(url), cause };
    let write = |cause| DownloadError::Write { url: redacted(url), cause };
    let path = url.to_file_path().map_err(|()| DownloadError::NotAFile { url: redacted(url) })?;
    let mut file = fs_err::File::open(path).map_err(read)?;
    let metadata = file.metadata().map_err(read)?;
    if !metadata.is_file() {
        return Err(DownloadError::NotAFile { url: redacted(url) });
    }
    options.check_size(url, metadata.len())?;
    part.restart().map_err(write)?;
    part.total = Some(metadata.len());
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        options.cancel.check()?;
        let count = match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(read(error)),
        };
        options.check_size(url, part.length() + count as u64)?;
        part.append(&buffer[..count]).map_err(write)?;
        options.report(part);
    }
}
