//! `config/preflight.yaml` of a tree: a template, whose mistakes are found before anything is published.

use crate::world::{BASE, World, load, show};

fn world(preflight: &str) -> Result<World, String> {
    let declared = "include: [base]\nparameters:\n  pass: {type: secret, default: ''}\n";
    let files = [("config/config.yaml", declared), ("config/preflight.yaml", preflight)];
    load(&files).map(World::with)
}

fn made(preflight: &str, config: &str) -> String {
    let world = match world(preflight) {
        Ok(world) => world,
        Err(said) => return said,
    };
    match world.definition.preflight(&world.good(config)) {
        Ok(made) => String::from_utf8(made.unwrap().to_json()).unwrap(),
        Err(found) => show(&found),
    }
}

#[test]
fn values_are_filled_in_before_it_is_read() {
    let preflight = "checks:
  address:
    script: {{ ip_detect_contents | tojson }}
    expected: {{ master_list | tojson }}
    roles: [master]
{% for port in [2379, 2380] %}
  # {{ port }}
{% endfor %}
  ports: {tcp: [2379, 2380], roles: [master]}
";
    insta::assert_snapshot!(made(preflight, BASE), @r##"
    {
      "checks":[
        {
          "check":"address",
          "expected":[
            "192.0.2.11"
          ],
          "roles":[
            "master"
          ],
          "script":"#!/bin/sh\necho 192.0.2.1\n"
        },
        {
          "addresses":[],
          "check":"ports",
          "roles":[
            "master"
          ],
          "tcp":[
            2379,
            2380
          ],
          "udp":[]
        }
      ],
      "format":1
    }
    "##);
}

#[test]
fn mistakes_are_told_where_they_were_written() {
    let above = "{% if true %}\n# one\n{% endif %}\n{% if false %}\n# two\n{% endif %}\n";
    let preflight = format!("{above}checks:\n  memmory: 4 GiB\n  cpus: {{{{ cluster_name }}}}\n");
    insta::assert_snapshot!(made(&preflight, BASE), @"
    error: there is no check `memmory`
     --> config/preflight.yaml:8:3
      |
    8 |   memmory: 4 GiB
      |   ^^^^^^^
      |
      = help: did you mean `memory`?
    error: `at_least` of check `cpus` is a string, expected a whole number (in the file as it is with its values filled in)
     --> config/preflight.yaml:4:9
      |
    4 |   cpus: Reef
      |         ^^^^
    ");
}

#[test]
fn it_holds_nothing_that_not_everybody_may_have() {
    insta::assert_snapshot!(made("own: [{name: a, command: [{{ pass }}]}]\n", BASE), @"
    error: `pass` is a secret, and everybody can read this file
     --> config/preflight.yaml:1:30
      |
    1 | own: [{name: a, command: [{{ pass }}]}]
      |                              ^^^^
    ");
    insta::assert_snapshot!(made("checks: {names: {{ agent_list | tojson }}}\n", BASE), @"
    error: `agent_list` is not for hosts, but this file uses it
    --> config/preflight.yaml
    ");
    insta::assert_snapshot!(made("checks: {names: {{ mastr_list | tojson }}}\n", BASE), @"
    error: no parameter is called `mastr_list`
     --> config/preflight.yaml:1:20
      |
    1 | checks: {names: {{ mastr_list | tojson }}}
      |                    ^^^^^^^^^^
      |
      = help: did you mean `master_list`?
    ");
    let late = "bootstrap_url: http://192.0.2.10
cluster_name: Reef
master_discovery: master_http_loadbalancer
num_masters: 3
exhibitor_storage_backend: zookeeper
exhibitor_zk_hosts: 192.0.2.5:2181
exhibitor_zk_path: /reef
late_values: [exhibitor_address]
";
    insta::assert_snapshot!(made("checks: {names: ['{{ exhibitor_address }}']}\n", late), @"
    error: this file has a late value in it, which nobody knows before
    --> config/preflight.yaml
    ");
}

/// The example distribution, and a configuration that it takes.
fn atoll() -> (World, String) {
    let tree = camino::Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/atoll");
    let world = World::with(config::Definition::load(&tree).unwrap());
    (world, BASE.replace("exhibitor_storage_backend: static\n", ""))
}

#[test]
fn the_example_distribution_refuses_what_cannot_work() {
    let (world, config) = atoll();
    for address in ["127.0.0.1", "0.0.0.0"] {
        let said = world.said(&config.replace("192.0.2.11", address));
        assert!(said.contains("no other host reaches a master at"), "{address}: {said}");
    }
    for port in [22, 2379] {
        let said = world.said(&format!("{config}router_port: {port}\n"));
        assert!(said.contains(&format!("`{port}` is the port of SSH or of another")), "{said}");
    }
    world.good(&format!("{config}router_port: 8080\n"));
}

#[test]
fn the_example_distribution_says_what_its_hosts_must_be() {
    let (world, config) = atoll();
    let made = world.definition.preflight(&world.good(&config));
    let made = made.unwrap_or_else(|found| panic!("{}", show(&found))).unwrap();
    let lines = made.checks.iter().map(|one| {
        let roles: Vec<&str> = one.roles.iter().map(package::id::RoleName::as_str).collect();
        format!("{} {}", one.check.name(), roles.join(" ")).trim_end().to_owned()
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join(", "), @"ports master, ports master, ports master slave_public, ports, ports, memory master, memory, architecture, kernel, commands, clock, address master, address slave slave_public, state-disk");
    let reach = made.reach.iter().map(|one| serde_json::to_string(one).unwrap());
    insta::assert_snapshot!(reach.collect::<Vec<_>>().join("\n"), @r#"
    {"to":["master"],"tcp":[80,2379,4222]}
    {"from":["master"],"to":["master"],"tcp":[2380,6222]}
    {"from":["master"],"tcp":[9100]}
    "#);
}
