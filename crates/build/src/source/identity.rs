//! What of a source enters the id of a package: everything that a build can see of it, which is its
//! content and how it is laid out, and never its address.

use serde_json::{Value, json};

use super::context::SourceContext;
use super::error::{Action, SourceError};
use super::git;
use super::spec::SourceSpec;

impl SourceSpec {
    /// The identity of the source. Only `git_local` looks at anything: what is checked out there.
    pub fn identity(&self, context: &SourceContext<'_>) -> Result<Value, SourceError> {
        let kind = self.kind();
        Ok(match self {
            Self::Git { commit, .. } => json!({ "kind": kind, "commit": commit.as_str() }),
            Self::GitLocal { rel_path } => {
                let commit = git::local_commit(rel_path, context)
                    .map_err(|fault| SourceError::new(Action::Identify, self, fault))?;
                json!({ "kind": kind, "commit": commit.as_str() })
            }
            // A build finds the file under its name, so the name counts too.
            Self::Url { url, checksum } => json!({
                "kind": kind,
                "name": url.file_name(),
                checksum.algorithm(): checksum.hex(),
            }),
            Self::UrlExtract { checksum, .. } => {
                json!({ "kind": kind, checksum.algorithm(): checksum.hex() })
            }
            Self::Crate(package)
            | Self::Pypi(package)
            | Self::Npm(package)
            | Self::Deb { package, .. } => {
                json!({ "kind": kind, "sha256": package.sha256().to_string() })
            }
        })
    }
}
