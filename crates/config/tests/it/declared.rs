//! A small distribution of its own, for the tests that look at values.

use camino::Utf8Path;
use config::{Definition, Input, Resolution};
use package::distribution::Distribution;
use testing::files::write_files;

/// Declarations with one of everything.
pub(crate) const SHOP: &str = r#"
include: []
roles: [front, back]
parameters:
  cluster_name:
    type: string
    required: true
    immutable: true
    min_length: 1
    description: The name of the cluster. People read it.
    example: Main Street
  storage:
    type: enum
    allowed: [local, shared]
    default: local
    description: Where orders are kept.
  log_level:
    type: enum
    allowed: [info, debug]
    default: info
    restart: false
    description: How much is written to the log.
    since: "1.2"
  workers:
    type: int
    min: 1
    max: 64
    default: 4
  zone:
    type: string
    default_from: cluster_name | lower
    immutable: true
    description: The DNS zone.
  password:
    type: secret
    default: ""
    description: What the front sends to the back.
  ssh_port:
    type: port
    default: 22
    scope: controller
    description: Where hosts are reached.
  region:
    type: string
    default: here
    late: true
computed:
  threads: workers * 2
  pool: threads + 1
  login: "'front:' ~ password"
groups:
  - when: storage == "shared"
    parameters:
      servers:
        type: list
        items: {type: ip, family: v4}
        unique: true
        min_length: 1
        required: true
        description: The servers that keep the orders.
        example: [10.0.0.1, 10.0.0.2]
      mount_options: {type: string, default: rw}
    computed:
      server_count: servers | length
rules:
  - check: workers < 64 or storage == "local"
    message: "{{ workers }} workers are too many for shared storage"
    keys: [workers, storage]
"#;

/// What these declarations say.
pub(crate) fn define(declarations: &str) -> Definition {
    let folder = tempfile::tempdir().unwrap();
    let tree = Utf8Path::from_path(folder.path()).unwrap();
    write_files(tree, &[("config/shop.yaml", declarations, 0o644)]).unwrap();
    Definition::load(tree).unwrap()
}

/// The values of a file with this text.
pub(crate) fn resolve(definition: &Definition, text: &str) -> Resolution {
    let input =
        Input { file: Utf8Path::new("config.yaml"), text, folder: Utf8Path::new("/nowhere") };
    definition.resolve(&input, &Distribution::named("shop", "1.2.3"))
}
