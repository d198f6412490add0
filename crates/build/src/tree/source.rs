//! Sources as a `buildinfo.json` or `upstream.json` names them.

use std::str::FromStr;

use download::Checksum;

use crate::source::{InvalidValue, Pinned, Registry, SourceSpec, SourceUrl};
use package::diagnostic::nearest;
use package::document::{Fields, Node, Reader};

/// The kinds and the keys that each must have besides `kind`.
const KINDS: [(&str, &[&str]); 8] = [
    ("git", &["git", "ref", "ref_origin"]),
    ("git_local", &["rel_path"]),
    ("url", &["url"]),
    ("url_extract", &["url"]),
    ("crate", &["name", "version", "sha256"]),
    ("pypi", &["name", "version", "sha256"]),
    ("npm", &["name", "version", "sha256"]),
    ("deb", &["name", "version", "sha256"]),
];

/// Keys that some kinds may have.
fn optional(kind: &str) -> &'static [&'static str] {
    match kind {
        "url" | "url_extract" => &["sha256", "sha1"],
        "deb" => &["architecture"],
        _ => &[],
    }
}

/// Reads one source object.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<SourceSpec> {
    let fields = reader.map(node, "a source")?;
    let kind_node = reader.required(fields, &node.span, "kind", "a source")?;
    let kind = reader.string(kind_node, "kind")?;
    let Some((_, required)) = KINDS.iter().find(|(name, _)| *name == kind) else {
        let names = || KINDS.iter().map(|(name, _)| *name);
        let help = nearest(kind, names()).map_or_else(
            || format!("known kinds: {}", names().collect::<Vec<_>>().join(", ")),
            |known| format!("did you mean `{known}`?"),
        );
        reader.error(&kind_node.span, format!("unknown kind of source `{kind}`"), Some(help));
        return None;
    };
    let known: Vec<&str> =
        ["kind"].iter().chain(*required).chain(optional(kind)).copied().collect();
    let what = format!("a source of kind `{kind}`");
    reader.unknown_keys(fields, &what, &known, &[]);
    for name in *required {
        reader.required(fields, &node.span, name, &what);
    }
    Source { reader, fields, node, kind }.spec()
}

struct Source<'r, 'a, 'n> {
    reader: &'r mut Reader<'a>,
    fields: Fields<'n>,
    node: &'n Node,
    kind: &'n str,
}

impl Source<'_, '_, '_> {
    fn parse<T: FromStr<Err: std::fmt::Display>>(&mut self, name: &str) -> Option<T> {
        let node = self.fields.get(name)?;
        self.reader.parse(node, name)
    }

    /// Every value is read before any is needed, so that every mistake is found.
    fn spec(&mut self) -> Option<SourceSpec> {
        Some(match self.kind {
            "git" => {
                let (url, commit) = (self.parse("git"), self.parse("ref"));
                let ref_origin = self.parse("ref_origin");
                SourceSpec::Git { url: url?, commit: commit?, ref_origin: ref_origin? }
            }
            "git_local" => SourceSpec::GitLocal { rel_path: self.parse("rel_path")? },
            "url" => {
                let (url, checksum) = (self.parse("url"), self.checksum());
                SourceSpec::Url { url: url?, checksum: checksum? }
            }
            "url_extract" => {
                let (url, checksum) = (self.archive_url(), self.checksum());
                SourceSpec::UrlExtract { url: url?, checksum: checksum? }
            }
            "crate" => SourceSpec::Crate(self.pinned(Registry::Crate)?),
            "pypi" => SourceSpec::Pypi(self.pinned(Registry::Pypi)?),
            "npm" => SourceSpec::Npm(self.pinned(Registry::Npm)?),
            "deb" => {
                let (package, given) =
                    (self.pinned(Registry::Deb), self.fields.get("architecture"));
                let architecture = self.parse("architecture");
                if given.is_some() && architecture.is_none() {
                    return None;
                }
                SourceSpec::Deb { package: package?, architecture }
            }
            kind => unreachable!("`{kind}` is not in the table"),
        })
    }

    /// A URL whose name tells an archive format.
    fn archive_url(&mut self) -> Option<SourceUrl> {
        let url: SourceUrl = self.parse("url")?;
        if let (Err(error), Some(node)) = (url.format(), self.fields.get("url")) {
            self.reader.error(&node.span, error.to_string(), None);
            return None;
        }
        Some(url)
    }

    fn pinned(&mut self, registry: Registry) -> Option<Pinned> {
        let (name, version) = (self.parse::<String>("name"), self.parse::<String>("version"));
        let sha256 = self.parse("sha256");
        let (name, version) = (name?, version?);
        let name_is_good = self.good("name", &registry.check_name(&name));
        let version_is_good = self.good("version", &registry.check_version(&version));
        let is_good = name_is_good && version_is_good;
        let sha256 = sha256?;
        is_good.then(|| Pinned::new(registry, &name, &version, sha256).ok()).flatten()
    }

    fn good(&mut self, key: &str, result: &Result<(), InvalidValue>) -> bool {
        if let (Err(error), Some(node)) = (result, self.fields.get(key)) {
            self.reader.error(&node.span, error.to_string(), None);
        }
        result.is_ok()
    }

    /// `sha256`, or `sha1` as trees of the reference have it.
    fn checksum(&mut self) -> Option<Checksum> {
        match (self.fields.get("sha256"), self.fields.get("sha1")) {
            (Some(_), _) => self.parse("sha256").map(Checksum::Sha256),
            (None, Some(node)) => {
                let help = "add `sha256`: two files with the same SHA-1 can be made";
                let message = "this source is verified with SHA-1 only";
                self.reader.warn(&node.span, message, Some(help.to_owned()));
                self.parse("sha1").map(Checksum::Sha1)
            }
            (None, None) => {
                let message = format!("a source of kind `{}` lacks the key `sha256`", self.kind);
                self.reader.error(&self.node.span, message, None);
                None
            }
        }
    }
}
