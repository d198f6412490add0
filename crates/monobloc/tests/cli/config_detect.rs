//! `monobloc config detect`: scripts that are tried, and those that are built in.

use insta::assert_snapshot;
use testing::files::write_files;

use crate::test_env::{TestEnv, succeed};

/// With these scripts.
fn env(scripts: &[(&str, &str)]) -> TestEnv {
    let env = TestEnv::new();
    let files: Vec<_> = scripts.iter().map(|(name, text)| (*name, *text, 0o644)).collect();
    write_files(&env.path("."), &files).unwrap();
    env
}

const DOMAIN: &str = "#!/bin/sh\n\
    echo '{\"fault_domain\":{\"region\":{\"name\":\"dc/1\"},\"zone\":{\"name\":\"dc/1/rack-7\"}}}'\n";

#[test]
fn a_script_is_tried_and_its_answer_is_shown() {
    let env = env(&[("ip-detect", "#!/bin/sh\necho 10.0.0.7\n"), ("domain", DOMAIN)]);
    assert_snapshot!(env.run(&["config", "detect", "ip-detect"]), @"
    exit: 0
    --- stdout
    10.0.0.7
    --- stderr
    ");
    assert_snapshot!(env.run(&["config", "detect", "--test", "ip-detect", "--json"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.config.detect/1",
      "answer": "10.0.0.7"
    }
    --- stderr
    "#);
    let domain = ["config", "detect", "--kind", "fault-domain", "domain"];
    assert_snapshot!(env.run(&domain), @"
    exit: 0
    --- stdout
    region dc/1, zone dc/1/rack-7
    --- stderr
    ");
    assert_snapshot!(env.run(&[&["--json"], &domain[..]].concat()), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.config.detect/1",
      "answer": {
        "region": "dc/1",
        "zone": "dc/1/rack-7"
      }
    }
    --- stderr
    "#);
}

#[test]
fn a_script_that_detects_nothing_fails_with_advice() {
    let env = env(&[
        ("two", "#!/bin/sh\necho 10.0.0.7\necho 10.0.0.8\n"),
        ("windows", "#!/bin/sh\r\necho 10.0.0.7\r\n"),
        ("fails", "#!/bin/sh\necho 'no such interface' >&2\nexit 1\n"),
    ]);
    assert_snapshot!(env.run(&["config", "detect", "two"]), @r"
    exit: 1
    --- stdout
    --- stderr
    error: `two`: the script printed `10.0.0.7\n10.0.0.8\n`, which has 2 lines
    hint: print one line: choose one of the addresses, always the same
    ");
    assert_snapshot!(env.run(&["config", "detect", "windows"]), @r"
    exit: 1
    --- stdout
    --- stderr
    error: `windows`: the script has lines that end with a carriage return
    hint: convert it to Unix line ends: `sed -i 's/\r$//' FILE`
    ");
    assert_snapshot!(env.run(&["config", "detect", "fails"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: `fails`: the script ended with exit status: 1, saying `no such interface`
    hint: run it with `sh -x` to see how it came to that
    ");
    assert_snapshot!(env.run(&["config", "detect", "two", "--json"]), @r#"
    exit: 1
    --- stdout
    {
      "schema": "monobloc.error/1",
      "error": "`two`: the script printed `10.0.0.7\\n10.0.0.8\\n`, which has 2 lines",
      "hint": "print one line: choose one of the addresses, always the same",
      "diagnostics": []
    }
    --- stderr
    "#);
    assert_snapshot!(env.run(&["config", "detect", "missing"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: failed to open file `missing`: No such file or directory (os error 2)
    ");
}

#[test]
fn a_builtin_script_is_printed_as_hosts_get_it() {
    let env = env(&[]);
    let print = ["config", "detect", "--builtin", "route-to 10.0.0.1", "--print"];
    assert_snapshot!(env.run(&print), @r#"
    exit: 0
    --- stdout
    #!/bin/sh
    # Prints the IPv4 address of this host, detected with `route-to 10.0.0.1`.
    set -u
    export LC_ALL=C

    fail() {
        echo "${0##*/}: $*" >&2
        exit 1
    }

    # is_address TEXT
    is_address() (
        case $1 in
            *[!0-9.]* | *.) exit 1 ;;
            0.0.0.0 | 127.* | 22[4-9].* | 23[0-9].* | 255.255.255.255) exit 1 ;;
        esac
        IFS=.
        # shellcheck disable=SC2086
        set -- $1
        [ $# -eq 4 ] || exit 1
        for part; do
            case $part in
                [0-9] | [1-9][0-9] | 1[0-9][0-9] | 2[0-4][0-9] | 25[0-5]) ;;
                *) exit 1 ;;
            esac
        done
    )

    # print_address TEXT
    print_address() {
        [ -n "$1" ] || fail 'there is no IPv4 address'
        is_address "$1" || fail "this is no IPv4 address of a host: $1"
        printf '%s\n' "$1"
    }

    command -v ip >/dev/null || fail 'the program ip is missing'
    route=$(ip -4 -o route get '10.0.0.1') || fail 'there is no route to 10.0.0.1'
    # What stands behind `src`.
    case $route in
        *' src '*) address=${route#* src } ;;
        *) fail 'the route to 10.0.0.1 has no source address' ;;
    esac
    print_address "${address%%[!0-9a-fA-F.:]*}"
    --- stderr
    "#);
    let output = succeed(&mut env.monobloc(&[&["--json"], &print[..]].concat()));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let script = succeed(&mut env.monobloc(&print)).stdout;
    assert_eq!(document["script"].as_str().unwrap().as_bytes(), script);
}

#[test]
fn a_builtin_script_is_tried() {
    let tried = ["config", "detect", "--builtin", "interface nosuch0"];
    assert_snapshot!(env(&[]).run(&tried), @r#"
    exit: 1
    --- stdout
    --- stderr
    error: the script ended with exit status: 1, saying `Device "nosuch0" does not exist.\ndetect: cannot ask for the addresses of nosuch0`
    hint: run it with `sh -x` to see how it came to that
    "#);
}

#[test]
fn wrong_use_says_what_there_is() {
    let env = env(&[]);
    assert_snapshot!(env.run(&["config", "detect"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <SCRIPT|--builtin <DETECTION>>

    Usage: monobloc config detect <SCRIPT|--builtin <DETECTION>>

    For more information, try '--help'.
    ");
    assert_snapshot!(env.run(&["config", "detect", "--print", "ip-detect"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: the argument '--print' cannot be used with '[SCRIPT]'

    Usage: monobloc config detect --print <SCRIPT|--builtin <DETECTION>>

    For more information, try '--help'.
    ");
    assert_snapshot!(env.run(&["config", "detect", "--builtin", "openstack"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: `openstack` is no built-in detection
    hint: there are `interface NAME`, `route-to ADDRESS`, `aws`, `azure` and `gcp`
    ");
    let domain = ["config", "detect", "--kind", "fault-domain", "--builtin", "interface eth0"];
    assert_snapshot!(env.run(&domain), @"
    exit: 2
    --- stdout
    --- stderr
    error: `interface eth0` cannot tell the fault domain
    hint: use `aws`, `azure` or `gcp`, or a script of your own
    ");
}
