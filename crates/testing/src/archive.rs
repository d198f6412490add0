//! Archives made in memory, of files given by path, content and permission bits.

use std::io::{Cursor, Result, Write as _};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A file of an archive.
pub type Member<'a> = (&'a str, &'a str, u32);

/// A tar archive.
pub fn tar(members: &[Member<'_>]) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, content, mode) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(*mode);
        header.set_mtime(0);
        archive.append_data(&mut header, path, content.as_bytes())?;
    }
    archive.into_inner()
}

/// A `.tar.gz` archive.
pub fn tar_gz(members: &[Member<'_>]) -> Result<Vec<u8>> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar(members)?)?;
    gzip.finish()
}

/// A `.zip` archive.
pub fn zip(members: &[Member<'_>]) -> Result<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, content, mode) in members {
        archive.start_file(*path, SimpleFileOptions::default().unix_permissions(*mode))?;
        archive.write_all(content.as_bytes())?;
    }
    Ok(archive.finish()?.into_inner())
}
