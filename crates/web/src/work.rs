//! Requests on their way to the synchronous half: which may run at once, and when all have ended.
//!
//! A request that waits for its turn holds no thread, and is forgotten when its client goes away.
//! One that was begun goes on to its end on a thread of its own, whether its client still listens or
//! not: what is half done must not depend on a connection.

use std::sync::Arc;

use axum::http::StatusCode;
use package::Cancel;
use tokio::sync::Semaphore;

use crate::host_api::{Answer, HostApi, Request};

/// How many requests are worked on at once; also the number of threads.
pub(crate) const WORK_MAX: u32 = 32;

/// How many packages are fetched at once: fewer than all, so that questions are answered meanwhile.
const FETCHES_MAX: usize = 8;

/// A host's API with its queues.
#[derive(Debug)]
pub(crate) struct Work {
    api: HostApi,
    /// Nothing is begun once this is raised.
    stop: Cancel,
    all: Arc<Semaphore>,
    fetches: Arc<Semaphore>,
    changes: Arc<Semaphore>,
}

impl Work {
    pub(crate) fn new(api: HostApi) -> Self {
        Self::until(api, Cancel::new())
    }

    /// Work that begins nothing once `stop` is raised.
    pub(crate) fn until(api: HostApi, stop: Cancel) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            api,
            stop,
            all: semaphore(WORK_MAX as usize),
            fetches: semaphore(FETCHES_MAX),
            // The host has a lock; here others wait for it without a thread each.
            changes: semaphore(1),
        }
    }

    /// Answers a request when it is its turn.
    pub(crate) async fn run(self: Arc<Self>, request: Request) -> Answer {
        let queue = match request {
            Request::Activate(_) | Request::Remove(_) => Some(&self.changes),
            Request::Fetch(..) => Some(&self.fetches),
            Request::Repository
            | Request::Package(_)
            | Request::Active
            | Request::ActivePackage(_) => None,
        };
        let mut held = Vec::new();
        for semaphore in queue.into_iter().chain([&self.all]) {
            let permit = Arc::clone(semaphore).acquire_owned().await;
            held.push(permit.expect("the queues are never closed"));
        }
        if self.stop.is_cancelled() {
            return Answer::stopping();
        }
        let work = Arc::clone(&self);
        let answer = tokio::task::spawn_blocking(move || {
            let _held = held;
            work.api.answer(&request)
        });
        answer.await.unwrap_or_else(|_| {
            let text = "the program failed while it answered; its log says how";
            Answer::error(StatusCode::INTERNAL_SERVER_ERROR, text)
        })
    }

    /// Waits until nothing is worked on.
    pub(crate) async fn ended(&self) {
        let all = self.all.acquire_many(WORK_MAX).await;
        drop(all.expect("the queues are never closed"));
    }

    /// Stops what is worked on at its next clean point.
    pub(crate) fn cancel(&self) {
        self.api.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Poll;

    use camino::Utf8Path;
    use host::event::{Event, Observer, Silent};
    use host::history::By;
    use host::{Host, Job, Paths, SystemClock};
    use package::distribution::Distribution;

    use super::*;

    fn by() -> By {
        By { user: String::new(), command: String::new(), program: String::new() }
    }

    fn host_at(folder: &Utf8Path) -> Host {
        let paths = Paths {
            root: folder.join("root"),
            repository: folder.join("root/packages"),
            config: folder.join("config"),
        };
        Host::new(Distribution::default(), paths)
    }

    /// Begins a future, which must not be ready.
    async fn begin<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) {
        let is_pending =
            std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending()));
        assert!(is_pending.await);
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn what_waits_for_its_turn_is_not_begun_once_the_server_stops() {
        let folder = tempfile::tempdir().unwrap();
        let host = host_at(Utf8Path::from_path(folder.path()).unwrap());
        let (cancel, stop) = (Cancel::new(), Cancel::new());
        let (clock, observer) = (&SystemClock, &Silent);
        let job = Job { by: by(), reason: String::new(), clock, cancel: &cancel, observer };
        let lock = host.lock(&job).unwrap();
        let api = HostApi::new(host.clone(), by(), Arc::new(Silent));
        let work = Arc::new(Work::until(api, stop.clone()));
        block_on(async {
            let change = || Arc::clone(&work).run(Request::Activate("[]".into()));
            let (mut first, mut second) = (pin!(change()), pin!(change()));
            begin(first.as_mut()).await;
            begin(second.as_mut()).await;
            stop.cancel();
            drop(lock);
            assert_eq!(first.await.status, StatusCode::NO_CONTENT);
            assert_eq!(second.await, Answer::stopping());
            work.ended().await;
        });
    }

    /// Fails once.
    struct Broken(std::sync::atomic::AtomicBool);

    impl Observer for Broken {
        fn event(&self, _: &Event<'_>) {
            let fails = self.0.swap(false, std::sync::atomic::Ordering::SeqCst);
            assert!(!fails, "this is part of the test");
        }
    }

    #[test]
    fn a_request_that_breaks_the_program_is_answered_and_breaks_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let host = host_at(Utf8Path::from_path(folder.path()).unwrap());
        let api = HostApi::new(host.clone(), by(), Arc::new(Broken(true.into())));
        let work = Arc::new(Work::new(api));
        block_on(async {
            let change = || Arc::clone(&work).run(Request::Activate("[]".into()));
            assert_eq!(change().await.status, StatusCode::INTERNAL_SERVER_ERROR);
            assert!(host.active().is_err());
            assert_eq!(change().await.status, StatusCode::NO_CONTENT);
            work.ended().await;
        });
    }
}
