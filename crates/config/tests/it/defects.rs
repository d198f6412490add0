//! What the reference gets wrong, and this program must not.

use std::collections::BTreeSet;

use config::render::Audience;
use serde_json::json;

use crate::world::{BASE, IP_DETECT, World, load};

const SSH: &str = "installation: ssh
cluster_name: Reef
master_discovery: static
exhibitor_storage_backend: static
master_list: [192.0.2.11]
ssh_user: admin
";

fn keys(world: &World, text: &str) -> BTreeSet<String> {
    world.resolve(text).errors().into_keys().map(str::to_owned).collect()
}

fn base_and(more: &str) -> String {
    format!("{BASE}{more}")
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_likely_one() {
    let resolution = World::new().resolve(&base_and("resolver: [192.0.2.53]\n"));
    let found = &resolution.diagnostics[0];
    assert_eq!(found.message, "unknown key `resolver`");
    assert_eq!(found.help.as_deref(), Some("did you mean `resolvers`?"));
}

#[test]
fn a_proxy_needs_no_exceptions() {
    let proxy = "use_proxy: true\nhttp_proxy: http://p:3128\nhttps_proxy: http://p:3128\n";
    let resolution = World::new().good(&base_and(proxy));
    assert_eq!(resolution.known("no_proxy").unwrap().value, json!([]));
    let last = resolution.known("no_proxy_final").unwrap().value.clone();
    assert!(last.as_str().unwrap().ends_with("127.0.0.1,localhost"));
}

#[test]
fn secrets_have_a_file_of_their_own_and_are_not_among_the_values() {
    let world = World::new();
    let text = BASE.replace("backend: static", "backend: aws_s3")
        + "aws_region: us-west-2\ns3_bucket: b\ns3_prefix: p\nexhibitor_explicit_keys: true\n\
           aws_access_key_id: AKIA1\naws_secret_access_key: s3cr3t\n";
    let resolution = world.good(&text);
    assert!(!json!(resolution.cluster_values()).to_string().contains("s3cr3t"));
    assert_eq!(resolution.secret_values()["aws_secret_access_key"], "s3cr3t");
    assert!(!format!("{:?}", world.definition.render(&resolution)).contains("s3cr3t"));
    for (path, file) in world.files(&text) {
        let is_secret = path == "etc_master/exhibitor-secrets";
        assert_eq!(file.content.contains("s3cr3t"), is_secret, "{path}");
        assert_eq!(file.audience == Audience::Owner(None), is_secret, "{path}");
        assert!(!is_secret || file.mode == 0o400);
    }
}

#[test]
fn floats_dates_and_nothing_are_errors_of_their_key() {
    let world = World::new();
    for value in ["1.5", "", "~", "2024-01-01", "1e3"] {
        assert_eq!(
            keys(&world, &base_and(&format!("platform: {value}\n"))),
            ["platform".into()].into()
        );
    }
    for value in ["22.5", "", "2024-01-01", ".nan"] {
        assert_eq!(
            keys(&world, &base_and(&format!("ssh_port: {value}\n"))),
            ["ssh_port".into()].into()
        );
    }
}

#[test]
fn every_port_is_one() {
    let world = World::new();
    for port in ["1", "32001", "65535"] {
        world.good(&base_and(&format!("ssh_port: {port}\n")));
    }
    for port in ["0", "65536", "-1", "ssh"] {
        assert_eq!(
            keys(&world, &base_and(&format!("ssh_port: {port}\n"))),
            ["ssh_port".into()].into()
        );
    }
}

#[test]
fn the_temporary_folder_has_no_slash_at_either_end() {
    let world = World::new();
    for good in ["tmp", "var/tmp"] {
        world.good(&base_and(&format!("bootstrap_tmp_dir: {good}\n")));
    }
    for bad in ["/tmp", "tmp/", "''", "a//b"] {
        let found = keys(&world, &base_and(&format!("bootstrap_tmp_dir: {bad}\n")));
        assert_eq!(found, ["bootstrap_tmp_dir".into()].into());
    }
}

#[test]
fn lists_of_loops_are_known_names_blanks_in_tags_do_not_matter_and_mistakes_have_places() {
    let declared = "parameters: {hosts: {type: list, default: [a, b]}}";
    let template = "{%for   one in\thosts%}{{one}} {{  one }}\n{% endfor %}";
    let definition =
        load(&[("config/config.yaml", declared), ("config/files/etc/hosts", template)]).unwrap();
    let world = World::with(definition);
    assert_eq!(world.files("{}")["etc/hosts"].content, "a a\nb b\n");
    let template = "fine\n{% for one in hots %}{% endfor %}";
    let found = load(&[("config/config.yaml", declared), ("config/files/etc/hosts", template)]);
    let found = found.unwrap_err();
    assert!(found.contains("files/etc/hosts:2:15") && found.contains("mean `hosts`?"), "{found}");
    let template = "fine\n  {{ hosts | nothing }}\n";
    let found = load(&[("config/config.yaml", declared), ("config/files/etc/hosts", template)]);
    let definition = match found {
        Err(found) => return assert!(found.contains("hosts:2:"), "{found}"),
        Ok(definition) => definition,
    };
    let world = World::with(definition);
    let found = world.definition.render(&world.good("{}")).unwrap_err();
    assert_eq!(found[0].place.as_ref().unwrap().line, 2);
}

#[test]
fn host_names_and_new_addresses_are_hosts() {
    let lists = "agent_list: [agent-1.example.com, '2001:DB8::0001']\npublic_agent_list: [edge]\n";
    let resolution = World::new().good(&base_and(lists));
    let agents = &resolution.known("agent_list").unwrap().value;
    assert_eq!(*agents, json!(["agent-1.example.com", "2001:db8::1"]));
}

#[test]
fn a_host_stands_in_one_list_once_however_it_is_written() {
    let world = World::new();
    let lists = "agent_list: ['2001:db8::1', '2001:DB8:0::1']\n";
    assert_eq!(keys(&world, &base_and(lists)), ["agent_list".into()].into());
    let lists = "agent_list: [192.0.2.11]\n";
    let resolution = world.resolve(&base_and(lists));
    assert_eq!(
        resolution.errors()["agent_list"],
        "`agent_list`, `master_list`: `192.0.2.11` stands in both lists"
    );
}

#[test]
fn an_installation_over_http_needs_no_ssh() {
    let world = World::new();
    world.remove("genconf/ssh_key");
    let resolution = world.good(BASE);
    assert_eq!(resolution.known("installation").unwrap().value, "http");
}

#[test]
fn an_installation_over_ssh_needs_a_private_key_and_a_user_but_no_url() {
    let world = World::new();
    let resolution = world.good(SSH);
    assert_eq!(resolution.known("bootstrap_url").unwrap().value, "file:///opt/dcos_install_tmp");
    let resolution = world.resolve(&SSH.replace("ssh_user: admin\n", ""));
    assert_eq!(resolution.unset, ["ssh_user".to_owned()].into());
    world.write("genconf/ssh_key", "a key\n", 0o644);
    let errors = world.resolve(SSH);
    assert!(errors.errors()["ssh_key_path"].contains("others can read"));
    world.remove("genconf/ssh_key");
    let errors = world.resolve(SSH);
    assert_eq!(
        errors.errors()["ssh_key_path"],
        "`ssh_key_path`: there is no file `genconf/ssh_key`"
    );
}

#[test]
fn the_url_tells_how_hosts_are_installed() {
    let world = World::new();
    let text = SSH.replace("installation: ssh", "bootstrap_url: file:///opt/dcos_install_tmp");
    assert_eq!(world.good(&text).known("installation").unwrap().value, "ssh");
    let both = BTreeSet::from(["bootstrap_url".to_owned(), "installation".to_owned()]);
    assert_eq!(keys(&world, &format!("{text}installation: http\n")), both);
    assert_eq!(keys(&world, &format!("{SSH}bootstrap_url: http://192.0.2.10\n")), both);
}

#[test]
fn scripts_may_have_blanks_in_their_path_and_are_taken_as_they_are() {
    let world = World::new();
    world.write("genconf/my detect", "#!/bin/sh\n# {{ not a template }}\necho 1\n", 0o644);
    let files = world.files(&base_and("ip_detect_filename: genconf/my detect\n"));
    assert_eq!(files["bin/detect_ip"].content, "#!/bin/sh\n# {{ not a template }}\necho 1\n");
    assert_eq!(files["bin/detect_ip"].mode, 0o755);
    assert_eq!(files["bin/detect_ip_public"].content, files["bin/detect_ip"].content);
    assert!(!files.contains_key("bin/detect_fault_domain"));
    let files = world.files(BASE);
    assert_eq!(files["bin/detect_ip"].content, IP_DETECT);
}

#[test]
fn without_an_address_script_somebody_is_told_what_to_do() {
    let world = World::new();
    world.remove("genconf/ip-detect");
    let resolution = world.resolve(BASE);
    assert!(resolution.errors().contains_key("ip_detect_filename"));
    let help = resolution.diagnostics[0].help.clone().unwrap();
    assert!(help.contains("ip_detect: interface eth0"), "{help}");
    world.good(&base_and("ip_detect_contents: |\n  #!/bin/sh\n  echo 1\n"));
}

/// Declarations in which a secret goes wrong, and a file.
const LEAKS: [(&str, &str); 7] = [
    ("parameters: {token: {type: secret, required: true}}", "{{ token | seconds }}"),
    ("parameters: {token: {type: secret, required: true}}", "{{ token + 1 }}"),
    (
        "parameters: {token: {type: secret, required: true}}\ncomputed: {pin: {type: int, value: token}}",
        "",
    ),
    (
        "parameters:\n  token: {type: secret, required: true}\n  \
         other: {type: secret, default_from: token, pattern: '[0-9]'}",
        "",
    ),
    ("parameters: {token: {type: int, secret: true, required: true}}", ""),
    ("parameters: {token: {type: url, secret: true, required: true}}", ""),
    (
        "parameters: {token: {type: secret, required: true}}\n\
         rules: [{check: token | length < 3, message: '`{{ token }}` is too long'}]",
        "",
    ),
];

#[test]
fn no_message_about_a_secret_quotes_it() {
    for (declared, template) in LEAKS {
        let files = [("config/config.yaml", declared), ("config/files/etc/file", template)];
        let world = World::with(crate::world::load(&files).unwrap());
        let resolution = world.resolve("token: hunter2\n");
        let rendered = match world.definition.render(&resolution) {
            Err(found) if resolution.is_ok() => found,
            _ => Vec::new(),
        };
        let said = crate::world::show(&resolution.diagnostics) + &crate::world::show(&rendered);
        assert!(!said.is_empty(), "{declared}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_password_in_an_address_that_everybody_reads_is_refused() {
    let world = World::new();
    let text = format!(
        "{BASE}use_proxy: true\nhttp_proxy: http://me:hunter2@proxy.example:3128\n\
         https_proxy: http://proxy.example:3128\n"
    );
    let resolution = world.resolve(&text);
    assert!(resolution.errors()["http_proxy"].contains("without a password"));
}

#[test]
fn thousands_of_mistakes_in_one_line_are_told_in_a_few() {
    let items: Vec<String> = (0..5_000).map(|item| format!("\"10.0.0.{item}.\"")).collect();
    let text = format!("{BASE}agent_list: '[{}]'\n", items.join(", "));
    let resolution = World::new().resolve(&text);
    assert!(resolution.diagnostics.len() < 30, "{}", resolution.diagnostics.len());
}

#[test]
fn no_value_of_the_controller_can_decide_what_hosts_get() {
    for declared in [
        "parameters: {a: {type: int, default: 1, scope: controller}}\n\
         groups: [{when: a == 1, parameters: {b: {type: int, default: 1}}}]",
        "parameters: {a: {type: int, default: 1, scope: controller}, b: {type: int, default_from: a}}",
        "parameters: {a: {type: int, default: 1, scope: controller}}\n\
         computed: {c: a + 1}\ngroups: [{when: c is defined, parameters: {b: {type: int, default: 1}}}]",
    ] {
        let refused = crate::world::load(&[("config/config.yaml", declared)]);
        assert!(refused.is_err_and(|said| said.contains("is for hosts")), "{declared}");
    }
    let declared = "parameters: {on: {type: bool, default: false, scope: controller}}\n\
         groups: [{when: on, parameters: {a: {type: int, default: 1, scope: controller}}}]\n\
         computed: {has: a is defined}";
    let world = World::declared(declared);
    for text in ["on: false", "on: true"] {
        assert!(!world.good(text).cluster_values().contains_key("has"), "{text}");
    }
}

#[test]
fn a_secret_cannot_be_had_under_another_name() {
    let world = World::declared(
        "parameters:\n  token: {type: secret, required: true}\n  port: {type: port, default: 1}\n  \
         words: {type: list, default: []}",
    );
    for text in ["token: &a hunter2\nport: *a\n", "token: &a hunter2\nwords: [x, *a]\n"] {
        let resolution = world.resolve(text);
        let said = crate::world::show(&resolution.diagnostics);
        assert!(
            said.contains("names the value of a secret") && !said.contains("hunter2"),
            "{said}"
        );
    }
    assert!(world.resolve("words: &a [x]\ntoken: t\nport: 2\n").is_ok());
}

#[test]
fn any_number_of_comments_can_stand_anywhere() {
    let text = format!("{BASE}agent_list:\n{}- 192.0.2.99\n", "# a comment\n".repeat(300));
    World::new().good(&text);
}
