//! What this program brings for any cluster, in pieces that a distribution includes.

/// A piece: declarations, and files that are made of them.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) name: &'static str,
    pub(super) declarations: &'static str,
    pub(super) files: &'static [File],
}

/// A file of a piece.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: &'static str,
    pub(super) text: &'static str,
    pub(super) executable: bool,
}

/// All of them, in the order in which they are read.
pub(super) const PIECES: [Piece; 1] =
    [Piece { name: "cluster", declarations: include_str!("../../base/cluster.yaml"), files: &[] }];
