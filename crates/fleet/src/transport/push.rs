//! Puts on a host what it lacks of a bundle, over the connection that is there: small files first, then
//! those packages that the host says it would fetch. What was sent before is not sent again.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::io::{self, Seek as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use camino::Utf8PathBuf;
use host::wire::{Report, Request};
use package::bundle::{self, Bundle, LATEST, OperatingSystem, SIGNATURE};
use package::{PackageId, Sha256};
use tokio::io::{AsyncRead, ReadBuf};

use super::kit::Supply;
use super::remote::{Remote, SEND_IDLE, fault_of, no_space_or, order};
use super::shell::{Command, Kept, Limits, Shell, Stdin, quoted};
use super::{Listener, Session as _};
use crate::fault::{Fault, FaultKind};

/// Finds the folder for the bundle, and tells what is in it.
const PLACE: &str = "
umask 077
for parent in /var/lib /opt /root /run; do
    place=$parent/.monobloc-$name
    [ -d \"$parent\" ] || continue
    [ -d \"$place\" ] || mkdir -m 700 \"$place\" 2>/dev/null || continue
    [ -O \"$place\" ] && [ ! -L \"$place\" ] || continue
    mkdir -p \"$place/bundle\" && break
done
cd \"$place/bundle\" || exit
echo \"place $place/bundle\"
state() {
    if [ -f \"$1\" ]; then echo \"have $1\"
    elif [ -f \"$1.part\" ]; then echo \"part $(($(wc -c <\"$1.part\"))) $1\"
    fi
}
";

/// Takes files from standard input, one after the other.
const PUT: &str = "
umask 077
sha256_of() {
    if command -v sha256sum >/dev/null 2>&1; then sha256sum <\"$1\" | cut -d ' ' -f 1
    else openssl dgst -sha256 -r <\"$1\" | cut -d ' ' -f 1; fi
}
put() {
    case $1 in */*) mkdir -p \"${1%/*}\" || exit ;; esac
    [ \"$3\" -gt 0 ] || rm -f \"$1.part\"
    head -c \"$2\" >>\"$1.part\" || exit
    if [ \"$(sha256_of \"$1.part\")\" = \"$4\" ]; then
        mv \"$1.part\" \"$1\" || exit
        echo \"have $1\"
    else
        rm -f \"$1.part\"
        echo \"damaged $1\"
    fi
}
";

/// A file that a host may lack.
struct File {
    /// Below the folder that is served.
    path: String,
    bytes: u64,
    sha256: Sha256,
}

/// A file, and how much of it the host has.
struct Missing {
    file: File,
    there: u64,
}

pub(super) async fn push<S: Shell>(
    remote: &mut Remote<S>,
    said: &mut dyn Listener,
) -> Result<(), Fault> {
    let shared = std::sync::Arc::clone(&remote.shared);
    let Some(supply) = &shared.kit.bundle else { return Ok(()) };
    begin(remote, said).await?;
    let lacking = lacking(remote, supply).await?;
    let archives = lacking
        .iter()
        .filter_map(|id| supply.bundle.archive(id))
        .map(|(path, file)| File { path: path.to_string(), bytes: file.size, sha256: file.sha256 });
    send(remote, supply, archives.collect(), said).await
}

/// Puts there what says what the bundle is: with that a host can plan.
pub(super) async fn begin<S: Shell>(
    remote: &mut Remote<S>,
    said: &mut dyn Listener,
) -> Result<(), Fault> {
    let shared = std::sync::Arc::clone(&remote.shared);
    let Some(supply) = &shared.kit.bundle else { return Ok(()) };
    let small = small_files(supply, remote).map_err(|error| Fault::of(FaultKind::Step, &error))?;
    send(remote, supply, small, said).await
}

/// What says what the bundle is, and the secrets of the host's roles.
fn small_files<S>(supply: &Supply, remote: &Remote<S>) -> io::Result<Vec<File>> {
    let mut paths = vec![LATEST.to_owned(), format!("{LATEST}{SIGNATURE}")];
    let folder = Bundle::folder(&supply.id);
    for entry in fs_err::read_dir(supply.serve.join(&folder))? {
        paths.push(format!("{folder}/{}", entry?.file_name().to_string_lossy()));
    }
    let is_read = |roles: &BTreeSet<_>| !roles.is_disjoint(&remote.host.roles);
    let secrets = supply.bundle.secrets.iter().filter(|(_, roles)| is_read(roles));
    paths.extend(secrets.map(|(id, _)| bundle::secret_path(id)));
    paths.extend(supply.bundle.late.iter().map(bundle::late_path));
    let of_roles = supply.bundle.packages.get(&OperatingSystem::Linux).into_iter().flatten();
    let ids =
        of_roles.filter(|(role, _)| remote.host.roles.contains(*role)).flat_map(|(_, ids)| ids);
    let about: BTreeSet<String> = ids.map(bundle::about_path).collect();
    // Programs that made bundles before did not say anything about packages.
    paths.extend(about.into_iter().filter(|path| supply.bundle.files.contains_key(path.as_str())));
    let described = |path: String| {
        let content = fs_err::read(supply.serve.join(&path))?;
        Ok(File { path, bytes: content.len() as u64, sha256: Sha256::of(&content) })
    };
    paths.into_iter().map(described).collect()
}

/// The packages that the host would fetch.
async fn lacking<S: Shell>(
    remote: &mut Remote<S>,
    supply: &Supply,
) -> Result<BTreeSet<PackageId>, Fault> {
    let order = order("push", Request::Plan(supply.wanted(&remote.host.roles)))?;
    let answer = remote.step(&order, &mut super::Unheard).await?;
    match answer.report {
        Report::Plan(plan) => Ok(plan.fetched),
        report => Err(fault_of(&report).unwrap_or_else(|| {
            Fault::new(FaultKind::Protocol, "the host does not tell what it lacks")
        })),
    }
}

async fn send<S: Shell>(
    remote: &mut Remote<S>,
    supply: &Supply,
    files: Vec<File>,
    said: &mut dyn Listener,
) -> Result<(), Fault> {
    let mut missing = look(remote, files).await?;
    // What was damaged on its way comes again, once.
    for _ in 0..2 {
        if missing.is_empty() {
            return Ok(());
        }
        missing = put(remote, supply, missing, said).await?;
    }
    let damaged: Vec<&str> = missing.iter().map(|missing| missing.file.path.as_str()).collect();
    let cause = format!("damaged on its way, twice: {}", damaged.join(", "));
    Err(Fault::new(FaultKind::Lost, cause))
}

/// What the host lacks of these files.
async fn look<S: Shell>(remote: &mut Remote<S>, files: Vec<File>) -> Result<Vec<Missing>, Fault> {
    let mut script = format!("{}{PLACE}", remote.words());
    for file in &files {
        let _ = writeln!(script, "state {}", quoted(&file.path));
    }
    let kept = remote.ask(script, Stdin::Empty).await?;
    let text = kept.text();
    let mut lines = text.lines();
    let place = lines.next().and_then(|line| line.strip_prefix("place "));
    let place = place.ok_or_else(|| {
        Fault::new(FaultKind::Machine, "found no place for the bundle on the host")
    })?;
    remote.pushed = Some(place.to_owned());
    let states: Vec<&str> = lines.collect();
    let there = |file: &File| {
        let part = states.iter().find_map(|line| {
            let (bytes, path) = line.strip_prefix("part ")?.split_once(' ')?;
            (path == file.path).then(|| bytes.parse::<u64>().ok())?
        });
        part.filter(|bytes| *bytes < file.bytes).unwrap_or(0)
    };
    // Files that always have the same content have it in their name; the small word on which one counts
    // has not.
    let is_there = |file: &File| {
        !file.path.starts_with(LATEST) && states.contains(&format!("have {}", file.path).as_str())
    };
    let missing = files.into_iter().filter(|file| !is_there(file));
    Ok(missing.map(|file| Missing { there: there(&file), file }).collect())
}

/// Sends them; returns what arrived damaged.
async fn put<S: Shell>(
    remote: &mut Remote<S>,
    supply: &Supply,
    missing: Vec<Missing>,
    said: &mut dyn Listener,
) -> Result<Vec<Missing>, Fault> {
    let place = remote.pushed.clone().unwrap_or_default();
    let mut script = format!("cd {} || exit\n{PUT}", quoted(&place));
    for Missing { file, there } in &missing {
        let File { path, bytes, sha256 } = file;
        let _ = writeln!(script, "put {} {} {there} {sha256}", quoted(path), bytes - there);
    }
    let mut parts = Parts {
        waiting: missing
            .iter()
            .map(|missing| (supply.serve.join(&missing.file.path), missing.there))
            .collect(),
        open: None,
        failed: None,
        done: 0,
        total: missing.iter().map(|missing| missing.file.bytes - missing.there).sum(),
        said,
    };
    parts.said.line(&format!("sending {} files, {} bytes", missing.len(), parts.total));
    let limits = Limits { idle: Some(SEND_IDLE), whole: None };
    let stdin = Stdin::Reader(&mut parts);
    let command = Command { stdin, as_root: true, limits, ..Command::new(script) };
    let mut kept = Kept::default();
    let exit = remote.shell.run(command, &mut kept).await?;
    if let Some(error) = parts.failed {
        return Err(Fault::of(FaultKind::Step, &error).during("cannot read the bundle here"));
    }
    if !exit.is_success() {
        return Err(no_space_or(&exit, &kept.talk(), &place));
    }
    let text = kept.text();
    let arrived: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("have ")).collect();
    let damaged =
        missing.into_iter().filter(|missing| !arrived.contains(missing.file.path.as_str()));
    Ok(damaged.map(|missing| Missing { there: 0, ..missing }).collect())
}

/// The rest of each file, one after the other. A file that cannot be read is the end.
struct Parts<'a> {
    waiting: VecDeque<(Utf8PathBuf, u64)>,
    open: Option<tokio::fs::File>,
    failed: Option<io::Error>,
    done: u64,
    total: u64,
    said: &'a mut dyn Listener,
}

impl Parts<'_> {
    /// The next file, where its rest begins.
    fn open_next(&mut self) -> io::Result<bool> {
        let Some((path, from)) = self.waiting.pop_front() else { return Ok(false) };
        let mut file = fs_err::File::open(path)?;
        file.seek(io::SeekFrom::Start(from))?;
        self.open = Some(tokio::fs::File::from_std(file.into_parts().0));
        Ok(true)
    }
}

impl AsyncRead for Parts<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let Some(file) = &mut self.open else {
                match self.open_next() {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(error) => {
                        self.waiting.clear();
                        self.failed = Some(error);
                    }
                }
                return Poll::Ready(Ok(()));
            };
            let before = buffer.filled().len();
            match ready!(Pin::new(file).poll_read(context, buffer)) {
                Ok(()) if buffer.filled().len() == before => self.open = None,
                Ok(()) => {
                    self.done += (buffer.filled().len() - before) as u64;
                    let (done, total) = (self.done, self.total);
                    self.said.progress(done, total);
                    return Poll::Ready(Ok(()));
                }
                Err(error) => {
                    (self.open, self.failed) = (None, Some(error));
                    self.waiting.clear();
                }
            }
        }
    }
}
