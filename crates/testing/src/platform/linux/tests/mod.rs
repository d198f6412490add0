//! The harness tried on programs of which it is known what is wrong with them.

mod program;

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use camino::Utf8PathBuf;
use tempfile::TempDir;

use self::program::program;
use super::crash::{self, CrashState};
use super::disk::{Disk, Fate, Replay};
use super::trace::{self, Calls, Change, Errno, Program, Record};
use crate::files::write_files;

/// A root with the file every program begins on.
struct Root {
    _keep: TempDir,
    path: Utf8PathBuf,
    base: Disk,
}

impl Root {
    fn new(files: &[(&str, &str, u32)]) -> Self {
        let keep = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(keep.path().canonicalize().unwrap()).unwrap();
        write_files(&path, files).unwrap();
        let base = Disk::read(&path).unwrap();
        Self { _keep: keep, path, base }
    }

    fn program(&self, name: &str) -> Program {
        program(name, &self.path)
    }

    /// A record of which it is certain that it holds everything: replayed, it leads to what the
    /// program left.
    fn record(&self, name: &str) -> Record {
        let record = trace::record(&self.program(name), &self.path).unwrap();
        let said = String::from_utf8_lossy(&record.stderr);
        assert!(record.status.success(), "{said}\n{}", record.text());
        assert_eq!(self.digest(), self.replay(&record, record.calls.len()), "{}", record.text());
        record
    }

    fn digest(&self) -> u64 {
        Disk::read(&self.path).unwrap().digest()
    }

    fn replay(&self, record: &Record, calls: usize) -> u64 {
        let mut replay = Replay::new(self.base.clone(), &record.origins);
        record.calls[..calls].iter().for_each(|call| replay.apply(&call.change, Fate::Kept));
        replay.disk.digest()
    }

    fn restore(&self) {
        self.base.write(&self.path, super::disk::Roots::Keep).unwrap();
    }

    fn states(&self, name: &str) -> (Record, Vec<CrashState>) {
        let record = self.record(name);
        let states: Vec<_> = crash::states(&record, &self.base, 20).collect();
        let again: Vec<_> = crash::states(&record, &self.base, 20).map(|s| s.to_string()).collect();
        assert_eq!(states.iter().map(ToString::to_string).collect::<Vec<_>>(), again);
        (record, states)
    }
}

const OLD: &[(&str, &str, u32)] = &[("file", "old", 0o644)];
const TWO: &[(&str, &str, u32)] = &[("current/v", "1", 0o644), ("next/v", "2", 0o644)];

fn find(states: &[CrashState], is: impl Fn(&Disk) -> bool) -> Option<&CrashState> {
    states.iter().find(|state| is(&state.disk))
}

#[test]
fn a_writer_that_does_not_sync_is_found() {
    let root = Root::new(OLD);
    let (_, states) = root.states("careless");
    let empty = find(&states, |disk| disk.content("file") == Some(b"")).unwrap();
    assert_eq!(
        empty.to_string(),
        "after 3 of 3 calls, the last 2 `rename aside -> file`, lost: 1 `write aside (7 bytes at 0)`"
    );
    let torn = find(&states, |disk| disk.content("file") == Some(b"con")).unwrap();
    assert!(torn.to_string().contains("only the first half kept of 1 `write aside"), "{torn}");
}

#[test]
fn a_careful_writer_leaves_the_old_or_the_new_in_every_state() {
    let root = Root::new(OLD);
    let (_, states) = root.states("careful");
    let whole = |disk: &Disk| {
        [b"old".as_slice(), b"content"].contains(&disk.content("file").unwrap_or_default())
    };
    assert!(find(&states, |disk| !whole(disk)).is_none());
    assert!(find(&states, |disk| disk.content("file") == Some(b"content")).is_some());
    // What is aside may be anything: nobody reads it.
    for content in [b"".as_slice(), b"con", b"content"] {
        assert!(find(&states, |disk| disk.content(".aside-file") == Some(content)).is_some());
    }
    let finished = states.iter().filter(|state| state.calls == 5);
    assert!(finished.into_iter().all(|state| state.disk.content("file") == Some(b"content")));
}

#[test]
fn a_name_lasts_only_once_its_directory_is_synced() {
    let root = Root::new(OLD);
    let (record, states) = root.states("forgetful");
    let ends = states.iter().filter(|state| state.calls == record.calls.len());
    let old = ends.clone().filter(|state| state.disk.content("file") == Some(b"old"));
    assert!(old.count() > 0, "the rename may be lost at the end");
    assert!(ends.clone().all(|state| state.disk.content("file") != Some(b"")));
    // Nor does a synced file keep the name it was made under.
    assert!(
        ends.clone().any(|state| state.disk.names("").unwrap() == ["file"] && state.lost == [0])
    );
}

#[test]
fn each_way_to_sync_makes_last_what_it_promises() {
    let root = Root::new(OLD);
    let (record, states) = root.states("syncs");
    let synced = record.calls.iter().position(|call| call.text == "fdatasync file").unwrap();
    let after = states.iter().filter(|state| state.calls > synced);
    assert!(after.clone().all(|state| state.disk.content("file") == Some(b"new")));
    assert!(after.clone().any(|state| state.disk.mode("file") == Some(0o644)));
    let ends: Vec<_> = after.filter(|state| state.calls == record.calls.len()).collect();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert!(ends[0].disk.exists("made") && ends[0].disk.mode("file") == Some(0o600));
}

#[test]
fn a_swap_by_two_renames_is_found_and_one_by_exchange_is_right() {
    let swapped = |states: &[CrashState]| {
        states.iter().all(|state| state.disk.content("current/v").is_some())
    };
    let root = Root::new(TWO);
    let (_, states) = root.states("two renames");
    assert!(!swapped(&states));
    let root = Root::new(TWO);
    let (record, states) = root.states("exchange");
    assert!(swapped(&states), "{}", record.text());
    assert!(find(&states, |disk| disk.content("current/v") == Some(b"2")).is_some());
    assert_eq!(record.calls[0].text, "renameat2 current <-> next");
}

#[test]
fn what_is_made_in_a_renamed_directory_stays_in_it_where_the_rename_is_lost() {
    let root = Root::new(&[]);
    let (record, states) = root.states("moved directory");
    let here = find(&states, |disk| disk.content("made/inside") == Some(b"content"));
    assert!(here.is_some(), "{}", record.text());
    assert!(find(&states, |disk| disk.exists("made") && disk.exists("moved")).is_none());
    // Losing one `unlink` brings back one name, but not in a directory that was never there.
    assert!(find(&states, |disk| disk.exists("gone/deep/file")).is_some());
}

#[test]
fn records_replayed_lead_to_what_the_program_left() {
    for (name, files) in [
        ("nothing", OLD),
        ("unlinked", OLD),
        ("links", OLD),
        ("unnamed", OLD),
        ("children", OLD),
        ("writes", OLD),
        ("names", OLD),
        ("threads", OLD),
    ] {
        let root = Root::new(files);
        let (record, states) = root.states(name);
        assert_eq!(record.calls.is_empty(), name == "nothing", "{name}");
        assert!(!states.is_empty(), "{name}");
    }
}

#[test]
fn a_file_without_a_name_is_lost_or_whole() {
    let root = Root::new(&[]);
    let (record, states) = root.states("unnamed");
    assert!(record.calls.iter().any(|call| matches!(call.change, Change::MakeUnnamed { .. })));
    assert!(find(&states, |disk| disk.mode("named") == Some(0o640)).is_some());
    let contents = states.iter().filter_map(|state| state.disk.content("named"));
    assert!(contents.into_iter().all(|content| content == b"content"));
}

#[test]
fn a_file_with_two_names_has_one_content() {
    let root = Root::new(&[]);
    let (_, states) = root.states("links");
    for state in &states {
        if let (Some(a), Some(b)) = (state.disk.content("a"), state.disk.content("b")) {
            assert_eq!(a, b, "{state}");
        }
    }
    assert!(find(&states, |disk| disk.content("b") == Some(b"one two")).is_some());
    assert!(find(&states, |disk| disk.content("b") == Some(b"\0\0\0 two")).is_some());
}

#[test]
fn states_can_be_written_and_are_what_they_say() {
    let root = Root::new(OLD);
    let (_, states) = root.states("names");
    let place = root.path.join("place");
    for state in states {
        state.write(&place).unwrap();
        assert_eq!(Disk::read(&place).unwrap().digest(), state.disk.digest(), "{state}");
    }
}

#[test]
fn a_kill_leaves_exactly_the_changes_before_it() {
    for name in ["careful", "names", "writes", "children", "unlinked"] {
        let root = Root::new(OLD);
        let record = root.record(name);
        let changes: Vec<usize> = (0..record.calls.len())
            .filter(|index| !record.calls[*index].change.is_sync())
            .collect();
        for n in 0.. {
            root.restore();
            let outcome = trace::kill_at(&root.program(name), &root.path, n).unwrap();
            let calls = changes.get(n).copied().unwrap_or(record.calls.len());
            assert_eq!(root.digest(), root.replay(&record, calls), "{name} {n}: {outcome:?}");
            if outcome.hit.is_none() {
                assert!(n >= changes.len() && outcome.status.success());
                break;
            }
            assert_eq!(outcome.status.signal(), Some(9));
        }
    }
}

#[test]
fn a_program_with_threads_is_killed_between_its_changes() {
    let mut hits = 0;
    for n in (0..120).step_by(12) {
        let root = Root::new(&[]);
        let outcome = trace::kill_at(&root.program("threads"), &root.path, n).unwrap();
        let disk = Disk::read(&root.path).unwrap();
        let files = disk.names("").unwrap().into_iter().filter(|name| !name.starts_with('.'));
        for name in files {
            assert_eq!(disk.content(name).unwrap().len(), "content 0".len(), "{outcome:?}");
        }
        hits += usize::from(outcome.hit.is_some());
    }
    // Eight threads, four rounds, three changes.
    assert_eq!(hits, (0..96).step_by(12).count());
}

#[test]
fn every_call_can_fail() {
    let root = Root::new(OLD);
    let mut failed = Vec::new();
    for n in 0.. {
        root.restore();
        let program = root.program("careful");
        let outcome =
            trace::fail_at(&program, &root.path, n, Errno::ENOSPC, Calls::Changes).unwrap();
        let Some(call) = outcome.hit else { break };
        assert_eq!(outcome.status.code(), Some(101), "{call}");
        let said = String::from_utf8_lossy(&[outcome.stdout, outcome.stderr].concat()).into_owned();
        assert!(said.contains("No space left on device"), "{said}");
        let renamed = Disk::read(&root.path).unwrap().content("file") == Some(b"content");
        assert_eq!(renamed, call == "fsync .", "{call}");
        failed.push(call);
    }
    let aside = ".aside-file";
    assert_eq!(
        failed,
        [
            format!("openat {aside}"),
            format!("write {aside}"),
            format!("fsync {aside}"),
            format!("rename {aside} -> file"),
            "fsync .".to_owned(),
        ]
    );
}

#[test]
fn reading_can_fail_too_and_descriptors_can_run_out() {
    let root = Root::new(OLD);
    let fail = |n, errno, calls| {
        trace::fail_at(&root.program("reader"), &root.path, n, errno, calls).unwrap()
    };
    let hits = |errno, calls| (0..).map_while(|n| fail(n, errno, calls).hit).collect::<Vec<_>>();
    assert!(hits(Errno::EIO, Calls::Changes).is_empty());
    let all = hits(Errno::EIO, Calls::All);
    for call in ["openat file", "statx file", "read file", "openat .", "getdents64 ."] {
        assert!(all.iter().any(|hit| hit == call), "{call} in {all:?}");
    }
    assert_eq!(hits(Errno::EMFILE, Calls::All), ["openat file", "openat ."]);
    assert!(!fail(0, Errno::EMFILE, Calls::All).status.success());
}

#[test]
fn a_thread_whose_call_fails_fails_alone() {
    let root = Root::new(&[]);
    let program = root.program("threads");
    let outcome = trace::fail_at(&program, &root.path, 20, Errno::EIO, Calls::Changes).unwrap();
    assert_eq!(outcome.status.code(), Some(101));
    let whole = Disk::read(&root.path).unwrap();
    let last = (0..8).filter(|n| whole.content(format!("file{n}")) == Some(b"content 3"));
    assert!(last.count() >= 7, "{outcome:?}");
}

#[test]
fn a_program_that_does_not_end_is_ended() {
    let root = Root::new(&[]);
    let program = root.program("endless").limit(Duration::from_millis(300));
    let error = trace::record(&program, &root.path).unwrap_err().to_string();
    assert!(error.contains("did not end within 300ms"), "{error}");
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    let root = Root::new(&[]);
    let error = trace::record(&Program::new("/no/such/program"), &root.path).unwrap_err();
    assert!(error.to_string().contains("`/no/such/program` cannot be started"), "{error}");
    let missing = root.path.join("missing");
    let error = trace::record(&Program::new("true"), &missing).unwrap_err();
    assert!(error.to_string().contains("must exist"), "{error}");
}

#[test]
fn calls_nobody_knows_are_refused() {
    let root = Root::new(&[]);
    let program = Program::new("unshare").args(["--user", "true"]);
    let error = trace::record(&program, &root.path).unwrap_err().to_string();
    assert_eq!(error, "the call `unshare` (272) is not known to be harmless");
}

#[test]
fn a_foreign_program_can_be_recorded() {
    let root = Root::new(&[("tree/a", "content", 0o640), ("tree/deep/b", "", 0o755)]);
    let program = Program::new("cp").args(["-a", "tree", "copy"]).cwd(root.path.as_path());
    let record = trace::record(&program, &root.path).unwrap();
    assert!(record.status.success(), "{}", String::from_utf8_lossy(&record.stderr));
    assert_eq!(root.digest(), root.replay(&record, record.calls.len()), "{}", record.text());
}

#[test]
fn files_that_leave_the_root_are_refused() {
    let root = Root::new(&[("inside/file", "content", 0o644)]);
    let inside = root.path.join("inside");
    let program = Program::new("mv").args([inside.join("file"), root.path.join("file")]);
    let error = trace::record(&program, &inside).unwrap_err().to_string();
    assert!(error.contains("a rename into the root or out of it"), "{error}");
}
