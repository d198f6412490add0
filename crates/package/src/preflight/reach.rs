//! Who must reach whom, as a distribution writes it.

use std::collections::BTreeSet;

use super::Reach;
use super::entry::Entry;
use crate::document::{Node, Reader};
use crate::id::RoleName;

/// Reads the list.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node, roles: &BTreeSet<RoleName>) -> Vec<Reach> {
    let mut found = Vec::new();
    for node in reader.list(node, "`reach`") {
        let what = "an entry of `reach`".to_owned();
        let Some(fields) = reader.object(node, &what, &["from", "to", "tcp"]) else { continue };
        let span = node.span.clone();
        let mut entry = Entry { reader, what, span, main: None, fields: Some(fields) };
        let (from, to) = (entry.roles("from", roles), entry.roles("to", roles));
        let Some(given) = entry.required("tcp") else { continue };
        let before = entry.reader.diagnostics.len();
        let tcp = entry.ports("tcp");
        if tcp.is_empty() && entry.reader.diagnostics.len() == before {
            entry.reader.error(&given.span, "an entry of `reach` names no port", None);
        }
        found.push(Reach { from, to, tcp });
    }
    found
}
