//! Generations: complete sets of links, environment and units, each in a folder of its own.

mod layout;
mod running;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use package::id::RoleName;
use package::{PackageId, Sha256};
use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::paths::{GENERATIONS, Paths};
use crate::store;
use package::versioned::{self, FormatError};

pub use layout::Layout;
pub(crate) use layout::Of;
pub(crate) use running::is_template;
pub use running::{Running, Unit};
pub(crate) use write::{discard, switch, write};

/// The file that tells what a generation is.
pub(crate) const RECORD: &str = "generation.json";

/// The version of the file that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// No generation gets this far; a folder of such a name is none of ours.
pub(crate) const NUMBER_MAX: u64 = 1 << 53;

/// What a generation is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// The version of this record.
    format: u32,
    /// Its number; the next one is larger.
    pub number: u64,
    /// The distribution that its names are of.
    pub distribution: String,
    /// Its packages with their content digests.
    pub packages: BTreeMap<PackageId, Sha256>,
    /// Those of them whose manifest did not come with them.
    pub unverified: BTreeSet<PackageId>,
    /// The roles it was made for.
    pub roles: BTreeSet<RoleName>,
    /// The store that its links lead to.
    pub repository: Utf8PathBuf,
    /// The generation that was live when it was made.
    pub from: Option<u64>,
    /// When it was planned.
    pub created: Timestamp,
    /// What it asks of the machine.
    #[serde(flatten)]
    pub running: Running,
}

/// Why the generations of a host cannot be told.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum GenerationError {
    #[error("`{link}` leads to `{target}`, which is no generation")]
    Link { link: Utf8PathBuf, target: String },
    #[error("the folder of generation {number} says that it is generation {found}; remove it")]
    Number { number: u64, found: u64 },
    #[error("generation {0} is not on this host")]
    NotFound(u64),
    #[error("generation {number} is incomplete: it has no `{RECORD}`")]
    Incomplete { number: u64, source: io::Error },
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("cannot read the generations of this host")]
    Io(#[from] io::Error),
}

impl Generation {
    /// Reads the content of a `generation.json`; `path` names it in messages.
    pub fn parse(path: &Utf8Path, bytes: &[u8]) -> Result<Self, FormatError> {
        versioned::parse(path, bytes, FORMAT)
    }

    /// The record of a generation whose own was lost, as far as the rest of the host tells it; what
    /// it asks of the machine follows when it is laid out.
    pub(crate) fn rebuilt(
        host: &Host,
        number: u64,
        (packages, unverified): (BTreeMap<PackageId, Sha256>, BTreeSet<PackageId>),
        roles: BTreeSet<RoleName>,
        (created, from): (Timestamp, Option<u64>),
    ) -> Self {
        Self {
            format: FORMAT,
            number,
            distribution: host.distribution.name.clone(),
            packages,
            unverified,
            roles,
            repository: host.paths.repository.clone(),
            from,
            created,
            running: Running::default(),
        }
    }

    /// Reads the record of a generation.
    pub(crate) fn read(paths: &Paths, number: u64) -> Result<Self, GenerationError> {
        let folder = paths.generation(number);
        let path = folder.join(RECORD);
        match fs_err::read(&path) {
            Ok(bytes) => {
                let found = Self::parse(&path, &bytes)?;
                if found.number != number {
                    return Err(GenerationError::Number { number, found: found.number });
                }
                Ok(found)
            }
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                Err(if package::durable::is_folder(&folder)? {
                    GenerationError::Incomplete { number, source }
                } else {
                    GenerationError::NotFound(number)
                })
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl GenerationError {
    /// Whether only this one generation is lost, and the rest of the host can be told.
    pub(crate) fn is_of_one(&self) -> bool {
        match self {
            Self::NotFound(_) | Self::Incomplete { .. } | Self::Number { .. } => true,
            Self::Format(error) => matches!(error, FormatError::Invalid { .. }),
            Self::Link { .. } | Self::Io(_) => false,
        }
    }
}

/// The numbers of all generations on this host, the oldest first.
pub(crate) fn numbers(paths: &Paths) -> io::Result<Vec<u64>> {
    let mut numbers: Vec<u64> =
        store::entries(&paths.generations())?.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The number of the live generation: what the one link says.
pub(crate) fn live(paths: &Paths) -> Result<Option<u64>, GenerationError> {
    let link = paths.current();
    let target = match link.read_link_utf8() {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Err(GenerationError::Link { link, target: "something that is no link".into() });
        }
        Err(error) => {
            return Err(io::Error::new(error.kind(), format!("`{link}`: {error}")).into());
        }
    };
    let number = target.as_str().strip_prefix(GENERATIONS).and_then(|rest| rest.strip_prefix('/'));
    match number.and_then(number_of) {
        Some(number) => Ok(Some(number)),
        None => Err(GenerationError::Link { link, target: target.into_string() }),
    }
}

/// The number that the name of a generation's folder says, in its one form.
fn number_of(name: &str) -> Option<u64> {
    let number = name.parse::<u64>().ok()?;
    (number.to_string() == name && number < NUMBER_MAX).then_some(number)
}
