//! Files in memory: a directory tree with the identities of its files, read from a folder, changed as
//! a file system changes it, and written to a folder again.
//!
//! A copy of a [`Disk`] shares everything with the original until one of them is changed, so that
//! thousands of them are cheap.

mod apply;
mod folder;

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock};

use camino::{Utf8Path, Utf8PathBuf};

pub(crate) use self::apply::{Fate, Replay};
pub use self::folder::Roots;

/// The place of a node in [`Disk::nodes`].
type NodeId = usize;

const ROOT: NodeId = 0;

/// A directory tree in memory. Owners, times and extended attributes are not in it.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Where it was read.
    root: Utf8PathBuf,
    nodes: Vec<Arc<Node>>,
}

#[derive(Clone, Debug)]
enum Node {
    File {
        mode: u32,
        content: Arc<Content>,
        /// A file with the same content and mode that need not be written but can be linked.
        same: Option<Arc<Utf8Path>>,
    },
    Link(String),
    Directory {
        mode: u32,
        entries: BTreeMap<String, NodeId>,
    },
}

/// Bytes that know their digest once somebody asked.
#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    digest: OnceLock<u64>,
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, digest: OnceLock::new() }
    }
}

impl Content {
    fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            self.bytes.hash(&mut hasher);
            hasher.finish()
        })
    }
}

impl Disk {
    fn find(&self, path: &Utf8Path) -> Option<NodeId> {
        path.components().try_fold(ROOT, |node, name| match &*self.nodes[node] {
            Node::Directory { entries, .. } => entries.get(name.as_str()).copied(),
            _ => None,
        })
    }

    fn get(&self, path: impl AsRef<Utf8Path>) -> Option<&Node> {
        self.find(path.as_ref()).map(|node| &*self.nodes[node])
    }

    /// Whether there is anything at `path`, as for all of these methods from the root on and without
    /// following links.
    pub fn exists(&self, path: impl AsRef<Utf8Path>) -> bool {
        self.get(path).is_some()
    }

    /// The content of the file at `path`; nothing if there is no file.
    pub fn content(&self, path: impl AsRef<Utf8Path>) -> Option<&[u8]> {
        match self.get(path)? {
            Node::File { content, .. } => Some(&content.bytes),
            _ => None,
        }
    }

    /// The target of the link at `path`; nothing if there is no link.
    pub fn target(&self, path: impl AsRef<Utf8Path>) -> Option<&str> {
        match self.get(path)? {
            Node::Link(target) => Some(target),
            _ => None,
        }
    }

    /// The permission bits of the file or directory at `path`.
    pub fn mode(&self, path: impl AsRef<Utf8Path>) -> Option<u32> {
        match self.get(path)? {
            Node::File { mode, .. } | Node::Directory { mode, .. } => Some(*mode),
            Node::Link(_) => None,
        }
    }

    /// The names in the directory at `path`; nothing if there is no directory.
    pub fn names(&self, path: impl AsRef<Utf8Path>) -> Option<Vec<&str>> {
        match self.get(path)? {
            Node::Directory { entries, .. } => Some(entries.keys().map(String::as_str).collect()),
            _ => None,
        }
    }

    /// A digest of the tree: names, kinds, permission bits, contents, targets, and which names are
    /// names of the same file.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut numbers = HashMap::new();
        self.hash(ROOT, &mut numbers, &mut hasher);
        hasher.finish()
    }

    fn hash(&self, node: NodeId, numbers: &mut HashMap<NodeId, usize>, hasher: &mut DefaultHasher) {
        match &*self.nodes[node] {
            Node::File { mode, content, .. } => {
                let next = numbers.len();
                (0, mode, content.digest(), numbers.entry(node).or_insert(next)).hash(hasher);
            }
            Node::Link(target) => (1, target).hash(hasher),
            Node::Directory { mode, entries } => {
                (2, mode, entries.len()).hash(hasher);
                for (name, entry) in entries {
                    name.hash(hasher);
                    self.hash(*entry, numbers, hasher);
                }
            }
        }
    }

    /// Every path with its node, directories before what is in them.
    fn walk(&self) -> Vec<(Utf8PathBuf, NodeId)> {
        let mut found = vec![(Utf8PathBuf::new(), ROOT)];
        let mut next = 0;
        while let Some((path, node)) = found.get(next).cloned() {
            if let Node::Directory { entries, .. } = &*self.nodes[node] {
                found.extend(entries.iter().map(|(name, node)| (path.join(name), *node)));
            }
            next += 1;
        }
        found
    }
}
