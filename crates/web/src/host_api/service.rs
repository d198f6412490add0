//! Answers requests by calls of the crate `host`. Synchronous, and without any HTTP but the status.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Bytes;
use host::event::Observer;
use host::history::By;
use host::plan::{PlanError, Wanted};
use host::store::{Repository, StoreError, Trust};
use host::{Host, HostError, Job, ObserveError, SystemClock};
use package::active::Conflict;
use package::{Cancel, PackageId};
use serde_json::{Value, json};

use super::answer::{Answer, ApiError, sorted};
use super::body;

/// Something that is asked of a host. Ids are texts that nobody looked at yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Which packages are in the store?
    Repository,
    /// What is this package of the store?
    Package(String),
    /// Get this package from where the body says.
    Fetch(String, Bytes),
    /// Remove this package from the store.
    Remove(String),
    /// Which packages are active?
    Active,
    /// What is this active package?
    ActivePackage(String),
    /// Make the packages active that the body names.
    Activate(Bytes),
}

/// One host, and who asks.
pub struct HostApi {
    host: Host,
    by: By,
    cancel: Cancel,
    observer: Arc<dyn Observer + Send + Sync>,
}

impl std::fmt::Debug for HostApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, by, cancel, observer: _ } = self;
        f.debug_struct("HostApi")
            .field("host", host)
            .field("by", by)
            .field("cancel", cancel)
            .finish_non_exhaustive()
    }
}

impl HostApi {
    /// The API of `host`. The history names `by`, with the request as its command.
    pub fn new(host: Host, by: By, observer: Arc<dyn Observer + Send + Sync>) -> Self {
        Self { host, by, cancel: Cancel::new(), observer }
    }

    /// Stops the work that is going on, up to its commit point.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Does what is asked for; returns when it is done.
    pub fn answer(&self, request: &Request) -> Answer {
        let answer = match request {
            Request::Repository => self.repository(),
            Request::Package(id) => self.package(id),
            Request::Fetch(id, body) => self.fetch(id, body),
            Request::Remove(id) => self.remove(id),
            Request::Active => self.active(),
            Request::ActivePackage(id) => self.active_package(id),
            Request::Activate(body) => self.activate(body),
        };
        match answer {
            Ok(answer) => answer,
            // Whatever broke, it broke because it was told to.
            Err(_) if self.cancel.is_cancelled() => Answer::stopping(),
            Err(error) => error.into(),
        }
    }

    fn repository(&self) -> Result<Answer, ApiError> {
        let ids = self.host.store.list().map_err(StoreError::from)?;
        Ok(Answer::found(json!(sorted(&ids))))
    }

    fn package(&self, id: &str) -> Result<Answer, ApiError> {
        let id = id.parse().map_err(ApiError::NoSuchId)?;
        Ok(Answer::found(self.describe(&id)?))
    }

    fn fetch(&self, id: &str, body: &[u8]) -> Result<Answer, ApiError> {
        let id: PackageId = id.parse().map_err(ApiError::WrongId)?;
        let url = body::repository_url(body)?;
        let repository = Repository::parse(url.as_str(), "/".into())
            .expect("an `http:` or `https:` URL names a repository");
        let (trust, observer) = (Trust::default(), &*self.observer);
        self.host.store.fetch(&repository, &id, &trust, &self.cancel, observer)?;
        Ok(Answer::done())
    }

    fn remove(&self, id: &str) -> Result<Answer, ApiError> {
        let id = id.parse().map_err(ApiError::NoSuchId)?;
        // What is not active can be removed, as the reference does: generations that used it go.
        self.host.remove(&id, true, &self.job(&format!("DELETE /repository/{id}")))?;
        Ok(Answer::done())
    }

    fn active(&self) -> Result<Answer, ApiError> {
        Ok(Answer::found(json!(sorted(&self.host.active()?))))
    }

    fn active_package(&self, id: &str) -> Result<Answer, ApiError> {
        let id: PackageId = id.parse().map_err(ApiError::NoSuchId)?;
        if !self.host.active()?.contains(&id) {
            return Err(ApiError::NotActive(id));
        }
        Ok(Answer::found(self.describe(&id)?))
    }

    fn activate(&self, body: &[u8]) -> Result<Answer, ApiError> {
        let (mut ids, mut twice) = (BTreeSet::new(), Vec::new());
        for id in body::packages(body)? {
            if let Some(id) = ids.replace(id) {
                twice.push(Conflict::DuplicateName { first: id.clone(), second: id });
            }
        }
        let wanted = Wanted::Packages(ids);
        if !twice.is_empty() {
            return Err(self.with_other_conflicts(&wanted, twice).into());
        }
        self.host.activate(&wanted, &self.job("PUT /active/"))?;
        Ok(Answer::done())
    }

    /// A set has nothing twice, so that it is said here, with all else that is wrong.
    fn with_other_conflicts(&self, wanted: &Wanted, mut conflicts: Vec<Conflict>) -> HostError {
        match self.host.plan(wanted, &SystemClock) {
            Err(HostError::Plan(PlanError::Conflicts(more))) => conflicts.extend(more),
            Err(
                error @ (HostError::Plan(PlanError::Missing(_))
                | HostError::Observe(ObserveError::Packages(_))),
            ) => return error,
            _ => {}
        }
        PlanError::Conflicts(conflicts).into()
    }

    /// A package that can be read, in the words of the reference.
    fn describe(&self, id: &PackageId) -> Result<Value, StoreError> {
        match self.host.store.load(id) {
            // Another program unpacked it; all that it says of itself was read.
            Ok(_) | Err(StoreError::NoManifest(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(json!({ "id": id, "name": id.name(), "version": id.version() }))
    }

    fn job(&self, request: &str) -> Job<'_> {
        Job {
            by: By { command: request.to_owned(), ..self.by.clone() },
            reason: String::new(),
            clock: &SystemClock,
            cancel: &self.cancel,
            observer: &*self.observer,
        }
    }
}
