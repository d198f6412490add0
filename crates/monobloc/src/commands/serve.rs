//! `monobloc serve`: bundles over HTTP, for hosts to install.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use package::artifact::Artifact;
use serde_json::json;
use web::bundle_server::{self, ArtifactFiles, BundleServer, Folder, Layer, Limits, Tls};

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{AccessLines, Output, plural};

/// What `configure` makes.
const FOLDER: &str = "genconf/serve";
const PORT: u16 = 8080;

/// Serve bundles over HTTP, for hosts to install
///
/// Any web server can serve the folder that `configure` makes; this one needs no configuration. A bundle
/// that is published meanwhile is served from that moment on. Hosts verify every byte they get, so nothing
/// depends on who serves it. Figures are at `/metrics`, and `/healthz` says whether all is well.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc serve                                        genconf/serve, on port 8080 of every address
  monobloc serve --listen 10.0.0.1:80 --access-log access.log
  monobloc serve --artifact shop.artifact               packages straight from the one file
  monobloc serve --tls-self-signed --tls-name bootstrap.example
  curl http://localhost:8080/latest.json")]
pub(crate) struct ServeArgs {
    /// The folder [default: genconf/serve; with `--artifact`, if it is there]
    folder: Option<Utf8PathBuf>,

    /// An artifact, whose files are served where they lie if the folder does not have them
    #[arg(long, value_name = "FILE")]
    artifact: Option<Utf8PathBuf>,

    /// An address to listen on; several may be given [default: 0.0.0.0:8080 and [::]:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,

    #[command(flatten)]
    tls: TlsArgs,

    /// Where a line for each request goes [default: standard output]
    #[arg(long, value_name = "FILE")]
    access_log: Option<Utf8PathBuf>,

    #[command(flatten)]
    limits: LimitArgs,
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_field_names, reason = "they are the names of the options")]
struct TlsArgs {
    /// Encrypt, with this certificate and those that vouch for it (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<Utf8PathBuf>,

    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<Utf8PathBuf>,

    /// Encrypt, with a certificate that is made the first time and kept
    #[arg(long, conflicts_with = "tls_cert")]
    tls_self_signed: bool,

    /// A name or address of this machine for that certificate; several may be given
    /// [default: localhost, and the addresses that are listened on]
    #[arg(long, value_name = "NAME", requires = "tls_self_signed")]
    tls_name: Vec<String>,

    /// Where that certificate is kept, which must not be served [default: `tls` beside what is served]
    #[arg(long, value_name = "FOLDER", requires = "tls_self_signed")]
    tls_folder: Option<Utf8PathBuf>,
}

#[derive(Debug, clap::Args)]
struct LimitArgs {
    /// Connections that are served at once; others wait
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().connections,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,

    /// How long a client may take to send a request
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().head.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    header_timeout: u64,

    /// How long a connection may be idle
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().idle.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    idle_timeout: u64,

    /// How long a client may take no byte of an answer
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().stall.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    stall_timeout: u64,

    /// How long answers may go on once the server is told to stop
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().stop.as_secs(),
          value_parser = clap::value_parser!(u64).range(0..=86_400))]
    stop_timeout: u64,
}

impl LimitArgs {
    fn limits(&self) -> Limits {
        Limits {
            connections: self.max_connections,
            head: Duration::from_secs(self.header_timeout),
            idle: Duration::from_secs(self.idle_timeout),
            stall: Duration::from_secs(self.stall_timeout),
            stop: Duration::from_secs(self.stop_timeout),
        }
    }
}

pub(crate) fn run(
    context: &Context,
    arguments: &ServeArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let places = Places::of(context, arguments)?;
    let layers = places.layers()?;
    let listeners = listeners(context, &arguments.listen)?;
    let addresses: Vec<SocketAddr> =
        listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
    let tls = arguments.tls.load(context, &places, &addresses)?;
    let log = log_file(context, &places, arguments.access_log.as_deref())?;
    let (lines, log) = AccessLines::write_to(log, output.is_json());
    say(output, &places, &addresses, tls.as_ref())?;
    let server = BundleServer { listeners, tls, layers, limits: arguments.limits.limits(), log };
    server.serve(&context.cancel)?;
    let lost = lines.end();
    if lost > 0 {
        output.warning(&format!(
            "{} of the access log were lost: whoever reads it is too slow",
            plural(usize::try_from(lost).unwrap_or(usize::MAX), "line")
        ));
    }
    Ok(Outcome::Done)
}

/// What is served.
struct Places {
    folder: Option<Utf8PathBuf>,
    artifact: Option<Utf8PathBuf>,
}

impl Places {
    fn of(context: &Context, arguments: &ServeArgs) -> Result<Self, Failure> {
        let named = arguments.artifact.as_deref().or(context.artifact());
        let artifact = named.map(|path| context.absolute(path)).transpose()?;
        let asked = arguments.folder.as_deref().unwrap_or(Utf8Path::new(FOLDER));
        if asked.is_file() {
            return Ok(Self { folder: None, artifact: Some(context.absolute(asked)?) });
        }
        let folder = Some(context.absolute(asked)?);
        // An artifact can have all that hosts need.
        let is_needed = |folder: &Utf8PathBuf| {
            arguments.folder.is_some() || artifact.is_none() || folder.is_dir()
        };
        Ok(Self { folder: folder.filter(is_needed), artifact })
    }

    fn layers(&self) -> Result<Vec<Box<dyn Layer>>, Failure> {
        let mut layers: Vec<Box<dyn Layer>> = Vec::new();
        if let Some(folder) = &self.folder {
            check_folder(folder)?;
            layers.push(Box::new(Folder::new(folder)));
        }
        if let Some(artifact) = &self.artifact {
            layers.push(Box::new(ArtifactFiles::open(&Artifact::open(artifact)?)?));
        }
        Ok(layers)
    }

    /// Nothing of ours may lie where everybody can fetch it.
    fn refuse_inside(&self, path: &Utf8Path) -> Result<(), Failure> {
        let Some(Ok(folder)) = self.folder.as_ref().map(|folder| folder.canonicalize_utf8()) else {
            return Ok(());
        };
        let real = path.ancestors().find_map(|above| above.canonicalize_utf8().ok());
        if real.is_some_and(|real| real.starts_with(folder)) {
            let message = format!("`{path}` is in the folder that is served");
            return Err(Failure::usage(message).hint("keep it elsewhere"));
        }
        Ok(())
    }
}

fn say(
    output: &Output,
    places: &Places,
    addresses: &[SocketAddr],
    tls: Option<&Tls>,
) -> Result<(), Failure> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let urls: Vec<String> =
        addresses.iter().map(|address| format!("{scheme}://{address}")).collect();
    if output.is_json() {
        // One line, as those that follow.
        let line = json!({
            "schema": "monobloc.serve/1",
            "folder": places.folder,
            "artifact": places.artifact,
            "addresses": urls,
            "certificate": tls.map(Tls::certificate),
            "fingerprint": tls.map(Tls::fingerprint),
        });
        return output.line(&line.to_string());
    }
    for (at, path) in places.folder.iter().chain(&places.artifact).enumerate() {
        output.note(&format!("{}{path}", if at == 0 { "serving " } else { "    and " }));
    }
    for url in urls {
        output.note(&format!("  at          {url}"));
    }
    if let Some(tls) = tls {
        output.note(&format!("  certificate {}", tls.certificate()));
        output.note(&format!("  SHA-256     {}", tls.fingerprint()));
    }
    Ok(())
}

fn check_folder(folder: &Utf8Path) -> Result<(), Failure> {
    if !folder.is_dir() {
        return Err(Failure::usage(format!("there is no folder `{folder}`"))
            .hint("`monobloc configure` makes one, or name another"));
    }
    if folder.join("keys/cluster.key").exists() {
        return Err(Failure::usage(format!("`{folder}` holds keys, which must not be served"))
            .hint(format!("serve `{folder}/serve`")));
    }
    Ok(())
}

/// What a service manager opened, what is asked for, or every address.
fn listeners(context: &Context, asked: &[SocketAddr]) -> Result<Vec<TcpListener>, Failure> {
    if context.variable("LISTEN_PID").is_some() {
        let inherited = bundle_server::inherited()?;
        if !inherited.is_empty() && !asked.is_empty() {
            let message =
                "the service manager opened sockets: there is nothing to choose with `--listen`";
            return Err(Failure::usage(message));
        }
        if !inherited.is_empty() {
            return Ok(inherited);
        }
    }
    let listen = |address: SocketAddr| {
        bundle_server::listen(address).map_err(|error| {
            let failure = Failure::new(format!("cannot listen on `{address}`: {error}"));
            match error.kind() {
                ErrorKind::AddrInUse => failure.hint("choose another port with `--listen`"),
                ErrorKind::PermissionDenied => {
                    failure.hint("ports below 1024 are for root; choose another with `--listen`")
                }
                _ => failure,
            }
        })
    };
    if !asked.is_empty() {
        return asked.iter().copied().map(listen).collect();
    }
    let mut all = vec![listen((Ipv4Addr::UNSPECIFIED, PORT).into())?];
    // A machine without IPv6 has the other one.
    all.extend(bundle_server::listen((Ipv6Addr::UNSPECIFIED, PORT).into()));
    Ok(all)
}

fn log_file(
    context: &Context,
    places: &Places,
    path: Option<&Utf8Path>,
) -> Result<Box<dyn Write + Send>, Failure> {
    Ok(match path {
        None => Box::new(io::stdout()),
        Some(path) => {
            let path = context.absolute(path)?;
            places.refuse_inside(&path)?;
            Box::new(fs_err::OpenOptions::new().create(true).append(true).open(path)?)
        }
    })
}

impl TlsArgs {
    fn load(
        &self,
        context: &Context,
        places: &Places,
        addresses: &[SocketAddr],
    ) -> Result<Option<Tls>, Failure> {
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            return Ok(Some(Tls::load(&context.absolute(certificate)?, &context.absolute(key)?)?));
        }
        if !self.tls_self_signed {
            return Ok(None);
        }
        let served = places.folder.as_ref().or(places.artifact.as_ref());
        let folder = match (&self.tls_folder, served) {
            (Some(folder), _) => context.absolute(folder)?,
            (None, Some(served)) => served.with_file_name("tls"),
            (None, None) => context.absolute("tls".into())?,
        };
        places.refuse_inside(&folder)?;
        Ok(Some(Tls::self_signed(&folder, &self.names(addresses))?))
    }

    fn names(&self, addresses: &[SocketAddr]) -> Vec<String> {
        if !self.tls_name.is_empty() {
            return self.tls_name.clone();
        }
        let known = addresses.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified());
        let known: Vec<String> = known.map(|ip: IpAddr| ip.to_string()).collect();
        [vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()], known].concat()
    }
}
