//! The file in which somebody writes down the hosts of a cluster.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Range;

use camino::{Utf8Path, Utf8PathBuf};
use package::diagnostic::{Diagnostic, Severity};
use package::document::{self, Fields, Node, Reader};
use package::id::RoleName;

use super::{Host, Inventory, seat};

/// After so many mistakes nobody reads on.
const MISTAKES_MAX: usize = 100;

/// What can be said of hosts, and of groups of them.
const SAID: [&str; 7] = ["port", "user", "key", "jump", "roles", "rack", "labels"];

/// Why an inventory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// It cannot be read.
    #[error("cannot read the inventory")]
    Read(#[from] io::Error),
    /// What is wrong with it.
    #[error("the inventory has mistakes")]
    Mistakes(Vec<Diagnostic>),
}

/// What can be said of the inventory as a whole.
const WHOLE: [&str; 4] = ["defaults", "groups", "hosts", "known_hosts"];

/// Reads an inventory. Files are named from the folder that it lies in.
pub fn read(path: &Utf8Path) -> Result<Inventory, InventoryError> {
    let bytes = document::read(path)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, format!("`{path}` is not UTF-8"))
    })?;
    parse(path, &text).map_err(InventoryError::Mistakes)
}

/// Reads the text of an inventory that is called `file`.
pub fn parse(file: &Utf8Path, text: &str) -> Result<Inventory, Vec<Diagnostic>> {
    let mut reader = Reader::new(file, text);
    let mut inventory = Inventory::default();
    if let Some(node) = reader.yaml() {
        inventory =
            File { reader: &mut reader, folder: file.parent().unwrap_or(Utf8Path::new("")) }
                .whole(&node);
    }
    let is_error = |found: &Diagnostic| found.severity == Severity::Error;
    if reader.diagnostics.iter().any(is_error) {
        return Err(reader.diagnostics);
    }
    Ok(inventory)
}

/// What is said of a host, or of all hosts of a group.
#[derive(Debug, Clone, Default)]
struct Said {
    port: Option<u16>,
    user: Option<String>,
    key: Option<Utf8PathBuf>,
    jump: Option<String>,
    roles: Option<BTreeSet<RoleName>>,
    rack: Option<String>,
    labels: BTreeMap<String, String>,
}

impl Said {
    /// The same, where `closer` says nothing else.
    fn under(mut self, closer: Self) -> Self {
        self.labels.extend(closer.labels);
        Self {
            port: closer.port.or(self.port),
            user: closer.user.or(self.user),
            key: closer.key.or(self.key),
            jump: closer.jump.or(self.jump),
            roles: closer.roles.or(self.roles),
            rack: closer.rack.or(self.rack),
            labels: self.labels,
        }
    }
}

struct File<'r, 'a> {
    reader: &'r mut Reader<'a>,
    folder: &'r Utf8Path,
}

impl File<'_, '_> {
    fn whole(&mut self, node: &Node) -> Inventory {
        let Some(fields) = self.reader.object(node, "the inventory", &WHOLE) else {
            return Inventory::default();
        };
        let known = fields.get("known_hosts");
        let known = known.and_then(|node| self.reader.string(node, "`known_hosts`"));
        let known_hosts = known.map(|file| self.folder.join(file));
        Inventory { hosts: self.hosts(node, fields), known_hosts }
    }

    fn hosts(&mut self, node: &Node, fields: Fields<'_>) -> Vec<Host> {
        let defaults = fields.get("defaults").and_then(|node| self.only_said(node, "`defaults`"));
        let defaults = defaults.unwrap_or_default();
        let groups = self.groups(fields);
        let Some(listed) = self.reader.required(fields, &node.span, "hosts", "the inventory")
        else {
            return Vec::new();
        };
        let (mut hosts, mut names, mut seats) = (Vec::new(), HashMap::new(), HashMap::new());
        for (at, node) in self.reader.list(listed, "`hosts`").iter().enumerate() {
            if self.reader.diagnostics.len() >= MISTAKES_MAX {
                break;
            }
            let Some(host) = self.host(node, at, &defaults, &groups) else { continue };
            if let Some(other) = names.insert(host.name.clone(), at) {
                let message = format!("`{}` is the name of `hosts[{other}]`, too", host.name);
                self.reader.error(&node.span, message, Some("give each a name of its own".into()));
            }
            let (address, port) = seat(&host.address, host.port);
            if let Some(other) = seats.insert((address, port, host.jump.clone()), at) {
                let message = format!("`{}` is where `hosts[{other}]` is, too", host.address);
                self.reader.error(&node.span, message, Some("remove one of them".into()));
            }
            hosts.push(host);
        }
        hosts
    }

    fn groups(&mut self, fields: Fields<'_>) -> HashMap<String, Said> {
        let Some(groups) = fields.get("groups") else { return HashMap::new() };
        let Some(groups) = self.reader.map(groups, "`groups`") else { return HashMap::new() };
        let mut known = HashMap::new();
        for (key, node) in groups.iter() {
            let said = self.only_said(node, &format!("group `{}`", key.name));
            known.insert(key.name.clone(), said.unwrap_or_default());
        }
        known
    }

    fn host(
        &mut self,
        node: &Node,
        at: usize,
        defaults: &Said,
        groups: &HashMap<String, Said>,
    ) -> Option<Host> {
        let what = format!("`hosts[{at}]`");
        let fields = self.reader.map(node, &what)?;
        let known = [&["address", "name", "groups"][..], &SAID].concat();
        self.reader.unknown_keys(fields, &what, &known, &[]);
        let address = self.reader.required(fields, &node.span, "address", &what)?;
        let address = self.address(address)?;
        let name = match fields.get("name") {
            Some(node) => self.word(node, "name")?,
            None => address.clone(),
        };
        let mut said = defaults.clone();
        for node in fields.get("groups").map_or(&[][..], |node| self.reader.list(node, "`groups`"))
        {
            let group = self.reader.string(node, "a group")?;
            match groups.get(group) {
                Some(group) => said = said.under(group.clone()),
                None => self.unknown_group(&node.span, group, groups),
            }
        }
        let Said { port, user, key, jump, roles, rack, labels } = said.under(self.said(fields));
        let roles = roles.unwrap_or_default();
        if roles.is_empty() {
            let help = "such as `roles: [master]`".to_owned();
            self.reader.error(&node.span, format!("{what} has no role"), Some(help));
        }
        Some(Host { name, address, port, user, key, jump, roles, rack, labels })
    }

    fn unknown_group(&mut self, span: &Range<usize>, group: &str, known: &HashMap<String, Said>) {
        let near = package::diagnostic::nearest(group, known.keys().map(String::as_str));
        let help = near.map_or_else(
            || "declare it below `groups`".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        self.reader.error(span, format!("there is no group `{group}`"), Some(help));
    }

    fn only_said(&mut self, node: &Node, what: &str) -> Option<Said> {
        let fields = self.reader.object(node, what, &SAID)?;
        Some(self.said(fields))
    }

    fn said(&mut self, fields: Fields<'_>) -> Said {
        let port = fields.get("port").and_then(|node| self.port(node));
        let word = |file: &mut Self, name| fields.get(name).and_then(|node| file.word(node, name));
        let key = fields.get("key").and_then(|node| self.reader.string(node, "`key`"));
        let key = key.map(|key| {
            if key.starts_with('~') { Utf8PathBuf::from(key) } else { self.folder.join(key) }
        });
        Said {
            port,
            user: word(self, "user"),
            key,
            jump: fields.get("jump").and_then(|node| self.jump(node)),
            roles: fields.get("roles").map(|node| self.roles(node)),
            rack: word(self, "rack"),
            labels: fields.get("labels").map(|node| self.labels(node)).unwrap_or_default(),
        }
    }

    fn jump(&mut self, node: &Node) -> Option<String> {
        let text = self.word(node, "jump")?;
        if !crate::transport::ssh::names_jumps(&text) {
            let help =
                "write it as [USER@]HOST[:PORT], several with commas between them".to_owned();
            self.reader.error(&node.span, format!("`{text}` names no jump host"), Some(help));
            return None;
        }
        Some(text)
    }

    fn port(&mut self, node: &Node) -> Option<u16> {
        let number = self.reader.number(node, "`port`", 0)?;
        let port = u16::try_from(number).ok().filter(|port| *port > 0);
        if port.is_none() {
            let message = format!("`port` is {number}, expected 1 to 65535");
            self.reader.error(&node.span, message, None);
        }
        port
    }

    fn roles(&mut self, node: &Node) -> BTreeSet<RoleName> {
        let items = self.reader.list(node, "`roles`");
        items.iter().filter_map(|node| self.reader.parse(node, "a role")).collect()
    }

    fn labels(&mut self, node: &Node) -> BTreeMap<String, String> {
        let Some(fields) = self.reader.map(node, "`labels`") else { return BTreeMap::new() };
        let mut labels = BTreeMap::new();
        for (key, node) in fields.iter() {
            if let Some(value) = self.reader.scalar(node, "a label") {
                labels.insert(key.name.clone(), value.to_string());
            }
        }
        labels
    }

    /// A text without spaces, that no program takes for an option.
    fn word(&mut self, node: &Node, name: &str) -> Option<String> {
        let text = self.reader.string(node, &format!("`{name}`"))?;
        let is_bad = |c: char| c.is_whitespace() || c.is_control();
        if text.is_empty() || text.starts_with('-') || text.contains(is_bad) {
            let message = format!("`{name}` is {text:?}, expected a word");
            self.reader.error(&node.span, message, None);
            return None;
        }
        Some(text.to_owned())
    }

    /// The name or the address of a machine, and nothing besides.
    fn address(&mut self, node: &Node) -> Option<String> {
        let text = self.word(node, "address")?;
        let help = if text.contains('@') {
            "who logs in stands in `user`"
        } else if text.parse::<std::net::IpAddr>().is_ok() {
            return Some(text);
        } else if text.contains(['[', ']', ':']) {
            "an address stands without brackets, and the port in `port`"
        } else if text.contains(|c: char| !c.is_ascii_alphanumeric() && !"-._".contains(c)) {
            "expected letters, digits, `-`, `.`"
        } else {
            return Some(text);
        };
        let message = format!("`{text}` is not the name or address of a machine");
        self.reader.error(&node.span, message, Some(help.to_owned()));
        None
    }
}
