//! Values that only a host knows: files can hold them, and nothing else may depend on them.

use std::fmt::Write as _;

use config::render::Audience;

use crate::world::{World, load, show};

const CLOUD: &str = "bootstrap_url: http://192.0.2.10
cluster_name: Reef
master_discovery: master_http_loadbalancer
exhibitor_storage_backend: aws_s3
exhibitor_explicit_keys: false
num_masters: 3
late_values: [exhibitor_address, aws_region, s3_bucket, s3_prefix]
";

#[test]
fn a_late_value_leaves_its_place_in_the_files_that_hold_it() {
    let world = World::new();
    let resolution = world.good(CLOUD);
    let late: Vec<&str> = resolution.late_values().collect();
    assert_eq!(late, ["exhibitor_address", "aws_region", "s3_bucket", "s3_prefix"]);
    assert!(!resolution.cluster_values().contains_key("exhibitor_address"));
    let files = world.files(CLOUD);
    let late: Vec<&str> = files
        .iter()
        .filter(|(_, file)| file.audience == Audience::Late)
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(late, ["etc/dns_config", "etc_master/exhibitor"]);
    insta::assert_snapshot!(files["etc/dns_config"].content, @"
    RESOLVERS=8.8.8.8,8.8.4.4
    MASTER_SOURCE=exhibitor_uri
    EXHIBITOR_URI=http://LATE_BIND_PLACEHOLDER_START_exhibitor_address_LATE_BIND_PLACEHOLDER_END/exhibitor/v1/cluster/status
    ");
    insta::assert_snapshot!(files["etc_master/exhibitor"].content, @"
    EXHIBITOR_BACKEND=AWS_S3
    AWS_REGION=LATE_BIND_PLACEHOLDER_START_aws_region_LATE_BIND_PLACEHOLDER_END
    AWS_S3_BUCKET=LATE_BIND_PLACEHOLDER_START_s3_bucket_LATE_BIND_PLACEHOLDER_END
    AWS_S3_PREFIX=LATE_BIND_PLACEHOLDER_START_s3_prefix_LATE_BIND_PLACEHOLDER_END
    MASTER_QUORUM=2
    ");
}

fn rendered(declared: &str, template: &str, given: &str) -> String {
    let files = [("config/config.yaml", declared), ("config/files/etc/file", template)];
    let world = World::with(load(&files).unwrap());
    let resolution = world.resolve(given);
    if !resolution.is_ok() {
        return show(&resolution.diagnostics);
    }
    match world.definition.render(&resolution) {
        Ok(files) => files.into_values().map(|file| file.content).collect(),
        Err(found) => show(&found),
    }
}

const WORDS: &str = "parameters:
  zone: {type: string, required: true, late: true}
  key: {type: secret, default: x}
";

#[test]
fn a_file_that_looks_at_a_late_value_is_refused() {
    let given = "late_values: [zone]";
    let templates = [
        "{% if zone %}a{% endif %}",
        "{% if zone == 'a' %}a{% endif %}{{ zone }}",
        "{{ zone | upper }}",
        "{{ zone | length }}",
        "{{ zone[0] }}",
        "{% for one in zone %}{{ one }}{% endfor %}",
        "{{ '-' ~ zone }}",
        "{{ key }} {{ zone }}",
    ];
    let mut said = String::new();
    for template in templates {
        let _ = write!(said, "──── {template}\n{}", rendered(WORDS, template, given));
    }
    insta::assert_snapshot!(said);
    let content = rendered(WORDS, "zone={{zone}} {{ zone -}}\n", given);
    insta::assert_snapshot!(content, @"zone=LATE_BIND_PLACEHOLDER_START_zone_LATE_BIND_PLACEHOLDER_END LATE_BIND_PLACEHOLDER_START_zone_LATE_BIND_PLACEHOLDER_END");
}

#[test]
fn nothing_is_calculated_from_a_late_value() {
    let given = "late_values: [zone]";
    let computed = format!("{WORDS}computed: {{area: zone ~ '-area'}}\n");
    insta::assert_snapshot!(rendered(&computed, "{{ area }}", given), @"
    error: `zone`: `area` is calculated from `zone`, which cannot be late
     --> genconf/config.yaml:1:15
      |
    1 | late_values: [zone]
      |               ^^^^
    ");
    let decides = format!(
        "{WORDS}groups:\n- when: zone == 'a'\n  parameters: {{more: {{type: int, default: 1}}}}\n"
    );
    insta::assert_snapshot!(rendered(&decides, "{{ zone }}", given), @"
    error: `zone`: `zone` decides what else must be set: it cannot be late
     --> genconf/config.yaml:1:15
      |
    1 | late_values: [zone]
      |               ^^^^
    ");
    let rule = format!("{WORDS}rules: [{{check: zone != 'b', message: not there}}]\n");
    insta::assert_snapshot!(rendered(&rule, "{{ zone }}", given), @"LATE_BIND_PLACEHOLDER_START_zone_LATE_BIND_PLACEHOLDER_END");
}
