//! Recorded changes on a disk, by the identity of files.
//!
//! Where changes before it were lost, a change may be impossible; then nothing happens, as on a real
//! disk, where it could not have been the only one to last.

use std::collections::BTreeMap;
use std::sync::Arc;

use camino::Utf8PathBuf;

use super::{Content, Disk, Node, NodeId};
use crate::trace::{Change, Entry, FileId, Made, Onto};

/// What becomes of a change in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    Lost,
    /// Of a write, only the first half.
    Torn,
}

/// A disk on which a record is replayed.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    pub(crate) disk: Disk,
    /// Where the files of the record are.
    nodes: Vec<Option<NodeId>>,
}

impl Replay {
    /// A record begins on `disk`.
    pub(crate) fn new(disk: Disk, origins: &[Option<Utf8PathBuf>]) -> Self {
        let find = |origin: &Option<Utf8PathBuf>| disk.find(origin.as_deref()?);
        Self { nodes: origins.iter().map(find).collect(), disk }
    }

    /// Makes one change.
    pub(crate) fn apply(&mut self, change: &Change, fate: Fate) {
        let kept = fate != Fate::Lost;
        match change {
            Change::Make { entry, file, made } => {
                let node = match made {
                    Made::File(mode) => new_file(*mode),
                    Made::Directory(mode) => {
                        Node::Directory { mode: *mode, entries: BTreeMap::new() }
                    }
                    Made::Link(target) => Node::Link(target.clone()),
                };
                // Where its name is lost, the file is there all the same: it may get another.
                self.add(*file, node);
                if kept {
                    self.name(entry, *file);
                }
            }
            Change::MakeUnnamed { file, mode } => self.add(*file, new_file(*mode)),
            Change::Link { entry, file } if kept => self.name(entry, *file),
            Change::Remove { entry, file, .. } if kept => self.remove(entry, *file),
            Change::Rename { from, to, file, replaced, onto } if kept => {
                self.rename((from, *file), (to, *replaced), *onto);
            }
            Change::Write { file, offset, bytes } if kept => {
                let half = if fate == Fate::Torn { bytes.len() / 2 } else { bytes.len() };
                self.edit(*file, |content| write(content, *offset, &bytes[..half]));
            }
            Change::Resize { file, length } if kept => {
                self.edit(*file, |content| content.resize(to_size(*length), 0));
            }
            Change::Mode { file, mode } if kept => {
                let Some(node) = self.node(*file) else { return };
                match Arc::make_mut(&mut self.disk.nodes[node]) {
                    Node::File { mode: old, same, .. } => (*old, *same) = (*mode, None),
                    Node::Directory { mode: old, .. } => *old = *mode,
                    Node::Link(_) => {}
                }
            }
            _ => {}
        }
    }

    fn node(&self, file: FileId) -> Option<NodeId> {
        self.nodes.get(file.index()).copied().flatten()
    }

    fn add(&mut self, file: FileId, node: Node) {
        if self.nodes.len() <= file.index() {
            self.nodes.resize(file.index() + 1, None);
        }
        self.nodes[file.index()] = Some(self.disk.nodes.len());
        self.disk.nodes.push(Arc::new(node));
    }

    /// What an entry names.
    fn named(&self, entry: &Entry) -> Option<NodeId> {
        match &*self.disk.nodes[self.node(entry.directory)?] {
            Node::Directory { entries, .. } => entries.get(&entry.name).copied(),
            _ => None,
        }
    }

    fn entries<R>(
        &mut self,
        directory: FileId,
        edit: impl FnOnce(&mut BTreeMap<String, NodeId>) -> R,
    ) -> Option<R> {
        let node = self.node(directory)?;
        match Arc::make_mut(&mut self.disk.nodes[node]) {
            Node::Directory { entries, .. } => Some(edit(entries)),
            _ => None,
        }
    }

    fn name(&mut self, entry: &Entry, file: FileId) {
        if let Some(node) = self.node(file) {
            self.entries(entry.directory, |names| {
                names.entry(entry.name.clone()).or_insert(node);
            });
        }
    }

    /// Takes a name away; a directory goes with what is in it, since if its removal lasted, so did
    /// theirs.
    fn remove(&mut self, entry: &Entry, file: FileId) {
        if self.named(entry).is_some_and(|node| Some(node) == self.node(file)) {
            self.entries(entry.directory, |names| names.remove(&entry.name));
        }
    }

    fn rename(
        &mut self,
        (from, file): (&Entry, FileId),
        (to, replaced): (&Entry, Option<FileId>),
        onto: Onto,
    ) {
        let Some(moved) = self.node(file) else { return };
        if self.named(from) != Some(moved) || self.node(to.directory).is_none() {
            return;
        }
        let there = self.named(to);
        let expected = replaced.and_then(|file| self.node(file));
        // What only stands there because changes were lost makes way if the kernel would let it.
        let in_the_way = there.is_some_and(|node| onto != Onto::Replace || self.is_full(node));
        if there != expected && (in_the_way || onto == Onto::Exchange) {
            return;
        }
        if self.holds(moved, to.directory) {
            return;
        }
        self.entries(from.directory, |names| names.remove(&from.name));
        self.entries(to.directory, |names| names.insert(to.name.clone(), moved));
        if let (Onto::Exchange, Some(other)) = (onto, there) {
            self.entries(from.directory, |names| names.insert(from.name.clone(), other));
        }
    }

    /// Whether this is a directory with something in it.
    fn is_full(&self, node: NodeId) -> bool {
        matches!(&*self.disk.nodes[node], Node::Directory { entries, .. } if !entries.is_empty())
    }

    /// Whether `directory` is `node` or below it: then `node` cannot move there.
    fn holds(&self, node: NodeId, directory: FileId) -> bool {
        let mut waiting = vec![node];
        while let Some(node) = waiting.pop() {
            if Some(node) == self.node(directory) {
                return true;
            }
            if let Node::Directory { entries, .. } = &*self.disk.nodes[node] {
                waiting.extend(entries.values());
            }
        }
        false
    }

    fn edit(&mut self, file: FileId, edit: impl FnOnce(&mut Vec<u8>)) {
        let Some(node) = self.node(file) else { return };
        if let Node::File { content, same, .. } = Arc::make_mut(&mut self.disk.nodes[node]) {
            let mut bytes = match Arc::get_mut(content) {
                Some(content) => std::mem::take(&mut content.bytes),
                None => content.bytes.clone(),
            };
            edit(&mut bytes);
            *content = Arc::new(bytes.into());
            *same = None;
        }
    }
}

fn new_file(mode: u32) -> Node {
    Node::File { mode, content: Arc::new(Content::default()), same: None }
}

fn write(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let start = to_size(offset);
    let end = start + bytes.len();
    // Where an earlier write was lost there are zeros.
    if content.len() < end {
        content.resize(end, 0);
    }
    content[start..end].copy_from_slice(bytes);
}

fn to_size(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}
