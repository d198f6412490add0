//! Base images: the read-only root file systems that hosts share, one for each suite of Debian and
//! Ubuntu, built once by `mmdebstrap` from the mirror that this machine's own packages come from.
//!
//! The name of an image has the digest of its recipe in it: another recipe is another image.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use package::Sha256;
use package::durable::{self, Staging};
use package::lock::Lock;
use serde::{Deserialize, Serialize};

use crate::error::LocalError;
use crate::event::{Event, Job};
use crate::machine::Machine;
use crate::tool::ToolError;
use crate::{needs, platform, tool};

/// The longest that the build of an image may take.
const BUILD_MAX: Duration = Duration::from_mins(30);
/// The longest that `apt-get update` may take.
const UPDATE_MAX: Duration = Duration::from_mins(5);

const PACKAGES: &str = "systemd,systemd-sysv,dbus,libpam-systemd,openssh-server,iproute2,\
     iputils-ping,procps,ca-certificates,curl,tar,gzip,xz-utils,zstd,less";
const CUSTOMIZE: &str = include_str!("customize.sh");
/// Where Ubuntu's key is in the package `ubuntu-keyring`.
const UBUNTU_KEYRING: &str = "usr/share/keyrings/ubuntu-archive-keyring.gpg";
/// The suite of Debian that has that package.
const KEYRING_SUITE: &str = "trixie";

/// A suite of Debian or Ubuntu.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Suite {
    Bullseye,
    Bookworm,
    Trixie,
    Jammy,
    Noble,
    Resolute,
}

impl Suite {
    /// Every suite.
    pub const ALL: [Self; 6] =
        [Self::Bullseye, Self::Bookworm, Self::Trixie, Self::Jammy, Self::Noble, Self::Resolute];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bullseye => "bullseye",
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
            Self::Jammy => "jammy",
            Self::Noble => "noble",
            Self::Resolute => "resolute",
        }
    }

    fn family(self) -> Family {
        match self {
            Self::Bullseye | Self::Bookworm | Self::Trixie => Family::Debian,
            Self::Jammy | Self::Noble | Self::Resolute => Family::Ubuntu,
        }
    }
}

impl FromStr for Suite {
    type Err = LocalError;

    fn from_str(text: &str) -> Result<Self, LocalError> {
        let mut all = Self::ALL.into_iter();
        all.find(|suite| suite.as_str() == text).ok_or_else(|| LocalError::Suite(text.to_owned()))
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Debian,
    Ubuntu,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Self::Debian => "Debian",
            Self::Ubuntu => "Ubuntu",
        }
    }

    /// How the addresses of its mirrors end.
    fn folder(self) -> &'static str {
        match self {
            Self::Debian => "/debian",
            Self::Ubuntu => "/ubuntu",
        }
    }

    fn components(self) -> &'static str {
        match self {
            Self::Debian => "main",
            Self::Ubuntu => "main,universe",
        }
    }
}

/// An image that is there.
#[derive(Debug, Clone)]
pub struct Image {
    suite: Suite,
    root: Utf8PathBuf,
}

impl Image {
    /// The image of a suite, built if it is not there yet. Of several processes one builds it.
    pub fn ensure(machine: &Machine, suite: Suite, job: &Job<'_>) -> Result<Self, LocalError> {
        let digest = Sha256::of(format!("{}\n{CUSTOMIZE}", packages(suite)).as_bytes()).to_string();
        let folder = machine.images().join(format!("{suite}-{}", &digest[..12]));
        let image = Self { suite, root: folder.join("root") };
        if folder.exists() {
            return Ok(image);
        }
        needs::check()?;
        let wait = || job.observer.event(&Event::Waiting { what: "the image that another builds" });
        let _lock = Lock::take(&machine.images().join(format!("{suite}.lock")), job.cancel, &wait)?;
        if !folder.exists() {
            let started = Instant::now();
            job.observer.event(&Event::BuildingImage { suite });
            build(machine, suite, &folder, job)
                .map_err(|cause| LocalError::Image { suite, cause: Box::new(cause) })?;
            job.observer.event(&Event::BuiltImage { suite, took: started.elapsed() });
        }
        Ok(image)
    }

    /// The suite.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Its root file system, which nobody may change.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }
}

/// What is installed in the image of a suite, with the `sudo` that its hosts have.
fn packages(suite: Suite) -> String {
    let sudo = if suite == Suite::Resolute { "sudo-rs" } else { "sudo" };
    format!("{PACKAGES},{sudo}")
}

/// Builds an image aside; `folder` appears when it is complete.
fn build(
    machine: &Machine,
    suite: Suite,
    folder: &Utf8Path,
    job: &Job<'_>,
) -> Result<(), LocalError> {
    let mirror = mirror(machine, suite.family(), job)?;
    let staging = staging(folder)?;
    durable::create_folders(staging.path())?;
    let script = staging.path().join("customize.sh");
    fs_err::write(&script, CUSTOMIZE)?;
    let mut command = mmdebstrap("minbase", &packages(suite));
    command.arg(format!("--components={}", suite.family().components()));
    for option in [
        "--aptopt=Acquire::Languages \"none\"",
        "--aptopt=Acquire::Check-Valid-Until \"false\"",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=path-include=/usr/share/locale/locale.alias",
    ] {
        command.arg(option);
    }
    command.arg(format!("--customize-hook=sh '{script}' \"$1\""));
    if suite.family() == Family::Ubuntu {
        command.arg(format!("--keyring={}", ubuntu_keyring(machine, job)?));
    }
    command.arg(suite.as_str()).arg(staging.path().join("root")).arg(mirror);
    told(&mut command, suite, job)?;
    platform::sync_file_system(staging.path())?;
    Ok(durable::rename(staging.path(), folder)?)
}

/// Where a folder of images grows. Builds of older programs left mounts there when they were killed, also of
/// the machine's own folders; deleting what is left must not go through them.
fn staging(folder: &Utf8Path) -> Result<Staging, LocalError> {
    let name = folder.file_name().unwrap_or_default();
    platform::unmount_below(&folder.with_file_name(format!("{}{name}", durable::TEMPORARY)))?;
    Ok(Staging::of(folder)?)
}

/// `mmdebstrap`, which ends with this process, however that ends: what it started, as it is the first of its
/// processes; what it mounted, as nobody else sees that.
fn mmdebstrap(variant: &str, packages: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "unshare", "--mount", "--propagation", "private"]);
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command.args(["mmdebstrap", "--mode=root"]);
    command.arg(format!("--variant={variant}")).arg(format!("--include={packages}"));
    command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Runs `mmdebstrap` and tells of its steps, which it writes as lines that begin with `I: `.
fn told(command: &mut Command, suite: Suite, job: &Job<'_>) -> Result<(), LocalError> {
    let mut child = tool::start(command.stdout(Stdio::null()).stderr(Stdio::piped()))?;
    let pipe = child.stderr.take();
    let (status, log) = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut log = String::new();
            for line in pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).split(b'\n')) {
                let Ok(line) = line else { break };
                let line = String::from_utf8_lossy(&line).into_owned();
                if let Some(text) = line.strip_prefix("I: ").and_then(|text| text.split(':').next())
                {
                    job.observer.event(&Event::ImageStep { suite, text });
                }
                log += &line;
                log.push('\n');
            }
            log
        });
        let status = tool::wait(command, &mut child, BUILD_MAX, job.cancel);
        (status, reader.join().unwrap_or_default())
    });
    let status = status?;
    if status.success() {
        return Ok(());
    }
    Err(ToolError::Failed { command: "mmdebstrap".to_owned(), status, stderr: log }.into())
}

/// Where packages of a family come from: beside those of this machine.
fn mirror(machine: &Machine, family: Family, job: &Job<'_>) -> Result<String, LocalError> {
    if let Some(mirror) = &machine.mirror {
        return Ok(mirror.clone());
    }
    let sites = || {
        tool::run(
            "apt-get",
            &["indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages"],
        )
    };
    let mut found = mirror_of(&sites()?, family);
    if found.is_none() {
        let mut update = Command::new("apt-get");
        let output = tool::outcome(update.args(["update", "-q"]), UPDATE_MAX, job.cancel)?;
        tool::checked(&update, &output)?;
        found = mirror_of(&sites()?, family);
    }
    found.ok_or(LocalError::NoMirror(family.name()))
}

/// The mirror of a family, from lines of site and suite that apt knows.
fn mirror_of(targets: &str, family: Family) -> Option<String> {
    let lines = targets.lines().filter_map(|line| line.rsplit_once(' '));
    let main = |suite: &str| !suite.contains("security") && !suite.contains("updates");
    let mut sites = lines.filter(|(_, suite)| main(suite)).map(|(site, _)| site);
    sites.find_map(|site| {
        let site = site.trim_end_matches('/');
        let other = [Family::Debian, Family::Ubuntu];
        let base = other.iter().find_map(|other| site.strip_suffix(other.folder()))?;
        Some(format!("{base}{}", family.folder()))
    })
}

/// The key of Ubuntu's archive: that of this machine, or from Debian's package, whose signature is
/// checked with the keys of this machine.
fn ubuntu_keyring(machine: &Machine, job: &Job<'_>) -> Result<Utf8PathBuf, LocalError> {
    let own = Utf8Path::new("/").join(UBUNTU_KEYRING);
    let folder = machine.images().join("ubuntu-keyring");
    if own.exists() {
        return Ok(own);
    }
    let wait = || job.observer.event(&Event::Waiting { what: "the key that another fetches" });
    let _lock = Lock::take(&machine.images().join("ubuntu-keyring.lock"), job.cancel, &wait)?;
    if !folder.exists() {
        let mirror = mirror(machine, Family::Debian, job)?;
        let staging = staging(&folder)?;
        let mut command = mmdebstrap("extract", "ubuntu-keyring");
        command.arg(KEYRING_SUITE).arg(staging.path()).arg(mirror);
        let output = tool::outcome(&mut command, BUILD_MAX, job.cancel)?;
        tool::checked(&command, &output)?;
        durable::rename(staging.path(), &folder)?;
    }
    let keyring = folder.join(UBUNTU_KEYRING);
    if keyring.exists() { Ok(keyring) } else { Err(LocalError::NoKeyring) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_known_by_name() {
        for suite in Suite::ALL {
            assert_eq!(suite.as_str().parse::<Suite>().unwrap(), suite);
        }
        let error = "buster".parse::<Suite>().unwrap_err();
        insta::assert_snapshot!(format!("{error}\n{}", error.hint().unwrap()), @"
        there is no image `buster`
        there are bullseye, bookworm, trixie, jammy, noble, resolute
        ");
    }

    #[test]
    fn the_mirror_is_that_of_the_machine() {
        let targets = "https://security.example/debian bookworm-security\n\
                       http://mirror.example/debian/ bookworm\n";
        let of = |family| mirror_of(targets, family).unwrap();
        assert_eq!(of(Family::Debian), "http://mirror.example/debian");
        assert_eq!(of(Family::Ubuntu), "http://mirror.example/ubuntu");
        assert_eq!(mirror_of("http://other.example/x stable", Family::Debian), None);
    }
}
