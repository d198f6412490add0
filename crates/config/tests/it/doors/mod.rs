//! The other doors: what is made for other tools is what they take, and no value breaks out of it.

mod used;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use camino::Utf8Path;
use config::door::{Door, DoorError, Doors, Role};
use package::Sha256;
use package::distribution::Distribution;
use proptest::prelude::*;
use serde_json::{Value, json};

const SCRIPT: &[u8] = b"#!/bin/sh\necho installed\n";

fn role(name: &str, hosts: &[&str], needs_key: bool) -> Role {
    let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
    Role { name: name.parse().unwrap(), hosts, needs_key }
}

fn roles() -> Vec<Role> {
    vec![
        role("master", &["10.0.0.1", "10.0.0.2"], true),
        role("slave", &[], false),
        role("edge-router", &["edge.example.com", "2001:db8::7"], false),
    ]
}

fn files_of(
    door: Door,
    distribution: &Distribution,
    url: Option<&str>,
    roles: Vec<Role>,
) -> Result<BTreeMap<String, String>, DoorError> {
    let bundle = Sha256::of(b"bundle");
    let doors = Doors { distribution, bootstrap_url: url, roles, bundle, script: SCRIPT };
    let files = doors.files(door)?;
    let text = |content| String::from_utf8(content).unwrap();
    Ok(files.into_iter().map(|(path, (content, _))| (path.to_string(), text(content))).collect())
}

fn files(door: Door) -> BTreeMap<String, String> {
    let distribution = Distribution::named("atoll", "1.0");
    files_of(door, &distribution, Some("http://boot.example:8080/atoll"), roles()).unwrap()
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Runs a program that must be content with `input`.
fn content_with(program: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}\n{input}");
    said
}

/// Every shell script in the files of a door, also those within user data.
fn scripts(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files {
        if text.starts_with("#!/bin/sh\n") {
            found.push(text.clone());
        } else if text.starts_with("#cloud-config\n") {
            let written = written(text).into_values();
            found.extend(written.filter(|content| content.starts_with("#!/bin/sh\n")));
        } else if path == "template.yaml" {
            for data in user_data(&yaml(text)).values() {
                let written = written(data).into_values();
                found.extend(written.filter(|content| content.starts_with("#!/bin/sh\n")));
            }
        }
    }
    found
}

/// The files that user data writes, by path.
fn written(user_data: &str) -> BTreeMap<String, String> {
    let files = yaml(user_data)["write_files"].as_array().unwrap().clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    files.iter().map(|file| (text(&file["path"]), text(&file["content"]))).collect()
}

#[test]
fn every_door_is_made_as_it_should_be() {
    let script = files(Door::Image)["root/usr/local/sbin/atoll-install"].clone();
    let indented = |blanks: usize| {
        let lines = script.lines().map(|line| format!("{}{line}", " ".repeat(blanks)));
        let lines = lines.map(|line| if line.trim() == "" { "\n".to_owned() } else { line + "\n" });
        lines.collect::<String>()
    };
    for door in Door::ALL {
        let mut shown = Vec::new();
        for (path, text) in files(door) {
            let text = match door {
                Door::Image => text,
                // It was shown already.
                _ => [0, 6, 20].into_iter().fold(text, |text, blanks| {
                    let at_aws = indented(blanks).replace("${", "${!");
                    let text = text.replace(&indented(blanks), "[the script]\n");
                    text.replace(&at_aws, "[the script]\n")
                }),
            };
            shown.push(format!("######## {path}\n{text}"));
        }
        insta::assert_snapshot!(format!("door_{}", door.name()), shown.join("\n"));
    }
}

#[test]
fn every_script_is_one_that_a_plain_shell_takes() {
    let mut count = 0;
    for door in Door::ALL {
        for script in scripts(&files(door)) {
            content_with("sh", &["-n"], &script);
            content_with("shellcheck", &["--shell=sh", "-"], &script);
            count += 1;
        }
    }
    assert_eq!(count, 4 + 4 + 8, "user data, its template, and the others");
}

#[test]
fn every_door_runs_the_same_script() {
    let expected = files(Door::Image)["root/usr/local/sbin/atoll-install"].clone();
    for (door, path) in [
        (Door::Ansible, "roles/atoll/files/atoll-install.sh"),
        (Door::Puppet, "atoll/files/atoll-install.sh"),
        (Door::Salt, "atoll/atoll-install.sh"),
        (Door::Chef, "atoll/files/atoll-install.sh"),
    ] {
        assert_eq!(files(door)[path], expected);
    }
    let unit = files(Door::Image)["root/etc/systemd/system/atoll-first-boot.service"].clone();
    for role in ["master", "slave", "edge-router"] {
        let data = files(Door::CloudInit)[&format!("{role}.yaml")].clone();
        assert!(data.starts_with("#cloud-config\n"));
        let written = written(&data);
        assert_eq!(written["/usr/local/sbin/atoll-install"], expected);
        assert_eq!(written["/etc/systemd/system/atoll-first-boot.service"], unit);
        assert_eq!(written["/etc/atoll-install/roles"], format!("{role}\n"));
        let has_command = written.contains_key("/etc/atoll-install/key-command");
        assert_eq!(has_command, role == "master");
    }
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let folder = tempfile::tempdir().unwrap();
    let unit = files(Door::Image)["root/etc/systemd/system/atoll-first-boot.service"].clone();
    let path = folder.path().join("atoll-first-boot.service");
    // What it runs must be there.
    fs_err::write(&path, unit.replace("/usr/local/sbin/atoll-install", "/bin/true")).unwrap();
    let output = Command::new("systemd-analyze").arg("verify").arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("first-boot"), "{said}");
}

#[test]
fn a_cookbook_is_ruby() {
    for (path, text) in files(Door::Chef) {
        if Utf8Path::new(&path).extension() == Some("rb") {
            content_with("ruby", &["-c"], &text);
        }
    }
}

/// What Salt does with a state before it reads it.
const RENDER: &str = "
import sys, json, jinja2, yaml
pillar = {'atoll:roles': ['master'], 'atoll:keys': {'master': 'secret'}}
salt = {'pillar.get': lambda name, default: pillar.get(name, default)}
print(json.dumps(yaml.safe_load(jinja2.Template(sys.stdin.read()).render(salt=salt))))
";

#[test]
fn a_state_is_one_that_salt_can_read() {
    let state = &files(Door::Salt)["atoll/init.sls"];
    let said = content_with("/usr/bin/python3", &["-c", RENDER], state);
    let state: Value = serde_json::from_str(&said).unwrap();
    let keys: Vec<&String> = state.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "/etc/atoll-install",
            "/usr/local/sbin/atoll-install",
            "/etc/atoll-install/master.agekey",
            "install-atoll"
        ]
    );
    let command = &state["install-atoll"]["cmd.run"][0]["name"];
    assert_eq!(command, "/usr/local/sbin/atoll-install --once master");
}

/// The user data of each role in a template of AWS, as a machine gets it.
fn user_data(template: &Value) -> BTreeMap<String, String> {
    let resources = template["Resources"].as_object().unwrap();
    let launch = resources.iter().filter(|(_, one)| one["Type"] == "AWS::EC2::LaunchTemplate");
    launch
        .map(|(name, one)| {
            let data = &one["Properties"]["LaunchTemplateData"]["UserData"];
            let text = data["Fn::Base64"]["Fn::Sub"].as_str().unwrap();
            let value = |name: &str| format!("value-of-{}", name.replace("::", "-"));
            (name.trim_end_matches("Template").to_owned(), substituted(text, &value))
        })
        .collect()
}

/// What `Fn::Sub` makes of a text.
fn substituted(text: &str, value: &dyn Fn(&str) -> String) -> String {
    let Some((before, rest)) = text.split_once("${") else { return text.to_owned() };
    let (name, rest) = rest.split_once('}').unwrap();
    let replaced = match name.strip_prefix('!') {
        Some(literal) => format!("${{{literal}}}"),
        None => value(name),
    };
    format!("{before}{replaced}{}", substituted(rest, value))
}

/// Every name that a template of AWS refers to, with the kind of reference.
fn references(value: &Value, found: &mut Vec<(&'static str, String)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("Ref", Value::String(name)) => found.push(("value", name.clone())),
                    ("Fn::GetAtt", Value::Array(parts)) => {
                        found.push(("resource", parts[0].as_str().unwrap().to_owned()));
                    }
                    ("Fn::If", Value::Array(parts)) => {
                        found.push(("condition", parts[0].as_str().unwrap().to_owned()));
                    }
                    ("Fn::Sub", Value::String(text)) => {
                        let names = std::cell::RefCell::new(Vec::new());
                        substituted(text, &|name| {
                            names.borrow_mut().push(("value", name.to_owned()));
                            String::new()
                        });
                        found.extend(names.into_inner());
                    }
                    _ => {}
                }
                references(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn everything_that_the_template_of_aws_refers_to_exists() {
    let template = yaml(&files(Door::CloudFormation)["template.yaml"]);
    let mut found = Vec::new();
    references(&template, &mut found);
    let has = |section: &str, name: &str| template[section].get(name).is_some();
    for (kind, name) in &found {
        let exists = match *kind {
            "condition" => has("Conditions", name),
            "resource" => has("Resources", name),
            _ => {
                ["AWS::Region", "AWS::NoValue"].contains(&name.as_str())
                    || has("Parameters", name)
                    || has("Resources", name)
            }
        };
        assert!(exists, "{kind} {name}");
    }
    // And every parameter is used.
    for parameter in template["Parameters"].as_object().unwrap().keys() {
        assert!(found.iter().any(|(_, name)| name == parameter), "{parameter}");
    }
    assert_eq!(template["Parameters"]["MasterCount"]["Default"], json!(2));
    assert_eq!(template["Parameters"]["SlaveCount"]["Default"], json!(1));
}

#[test]
fn machines_at_aws_get_the_user_data_of_cloud_init() {
    let template = yaml(&files(Door::CloudFormation)["template.yaml"]);
    let got = user_data(&template);
    let cloud_init = files(Door::CloudInit);
    assert_eq!(got["Slave"], cloud_init["slave.yaml"]);
    assert_eq!(got["EdgeRouter"], cloud_init["edge-router.yaml"]);
    let (mut at_aws, mut elsewhere) =
        (written(&got["Master"]), written(&cloud_init["master.yaml"]));
    let key_command = "/etc/atoll-install/key-command";
    let command = at_aws.remove(key_command).unwrap();
    assert!(command.contains("--secret-id 'value-of-MasterKeySecret'"), "{command}");
    elsewhere.remove(key_command).unwrap();
    assert_eq!(at_aws, elsewhere);
    // What a machine may be given, before it is encoded.
    assert!(got.values().all(|data| data.len() < 16 * 1024));
}

#[test]
fn hosts_that_fetch_need_an_address_and_a_stick_does_not() {
    let distribution = Distribution::named("atoll", "1.0");
    let made = |door, url| files_of(door, &distribution, url, roles()).map(|_| ());
    let message = |url| made(Door::Ansible, url).unwrap_err().to_string();
    insta::assert_snapshot!(message(Some("file:///opt/atoll_install_tmp")), @"hosts that come by `ansible` fetch what was published, but `bootstrap_url` is `file:///opt/atoll_install_tmp`: expected an `http:` or `https:` URL");
    insta::assert_snapshot!(message(Some("http://a/b?c")), @"hosts that come by `ansible` fetch what was published, but `bootstrap_url` is `http://a/b?c`: expected an `http:` or `https:` URL");
    insta::assert_snapshot!(message(None), @"hosts that come by `ansible` fetch what was published, but `bootstrap_url` is not set: expected an `http:` or `https:` URL");
    for door in Door::ALL {
        assert_eq!(
            made(door, Some("file:///opt/tmp")).is_ok(),
            matches!(door, Door::Usb | Door::File),
            "{door:?}"
        );
    }
}

#[test]
fn roles_that_look_alike_to_a_tool_keep_apart() {
    let distribution = Distribution::named("atoll", "1.0");
    let roles = ["a-b", "a_b", "1", "all", "AB", "a_b_2", "no"].map(|name| role(name, &[], true));
    let made = |door| files_of(door, &distribution, Some("http://a"), roles.to_vec()).unwrap();
    let inventory = yaml(&made(Door::Ansible)["inventory.yaml"]);
    let groups = inventory["all"]["children"].as_object().unwrap();
    let groups: Vec<&String> = groups.keys().collect();
    insta::assert_debug_snapshot!(groups, @r#"
    [
        "a_b",
        "a_b_2",
        "role_1",
        "role_all",
        "AB_3",
        "a_b_2_2",
        "no",
    ]
    "#);
    let template = yaml(&made(Door::CloudFormation)["template.yaml"]);
    assert_eq!(template["Resources"].as_object().unwrap().len(), 2 * roles.len());
}

fn hostile() -> impl Strategy<Value = String> {
    let parts = prop_oneof![
        Just("'"),
        Just("\""),
        Just("`"),
        Just("$(id)"),
        Just("${HOME}"),
        Just("\\"),
        Just("\n"),
        Just(";"),
        Just("{{ 1 }}"),
        Just("]]"),
        Just("[["),
        Just("[%"),
        Just("#{1}"),
        Just("%s"),
        Just("<AWS::Region>"),
        Just("${AWS::Region}"),
        Just(": "),
        Just(" #"),
        Just("|"),
        Just("\t"),
        Just("\u{85}"),
        Just("\u{2028}"),
        Just("\u{0}"),
        Just("é"),
        Just("/"),
        Just("a"),
        Just("-"),
        Just("."),
        Just("@"),
        Just("!unsafe"),
        Just("&"),
        Just("*"),
        Just("\r"),
    ];
    prop_oneof![
        proptest::collection::vec(parts, 0..6).prop_map(|parts| parts.concat()),
        any::<String>(),
    ]
}

/// What a shell takes a script's `address` for.
fn address_in(script: &str) -> String {
    let start = script.find("    address=").unwrap();
    let end = start + script[start..].find("\n    attempt=").unwrap();
    let program = format!("{}\nprintf %s \"$address\"", &script[start..end]);
    let output = Command::new("sh").args(["-c", &program]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{program}");
    String::from_utf8(output.stdout).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..Default::default() })]

    #[test]
    fn no_value_breaks_out_of_its_quotes(
        path in hostile(), name in hostile(), root in hostile(), host in hostile(), odd in 0..8_u8,
    ) {
        let mut distribution = Distribution::named("atoll", "1.0");
        if odd == 0 { distribution.name = name; }
        if odd == 1 { distribution.install_root = format!("/opt/{root}").into(); }
        let mut roles = roles();
        if odd < 5 { roles[1].hosts = vec![host.clone()]; }
        let url = format!("http://boot.example/{path}");
        for door in Door::ALL {
            let files = match files_of(door, &distribution, Some(&url), roles.clone()) {
                Err(DoorError::Template { file, source }) => panic!("{file}: {source}"),
                Err(_) => continue,
                Ok(files) => files,
            };
            for (path, text) in &files {
                if Utf8Path::new(path).extension() == Some("yaml") { yaml(text); }
            }
            let expected = format!(
                "{}/{}_install.sh",
                url::Url::parse(&url).unwrap().as_str().trim_end_matches('/'),
                distribution.name
            );
            let installs = scripts(&files).into_iter().filter(|text| text.contains("address="));
            for script in installs {
                prop_assert_eq!(address_in(&script), &expected[..]);
            }
            if let Some(inventory) = files.get("inventory.yaml") {
                let inventory = yaml(inventory);
                let hosts = &inventory["all"]["children"]["slave"]["hosts"];
                let hosts: Vec<String> = hosts.as_object().unwrap().keys().cloned().collect();
                prop_assert_eq!(&hosts, &roles[1].hosts);
            }
        }
    }
}
