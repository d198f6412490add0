//! Puts on a host what it lacks of a bundle, over the connection that is there: small files first, then
//! those packages that the host says it would fetch. What was sent before is not sent again.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io::{self, Seek as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use camino::Utf8PathBuf;
use host::wire::{Report, Request, Wanted};
use package::bundle::{self, Bundle, LATEST, OperatingSystem, SIGNATURE};
use package::{PackageId, Sha256};
use tokio::io::{AsyncRead, ReadBuf};

use super::Listener;
use super::kit::Supply;
use super::remote::{
    Remote, SEND_IDLE, fault_of, functions, no_space, no_space_or, nowhere, order,
};
use super::shell::{Command, Kept, Limits, Shell, Stdin, quoted};
use crate::fault::{Fault, FaultKind};

/// Finds the folder for the bundle, and tells what is in it of the files that are named to it.
const PLACE: &str = "
umask 077
if ! find_place; then echo \"full $full\"; exit 0; fi
mkdir -p \"$place/bundle\" && cd \"$place/bundle\" || exit
echo \"place $place/bundle\"
while IFS= read -r path; do
    if [ -f \"$path\" ]; then echo \"have $path\"
    elif [ -f \"$path.part\" ]; then echo \"part $(($(wc -c <\"$path.part\"))) $path\"
    fi
done
";

/// Takes files from standard input, one after the other: a line that says what comes, then that.
const PUT: &str = "
umask 077
# Not every `head` leaves to others what it was not asked for.
if [ \"$(printf abcd | { head -c 2 >/dev/null; cat; })\" = cd ]; then
    take() { head -c \"$1\"; }
elif dd iflag=fullblock count=0 </dev/null 2>/dev/null; then
    take() {
        dd iflag=fullblock bs=65536 count=$(($1 / 65536)) || return
        [ $(($1 % 65536)) = 0 ] || dd iflag=fullblock bs=$(($1 % 65536)) count=1
    }
else
    take() { dd bs=1 count=\"$1\"; }
fi
put() {
    case $1 in */*) mkdir -p \"${1%/*}\" || exit ;; esac
    [ \"$3\" -gt 0 ] || rm -f \"$1.part\"
    take \"$2\" >>\"$1.part\" || exit
    if [ \"$(sha256_of \"$1.part\")\" = \"$4\" ]; then
        mv \"$1.part\" \"$1\" || exit
        echo \"have $1\"
    else
        rm -f \"$1.part\"
        echo \"damaged $1\"
    fi
}
while read -r length there sha256 path; do put \"$path\" \"$length\" \"$there\" \"$sha256\"; done
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
    // It is asked what it lacks, not whether it may have it: that it decides when it plans and installs.
    let wanted = Wanted {
        allow_older: true,
        allow_expired: true,
        disable_preflight: true,
        ..supply.wanted(&remote.host.roles)
    };
    let order = order("push", Request::Plan(wanted))?;
    let answer = remote.hand_over(&order, &mut super::Unheard).await?;
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
    let script = format!("{}{}{PLACE}", remote.words(), functions());
    // A script is one argument of a program, which must not be long.
    let paths: String = files.iter().flat_map(|file| [file.path.as_str(), "\n"]).collect();
    let kept = remote.ask(script, Stdin::Bytes(paths.as_bytes())).await?;
    let text = kept.text();
    let mut lines = text.lines();
    let place = match lines.next().map(|line| line.split_once(' ').unwrap_or((line, ""))) {
        Some(("place", place)) => place,
        Some(("full", place)) if !place.is_empty() => return Err(no_space(place)),
        _ => return Err(nowhere()),
    };
    remote.pushed = Some(place.to_owned());
    let (mut have, mut parts) = (HashSet::new(), HashMap::new());
    for line in lines {
        if let Some(path) = line.strip_prefix("have ") {
            have.insert(path);
        } else if let Some((bytes, path)) =
            line.strip_prefix("part ").and_then(|line| line.split_once(' '))
        {
            parts.insert(path, bytes.parse::<u64>().unwrap_or(0));
        }
    }
    let there = |file: &File| {
        parts.get(file.path.as_str()).copied().filter(|bytes| *bytes < file.bytes).unwrap_or(0)
    };
    // Files that always have the same content have it in their name; the small word on which one counts
    // has not.
    let is_there =
        |file: &File| !file.path.starts_with(LATEST) && have.contains(file.path.as_str());
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
    let script = format!("cd {} || exit\n{}{PUT}", quoted(&place), functions());
    let part = |Missing { file: File { path, bytes, sha256 }, there }: &Missing| Part {
        announced: format!("{} {there} {sha256} {path}\n", bytes - there).into_bytes().into(),
        path: supply.serve.join(path),
        from: *there,
    };
    let mut parts = Parts {
        waiting: missing.iter().map(part).collect(),
        announced: VecDeque::new(),
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

/// The rest of a file.
struct Part {
    /// Says what comes.
    announced: VecDeque<u8>,
    path: Utf8PathBuf,
    from: u64,
}

/// The rest of each file, one after the other. A file that cannot be read is the end.
struct Parts<'a> {
    waiting: VecDeque<Part>,
    /// What is left to say of the one that is open.
    announced: VecDeque<u8>,
    open: Option<tokio::fs::File>,
    failed: Option<io::Error>,
    done: u64,
    total: u64,
    said: &'a mut dyn Listener,
}

impl Parts<'_> {
    /// The next file, where its rest begins.
    fn open_next(&mut self) -> io::Result<bool> {
        let Some(part) = self.waiting.pop_front() else { return Ok(false) };
        let mut file = fs_err::File::open(part.path)?;
        file.seek(io::SeekFrom::Start(part.from))?;
        self.announced = part.announced;
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
            if !self.announced.is_empty() {
                let length = self.announced.len().min(buffer.remaining());
                let said: Vec<u8> = self.announced.drain(..length).collect();
                buffer.put_slice(&said);
                return Poll::Ready(Ok(()));
            }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use host::wire::{Order, PlanSummary, Said, VERSION};
    use package::distribution::Distribution;

    use super::super::kit::{Kit, Program};
    use super::super::remote::Shared;
    use super::super::shell::{Exit, Heard};
    use super::*;
    use crate::inventory::Host;

    /// A host that lacks a package, and keeps what it was asked.
    #[derive(Default)]
    struct Lacking(Vec<Order>);

    impl Shell for Lacking {
        async fn run(
            &mut self,
            command: Command<'_>,
            heard: &mut dyn Heard,
        ) -> Result<Exit, Fault> {
            let Stdin::Bytes(order) = command.stdin else {
                heard.stdout(b"program /opt/app/tool/monobloc\n");
                return Ok(Exit::Status(0));
            };
            self.0.push(serde_json::from_slice(order).unwrap());
            let fetched = ["app--1".parse().unwrap()].into();
            let plan = PlanSummary { fetched, ..PlanSummary::default() };
            let report = Box::new(Report::Plan(Box::new(plan)));
            let said = Said::Report { version: VERSION, already: false, report };
            heard.stdout(serde_json::to_string(&said).unwrap().as_bytes());
            Ok(Exit::Status(0))
        }
    }

    #[tokio::test]
    async fn a_host_says_what_it_lacks_of_a_bundle_that_it_would_refuse() {
        let distribution = Distribution::named("app", "1");
        let supply = Supply {
            serve: "/nowhere".into(),
            id: Sha256::of(b"bundle"),
            bundle: Bundle::new(distribution.clone(), "configuration".into()),
            url: None,
            public_key: String::new(),
            role_keys: BTreeMap::new(),
        };
        let (sha256, served) = (Sha256::of(b"program"), "monobloc".to_owned());
        let program = Program { path: "/nowhere".into(), sha256, bytes: 7, served };
        let shared = Shared::new(Kit { distribution, program, bundle: Some(supply.clone()) });
        let host = Host {
            name: "a1".into(),
            address: "a1".into(),
            port: None,
            user: None,
            key: None,
            jump: None,
            roles: BTreeSet::new(),
            rack: None,
            labels: BTreeMap::new(),
        };
        let mut remote = Remote::new(Lacking::default(), host, Arc::clone(&shared));
        let lacks = lacking(&mut remote, &supply).await.unwrap();
        assert_eq!(lacks, ["app--1".parse().unwrap()].into());
        let Request::Plan(asked) = &remote.shell.0[0].request else {
            panic!("{:?}", remote.shell.0)
        };
        assert!(asked.allow_older && asked.allow_expired && asked.disable_preflight);
    }
}
