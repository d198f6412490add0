//! Who the hosts are, as somebody wrote it down.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use camino::Utf8Path;
use fleet::inventory::{Host, Inventory, Lists, SelectError, Selection, file};

fn parse(text: &str) -> Inventory {
    file::parse(Utf8Path::new("hosts/inventory.yaml"), text).unwrap()
}

fn mistakes(text: &str) -> String {
    let found = file::parse(Utf8Path::new("inventory.yaml"), text).unwrap_err();
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn names(inventory: &Inventory) -> Vec<&str> {
    inventory.hosts.iter().map(|host| host.name.as_str()).collect()
}

const CLUSTER: &str = "
defaults: {user: deploy, port: 2222, key: id_fleet}
groups:
  far: {jump: bastion.example, rack: r9, labels: {site: far}}
  old: {labels: {site: old, tls: 1}}
hosts:
  - {name: m1, address: 10.0.0.1, roles: [master]}
  - {name: m2, address: 'fd00::2', roles: [master], port: 22, user: root}
  - {address: a1.example, roles: [slave, extra], groups: [far, old], rack: r1, key: ~/.ssh/other}
";

#[test]
fn what_is_closer_to_a_host_counts() {
    let inventory = parse(CLUSTER);
    assert_eq!(names(&inventory), ["m1", "m2", "a1.example"]);
    let m1 = inventory.host("m1").unwrap();
    assert_eq!((m1.user.as_deref(), m1.port), (Some("deploy"), Some(2222)));
    assert_eq!(m1.key.as_deref(), Some(Utf8Path::new("hosts/id_fleet")));
    let m2 = inventory.host("m2").unwrap();
    assert_eq!((m2.user.as_deref(), m2.port), (Some("root"), Some(22)));
    let a1 = inventory.host("a1.example").unwrap();
    assert_eq!(a1.jump.as_deref(), Some("bastion.example"));
    assert_eq!(a1.rack.as_deref(), Some("r1"));
    assert_eq!(a1.key.as_deref(), Some(Utf8Path::new("~/.ssh/other")));
    let labels = [("site", "old"), ("tls", "1")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(a1.labels, BTreeMap::from(labels));
    assert_eq!(a1.roles.len(), 2);
}

#[test]
fn an_inventory_says_where_the_keys_of_its_hosts_are() {
    let known = |text: &str| parse(text).known_hosts;
    let hosts = "hosts: [{address: m1, roles: [master]}]\n";
    assert_eq!(known(hosts), None);
    let said = |file: &str| known(&format!("known_hosts: {file}\n{hosts}")).unwrap();
    assert_eq!(said("keys"), "hosts/keys");
    assert_eq!(said("/etc/keys"), "/etc/keys");
    let some = Selection { hosts: vec!["m1".to_owned()], ..Selection::default() };
    let chosen = parse(&format!("known_hosts: keys\n{hosts}")).select(&some).unwrap();
    assert_eq!(chosen.known_hosts.unwrap(), "hosts/keys");
}

#[test]
fn every_mistake_is_told_with_its_place() {
    let text = "
defaults: {usr: x}
hosts:
  - {address: 10.0.0.1, roles: [master]}
  - {address: '::ffff:10.0.0.1', roles: [slave]}
  - {name: m, address: b, roles: [slave], port: 0}
  - {name: m, address: c, roles: []}
  - {address: 'root@d', roles: [slave]}
  - {address: 'd:22', roles: [slave]}
  - {address: '-oProxyCommand=x', roles: [slave]}
  - {address: e, roles: [slave], groups: [nowhere]}
  - {address: f, roles: ['Not A Role'], port: 70000}
  - {roles: [slave]}
  - 7
";
    insta::assert_snapshot!(mistakes(text), @r#"
    inventory.yaml:2:12: unknown key `usr` in `defaults` (did you mean `user`?)
    inventory.yaml:5:5: `::ffff:10.0.0.1` is where `hosts[0]` is, too (remove one of them)
    inventory.yaml:6:49: `port` is 0, expected 1 to 65535
    inventory.yaml:7:5: `hosts[3]` has no role (such as `roles: [master]`)
    inventory.yaml:7:5: `m` is the name of `hosts[2]`, too (give each a name of its own)
    inventory.yaml:8:15: `root@d` is not the name or address of a machine (who logs in stands in `user`)
    inventory.yaml:9:15: `d:22` is not the name or address of a machine (an address stands without brackets, and the port in `port`)
    inventory.yaml:10:15: `address` is "-oProxyCommand=x", expected a word
    inventory.yaml:11:43: there is no group `nowhere` (declare it below `groups`)
    inventory.yaml:12:47: `port` is 70000, expected 1 to 65535
    inventory.yaml:12:26: a role: `Not A Role` is not a valid role name: expected letters, digits and `_-`, starting with a letter or digit
    inventory.yaml:12:5: `hosts[8]` has no role (such as `roles: [master]`)
    inventory.yaml:13:5: `hosts[9]` lacks the key `address`
    inventory.yaml:14:5: `hosts[10]` is a whole number, expected an object
    "#);
}

#[test]
fn a_jump_host_that_is_none_is_told_with_its_place() {
    let text = "defaults: {jump: 'me@'}\nhosts:\n  - {address: a, roles: [slave], jump: 'b:x'}\n  \
                - {address: c, roles: [slave], jump: 'me@b:22,[fe80::1]:23'}\n";
    insta::assert_snapshot!(mistakes(text), @"
    inventory.yaml:1:18: `me@` names no jump host (write it as [USER@]HOST[:PORT], several with commas between them)
    inventory.yaml:3:40: `b:x` names no jump host (write it as [USER@]HOST[:PORT], several with commas between them)
    ");
}

#[test]
fn what_is_no_inventory_is_refused() {
    let found = ["", "[1]", "hosts: {", "hosts: x"].map(mistakes).join("\n");
    insta::assert_snapshot!(found, @"
    inventory.yaml:1:1: the inventory lacks the key `hosts`
    inventory.yaml:1:1: the inventory is a list, expected an object
    inventory.yaml:1:8: not valid YAML: unclosed bracket '{' (each `[` needs a `]`, each `{` a `}`)
    inventory.yaml:1:8: `hosts` is a string, expected a list
    ");
}

#[test]
fn thousands_of_mistakes_are_not_all_told() {
    let mut text = String::from("hosts:\n");
    for _ in 0..5000 {
        text.push_str("  - {address: same, roles: [slave]}\n");
    }
    let told = mistakes(&text).lines().count();
    assert!((100..=102).contains(&told), "{told}");
}

fn lists(addresses: &[(&str, &[&str])]) -> Lists {
    let addresses = addresses.iter().map(|(role, addresses)| {
        (role.parse().unwrap(), addresses.iter().map(|address| (*address).to_owned()).collect())
    });
    Lists { addresses: addresses.collect(), port: Some(22), ..Lists::default() }
}

#[test]
fn a_host_in_two_lists_has_both_roles_and_one_twice_in_a_list_is_a_mistake() {
    let both = lists(&[("master", &["10.0.0.1", "10.0.0.2"]), ("slave", &["10.0.0.2"])]);
    let inventory = Inventory::of_lists(&both).unwrap();
    assert_eq!(names(&inventory), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(inventory.hosts[1].roles.len(), 2);
    let twice = lists(&[("slave", &["fd00::1", "FD00:0::1"])]);
    let error = Inventory::of_lists(&twice).unwrap_err();
    insta::assert_snapshot!(error, @"`FD00:0::1` stands twice among `slave`");
}

fn select(inventory: &Inventory, selection: &Selection) -> Result<Vec<String>, SelectError> {
    let chosen = inventory.select(selection)?;
    Ok(names(&chosen).into_iter().map(str::to_owned).collect())
}

#[test]
fn a_part_is_what_all_limits_mean_together() {
    let inventory = parse(CLUSTER);
    let of = |hosts: &[&str], roles: &[&str], labels: &[(&str, &str)]| Selection {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
        labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
    };
    let chosen = |selection| select(&inventory, &selection).unwrap();
    assert_eq!(chosen(of(&[], &[], &[])).len(), 3);
    assert_eq!(chosen(of(&["10.0.0.1", "a1.example"], &[], &[])), ["m1", "a1.example"]);
    assert_eq!(chosen(of(&[], &["master", "none"], &[])), ["m1", "m2"]);
    assert_eq!(chosen(of(&[], &[], &[("site", "old")])), ["a1.example"]);
    assert_eq!(select(&inventory, &of(&["m1"], &["slave"], &[])), Err(SelectError::Nobody));
    let error = select(&inventory, &of(&["m1", "m3", "x9"], &[], &[])).unwrap_err();
    insta::assert_snapshot!(error, @"no host is called `m3`, `x9`");
    let SelectError::Unknown { near, .. } = error else { panic!() };
    assert_eq!(near.as_deref(), Some("m2"));
}

#[test]
fn what_was_read_can_be_kept_and_read_again() {
    let inventory = parse(CLUSTER);
    let text = serde_json::to_string(&inventory).unwrap();
    assert_eq!(serde_json::from_str::<Inventory>(&text).unwrap(), inventory);
}

#[test]
fn fifty_thousand_hosts_of_which_much_is_known_are_read() {
    let mut text = String::from("defaults: {user: root, roles: [slave]}\nhosts:\n");
    for at in 0..50_000 {
        let (high, low) = (at / 250, at % 250 + 1);
        let _ = writeln!(
            text,
            "  - {{name: a{at}, address: 10.0.{high}.{low}, roles: [slave], rack: r{high}, \
             labels: {{site: east, canary: 'false'}}}}"
        );
    }
    let inventory = parse(&text);
    assert_eq!(inventory.hosts.len(), 50_000);
    let last: &Host = &inventory.hosts[49_999];
    assert_eq!(last.address, "10.0.199.250");
}
