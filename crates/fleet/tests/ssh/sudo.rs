//! Becoming root, with a `sudo` that does as it is told in the tests' own folder.

use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use fleet::fault::{Fault, FaultKind};
use fleet::transport::shell::{Command, Exit, Kept, Limits, Stdin};
use fleet::transport::ssh::{Settings, Ssh};
use insta::assert_snapshot;
use testing::ssh_host::{Behaviour, Reply, SshHost};

use crate::support::{Person, folder, host, run_command, runs, settings, told};

/// Behaves as sudo does: asks with `-S`, fails with `-n`, and may insist on a terminal.
const SUDO: &str = r#"#!/bin/sh
while :; do
    case $1 in
        -n | -H) shift ;;
        -S) asks=yes; shift ;;
        -p) prompt=$2; shift 2 ;;
        --) shift; break ;;
        *) break ;;
    esac
done
if [ -n "$REFUSES" ]; then
    echo "deploy is not in the sudoers file." >&2
    exit 1
fi
if [ -n "$ALLOWS_OTHERS" ]; then
    echo "Sorry, user deploy is not allowed to execute '$*' as root on host." >&2
    exit 1
fi
if [ -n "$NEEDS_TERMINAL" ] && ! [ -t 0 ]; then
    echo "sudo: sorry, you must have a tty to run sudo" >&2
    exit 1
fi
if [ -n "$ASKS_MORE" ]; then
    printf 'Verification code: ' >&2
    read -r word
    exit 1
fi
# As sudo-rs does.
[ -z "$OTHER_WORDS" ] || prompt="[sudo: $prompt] Password: "
if [ -n "$PASSWORD" ]; then
    if [ -z "$asks" ]; then
        echo "sudo: ${OTHER_WORDS:-a password is required}" >&2
        exit 1
    fi
    for try in 1 2 3; do
        printf '%s' "$prompt" >&2
        IFS= read -r word || exit 1
        [ "$word" != "$PASSWORD" ] || break
        echo "Sorry, try again." >&2
        [ "$try" != 3 ] || exit 1
    done
fi
AS_ROOT=yes
export AS_ROOT
exec "$@"
"#;

/// A host whose `sudo` has these settings.
async fn host_with(folder: &Utf8Path, settings: &str) -> SshHost {
    let programs = folder.join("programs");
    let sudo = SUDO.replacen('\n', &format!("\n{settings}\n"), 1);
    testing::files::write_files(&programs, &[("sudo", sudo, 0o755)]).unwrap();
    let commands = Arc::new(move |_: &_| Reply::Runs { programs: programs.clone() });
    SshHost::start(Behaviour { commands, ..Behaviour::default() }).await
}

async fn as_root(
    folder: &Utf8Path,
    server: &SshHost,
    password: Option<&'static str>,
    stdin: &[u8],
    script: &str,
) -> Result<(Exit, Kept), Fault> {
    let person = Arc::new(Person { sudo: password, ..Person::default() });
    let ssh = Ssh::new(Settings { ask: person as _, ..settings(folder) });
    let connection = ssh.connect(&host(server.address, "deploy")).await?;
    let command = Command { stdin: Stdin::Bytes(stdin), as_root: true, ..Command::new(script) };
    run_command(&connection, command).await
}

const TELL: &str = "echo $AS_ROOT; cat; echo talk >&2; exit 3";

#[tokio::test]
async fn sudo_without_password_runs_the_command() {
    let (_guard, folder) = folder();
    let server = host_with(&folder, "").await;
    let (exit, kept) = as_root(&folder, &server, None, b"input", TELL).await.unwrap();
    assert_eq!((exit, kept.text().as_str()), (Exit::Status(3), "yes\ninput"));
    assert_eq!(kept.talk(), "talk");
}

#[tokio::test]
async fn sudo_gets_its_password_where_nobody_sees_it() {
    let (_guard, folder) = folder();
    let server = host_with(&folder, "PASSWORD=open-sesame").await;
    let (exit, kept) =
        as_root(&folder, &server, Some("open-sesame"), b"input", TELL).await.unwrap();
    assert_eq!((exit, kept.text().as_str()), (Exit::Status(3), "yes\ninput"));
    assert_eq!(kept.talk(), "talk");
    assert!(server.requests().iter().all(|request| !request.line.contains("open-sesame")));
}

#[tokio::test]
async fn a_wrong_password_for_sudo_is_told_and_not_tried_again() {
    let (_guard, folder) = folder();
    let server = host_with(&folder, "PASSWORD=right").await;
    let fault = as_root(&folder, &server, Some("wrong"), b"", TELL).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Sudo);
    let port = server.address.port().to_string();
    assert_snapshot!(told(&fault, &[(&port, "PORT")]), @"
    sudo: `deploy@127.0.0.1:PORT` cannot become root: sudo did not start the command: incorrect password
    => give the right password of `deploy` for sudo
    ");
}

#[tokio::test]
async fn sudo_that_wants_a_password_nobody_has_is_told() {
    let (_guard, folder) = folder();
    let server = host_with(&folder, "PASSWORD=right").await;
    let fault = as_root(&folder, &server, None, b"", TELL).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Sudo);
    let port = server.address.port().to_string();
    assert_snapshot!(told(&fault, &[(&port, "PORT")]), @"
    sudo: `deploy@127.0.0.1:PORT` cannot become root: sudo did not start the command: sudo: a password is required
    => give the password of `deploy` for sudo, or allow it without (NOPASSWD)
    ");
}

#[tokio::test]
async fn sudo_that_refuses_is_told_in_its_own_words() {
    let (_guard, folder) = folder();
    let server = host_with(&folder, "REFUSES=yes").await;
    let fault = as_root(&folder, &server, None, b"", TELL).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Sudo);
    let port = server.address.port().to_string();
    assert_snapshot!(told(&fault, &[(&port, "PORT")]), @"
    sudo: `deploy@127.0.0.1:PORT` cannot become root: sudo did not start the command: deploy is not in the sudoers file.
    => allow `deploy` to run commands as root in the host's sudoers, or log in as root
    ");
}

#[tokio::test]
async fn sudo_that_allows_other_commands_only_is_told_without_ours() {
    let (_guard, folder) = folder();
    let server = host_with(&folder, "ALLOWS_OTHERS=yes").await;
    let fault = as_root(&folder, &server, None, b"", "echo one\necho two").await.unwrap_err();
    let port = server.address.port().to_string();
    assert_snapshot!(told(&fault, &[(&port, "PORT")]), @"
    sudo: `deploy@127.0.0.1:PORT` cannot become root: sudo did not start the command: Sorry, user deploy is not allowed to execute our commands as root
    => allow `deploy` to run commands as root in the host's sudoers, or log in as root
    ");
}

#[tokio::test]
async fn sudo_that_insists_on_a_terminal_changes_no_byte_of_what_goes_through() {
    let (_guard, folder) = folder();
    let server = host_with(&folder, "NEEDS_TERMINAL=yes\nPASSWORD=right").await;
    let bytes: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let script = "cat; echo talk >&2; exit 3";
    let (exit, kept) = as_root(&folder, &server, Some("right"), &bytes, script).await.unwrap();
    assert_eq!(exit, Exit::Status(3));
    assert!(kept.stdout == bytes, "{} bytes came back", kept.stdout.len());
    assert_eq!(kept.talk(), "talk");
    // Nothing is left behind.
    assert!(!pipes(&server).unwrap().exists());
}

#[tokio::test]
async fn a_sudo_with_other_words_gets_its_password() {
    for terminal in ["", "NEEDS_TERMINAL=yes\n"] {
        let words = "OTHER_WORDS='interactive authentication is required'";
        let (_guard, folder) = folder();
        let server = host_with(&folder, &format!("{terminal}PASSWORD=right\n{words}")).await;
        let run = as_root(&folder, &server, Some("right"), b"input", TELL).await;
        let (exit, kept) = run.unwrap();
        assert_eq!((exit, kept.text().as_str()), (Exit::Status(3), "yes\ninput"));
    }
}

#[tokio::test]
async fn a_sudo_that_waits_for_something_else_is_told_and_holds_nobody_up() {
    let (_guard, folder) = folder();
    let server = host_with(&folder, "ASKS_MORE=yes").await;
    let ssh = Ssh::new(settings(&folder));
    let connection = ssh.connect(&host(server.address, "deploy")).await.unwrap();
    let limits = Limits { idle: Some(Duration::from_secs(5)), whole: None };
    let command = Command { as_root: true, limits, ..Command::new("true") };
    let fault = run_command(&connection, command).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Sudo);
    let port = server.address.port().to_string();
    assert_snapshot!(told(&fault, &[(&port, "PORT")]), @"
    sudo: `deploy@127.0.0.1:PORT` cannot become root: sudo did not start the command within 5 s: Verification code:
    => log in there, run `sudo true` and see what it waits for
    ");
}

#[tokio::test]
async fn a_command_of_root_that_talks_fast_is_ended_with_all_it_started() {
    for settings_of_sudo in ["", "NEEDS_TERMINAL=yes"] {
        let (_guard, folder) = folder();
        let server = host_with(&folder, settings_of_sudo).await;
        let connection =
            Ssh::new(settings(&folder)).connect(&host(server.address, "deploy")).await.unwrap();
        let process = folder.join("process");
        let script = format!("echo $$ >{process}; exec yes");
        let limits = Limits { idle: None, whole: Some(Duration::from_secs(5)) };
        let command = Command { as_root: true, limits, ..Command::new(script) };
        let fault = run_command(&connection, command).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::TimedOut, "{fault}");
        let process = fs_err::read_to_string(process).unwrap();
        assert!(!runs(process.trim()), "{settings_of_sudo}: {process}");
    }
}

/// The folder of pipes that was made.
fn pipes(server: &SshHost) -> Option<Utf8PathBuf> {
    let requests = server.requests();
    let made = requests.iter().find(|request| request.script.contains("mkfifo"))?;
    made.script.split_whitespace().find(|word| word.starts_with("/tmp/")).map(Into::into)
}

#[tokio::test]
async fn pipes_for_a_terminal_go_when_nobody_waits_for_the_command_or_the_connection_is_lost() {
    for is_lost in [false, true] {
        let (_guard, folder) = folder();
        let server = host_with(&folder, "NEEDS_TERMINAL=yes").await;
        let (begun, end) = (folder.join("begun"), folder.join("end"));
        let script = format!("echo >{begun}; while ! [ -e {end} ]; do echo on; sleep 0.05; done");
        let until_begun = async {
            while !begun.exists() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            done = as_root(&folder, &server, None, b"", &script) => panic!("{done:?}"),
            () = until_begun => {}
        }
        let pipes = pipes(&server).unwrap();
        if is_lost {
            // What runs goes on to its end.
            drop(server);
            fs_err::write(end, "").unwrap();
        }
        let gone = async {
            while pipes.exists() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
    }
}
