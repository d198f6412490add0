//! A host in a temporary folder, packages for it, and its API.

use std::sync::{Arc, mpsc};

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, header};
use camino::{Utf8Path, Utf8PathBuf};
use host::event::{Event, Observer, Silent};
use host::history::By;
use host::store::Trust;
use host::{Host, Job, Paths, SystemClock};
use package::Cancel;
use package::archive::{self, PackOptions};
use package::distribution::Distribution;
use testing::files::write_files;
use tower::ServiceExt as _;
use web::host_api::{HostApi, router};

/// One host.
pub(crate) struct World {
    _folder: tempfile::TempDir,
    pub(crate) top: Utf8PathBuf,
    pub(crate) host: Host,
    pub(crate) cancel: Cancel,
}

/// What a client got.
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Got {
    /// Status and body, with paths that are the same in every run.
    pub(crate) fn shown(&self, world: &World) -> String {
        format!("{} {}", self.status, self.body).trim_end().replace(world.top.as_str(), "TOP")
    }

    pub(crate) fn header(&self, name: &header::HeaderName) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        let paths = Paths {
            root: top.join("root"),
            repository: top.join("root/packages"),
            config: top.join("config"),
        };
        let host = Host::new(Distribution::default(), paths);
        Self { _folder: folder, top, host, cancel: Cancel::new() }
    }

    /// Packs a package of these files to `archives/ID.tar.zst`.
    pub(crate) fn archive(&self, id: &str, info: &str, files: &[(&str, &str)]) -> Utf8PathBuf {
        let made = tempfile::tempdir_in(&self.top).unwrap();
        let folder = Utf8Path::from_path(made.path()).unwrap().join("package");
        write_files(&folder, &[("pkginfo.json", info, 0o644)]).unwrap();
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, *text, 0o755)).collect();
        write_files(&folder, &files).unwrap();
        let archive = self.top.join("archives").join(format!("{id}.tar.zst"));
        let options = PackOptions { level: 1, threads: 1, ..Default::default() };
        archive::pack(&folder, &archive, &options).unwrap();
        archive
    }

    /// Adds a package to the store.
    pub(crate) fn add(&self, id: &str, info: &str, files: &[(&str, &str)]) {
        let archive = self.archive(id, info, files);
        self.host.store.add(&archive, &Trust::default(), &self.cancel, &Silent).unwrap();
    }

    /// Adds `a--1`, `a--2` and `b--1`.
    pub(crate) fn with_packages() -> Self {
        let world = Self::new();
        for (id, file) in [("a--1", "bin/a"), ("a--2", "bin/a"), ("b--1", "bin/b")] {
            world.add(id, "{}", &[(file, id)]);
        }
        world
    }

    pub(crate) fn api(&self) -> HostApi {
        self.api_heard_by(Arc::new(Silent))
    }

    pub(crate) fn api_heard_by(&self, observer: Arc<dyn Observer + Send + Sync>) -> HostApi {
        HostApi::new(self.host.clone(), by(), observer)
    }

    pub(crate) fn job(&self) -> Job<'_> {
        let (cancel, reason) = (&self.cancel, String::new());
        Job { by: by(), reason, clock: &SystemClock, cancel, observer: &Silent }
    }

    pub(crate) fn get(&self, path: &str) -> Got {
        self.send(Method::GET, path, None, "")
    }

    pub(crate) fn delete(&self, path: &str) -> Got {
        self.send(Method::DELETE, path, None, "")
    }

    pub(crate) fn put(&self, path: &str, body: &str) -> Got {
        self.send(Method::PUT, path, Some("application/json"), body)
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Got {
        self.send(Method::POST, path, Some("application/json"), body)
    }

    /// Asks the router, and checks what holds of every answer.
    pub(crate) fn send(&self, method: Method, path: &str, kind: Option<&str>, body: &str) -> Got {
        let is_head = method == Method::HEAD;
        let mut request = Request::builder().method(method).uri(path);
        if let Some(kind) = kind {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let got = runtime.block_on(async {
            let response = router(self.api()).oneshot(request).await.unwrap();
            let (parts, body) = response.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap();
            let body = String::from_utf8(body.to_vec()).unwrap();
            Got { status: parts.status.as_u16(), headers: parts.headers, body }
        });
        if got.status >= 400 && !is_head {
            let document: serde_json::Value = serde_json::from_str(&got.body).unwrap();
            assert!(document["error"].as_str().is_some_and(|text| !text.is_empty()), "{document}");
        }
        if [204, 301].contains(&got.status) {
            assert_eq!((got.body.as_str(), got.header(&header::CONTENT_TYPE)), ("", None));
        } else {
            assert_eq!(got.header(&header::CONTENT_TYPE), Some("application/json"));
        }
        got
    }

    pub(crate) fn active(&self) -> Vec<String> {
        self.host.active().unwrap().iter().map(ToString::to_string).collect()
    }

    /// The packages in the store.
    pub(crate) fn stored(&self) -> Vec<String> {
        self.host.store.list().unwrap().iter().map(ToString::to_string).collect()
    }
}

fn by() -> By {
    By { user: "ada".to_owned(), command: String::new(), program: "monobloc 0.1.0".to_owned() }
}

/// Passes on what it hears, in words.
pub(crate) struct Passing(mpsc::Sender<String>);

impl Passing {
    pub(crate) fn new() -> (Arc<Self>, mpsc::Receiver<String>) {
        let (sender, receiver) = mpsc::channel();
        (Arc::new(Self(sender)), receiver)
    }
}

impl Observer for Passing {
    fn event(&self, event: &Event<'_>) {
        // A test that has ended does not listen.
        drop(self.0.send(format!("{event:?}")));
    }
}

/// Returns when something is heard that begins so.
pub(crate) fn wait_for(heard: &mpsc::Receiver<String>, start: &str) {
    while !heard.recv().unwrap().starts_with(start) {}
}
