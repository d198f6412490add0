//! `monobloc package`: look at packages, verify, compare and sign them.

mod diff;
mod inspect;
mod sign;
mod verify;

use camino::{Utf8Path, Utf8PathBuf};
use package::archive::{self, Format, UnpackError, UnpackOptions, Unpacked};
use package::id::PackageId;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Look at packages, verify, compare and sign them
#[derive(Debug, clap::Subcommand)]
pub(crate) enum PackageCommand {
    Inspect(inspect::InspectArgs),
    Verify(verify::VerifyArgs),
    Diff(diff::DiffArgs),
    Sign(sign::SignArgs),
}

pub(crate) fn run(
    context: &Context,
    command: &PackageCommand,
    output: &Output,
) -> Result<Outcome, Failure> {
    match command {
        PackageCommand::Inspect(arguments) => inspect::run(context, arguments, output),
        PackageCommand::Verify(arguments) => verify::run(context, arguments, output),
        PackageCommand::Diff(arguments) => diff::run(context, arguments, output),
        PackageCommand::Sign(arguments) => sign::run(context, arguments, output),
    }
}

/// The package that an archive's name says it is.
fn id_of(archive: &Utf8Path) -> Result<PackageId, Failure> {
    let (stem, _) = Format::split(archive)?;
    Ok(stem.parse::<PackageId>()?)
}

/// Where the signature of an archive lies.
fn signature_of(archive: &Utf8Path) -> Utf8PathBuf {
    format!("{archive}.minisig").into()
}

/// The manifest an archive brings, or, of the reference's, the one that its content makes.
fn manifest_of(context: &Context, archive: &Utf8Path) -> Result<Unpacked, Failure> {
    match archive::read_manifest(archive) {
        Ok((_, manifest)) => Ok(Unpacked { manifest, verified: true }),
        Err(UnpackError::NoManifest(_)) => {
            let options = UnpackOptions { cancel: context.cancel.clone(), ..Default::default() };
            Ok(archive::verify(archive, &options)?)
        }
        Err(error) => Err(error.into()),
    }
}
