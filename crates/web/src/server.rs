//! Serves until told to stop, and then ends what was begun.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{StatusCode, header, uri::Authority};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use package::Cancel;

use crate::host_api::{self, Answer, HostApi};
use crate::listen::{Listener, Socket};
use crate::platform;
use crate::work::{WORK_MAX, Work};

/// How often the server looks whether it shall stop.
const POLL: Duration = Duration::from_millis(100);

/// How long the end may take once the server is told to stop.
#[derive(Debug, Clone, Copy)]
pub struct StopLimits {
    /// What was begun may go on for so long; then it is stopped at a clean point.
    pub work: Duration,
    /// When all work has ended, clients may take so long to read their answers.
    pub answers: Duration,
}

impl Default for StopLimits {
    /// Well within the ninety seconds after which a service manager kills.
    fn default() -> Self {
        Self { work: Duration::from_mins(1), answers: Duration::from_secs(5) }
    }
}

/// Answers requests until `stop` is raised; returns when everything that was begun has ended.
pub fn serve(
    listener: Listener,
    api: HostApi,
    stop: &Cancel,
    limits: StopLimits,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(WORK_MAX as usize)
        .build()?;
    let work = Arc::new(Work::until(api, stop.clone()));
    runtime.block_on(async {
        tokio::select! {
            served = accept(listener, Arc::clone(&work), stop.clone()) => served,
            () = end(&work, stop, limits) => Ok(()),
        }
    })
}

async fn accept(listener: Listener, work: Arc<Work>, stop: Cancel) -> io::Result<()> {
    let router = host_api::with_work(work);
    // The guard of the socket's file lives until all is served.
    let Listener { socket, guard: _guard, .. } = listener;
    match socket {
        Socket::Local(socket) => platform::serve(socket, router, raised(stop)).await,
        Socket::Tcp(socket) => {
            let socket = tokio::net::TcpListener::from_std(socket)?;
            let router = router.layer(middleware::from_fn(only_for_loopback));
            axum::serve(socket, router).with_graceful_shutdown(raised(stop)).await
        }
    }
}

/// Returns when the server has waited long enough for those who were connected when it was stopped.
async fn end(work: &Work, stop: &Cancel, limits: StopLimits) {
    raised(stop.clone()).await;
    if tokio::time::timeout(limits.work, work.ended()).await.is_err() {
        work.cancel();
        work.ended().await;
    }
    tokio::time::sleep(limits.answers).await;
}

async fn raised(flag: Cancel) {
    while !flag.is_cancelled() {
        tokio::time::sleep(POLL).await;
    }
}

/// A name in a browser can be made to lead to this machine; a page from there must not reach us.
async fn only_for_loopback(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST);
    if host.is_none_or(|host| host.to_str().is_ok_and(is_loopback)) {
        return next.run(request).await;
    }
    let text = "this API answers only to the names of this machine: `localhost` or its address";
    Answer::error(StatusCode::MISDIRECTED_REQUEST, text).into_response()
}

fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in
            ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "127.9.9.9", "[::1]:80", "[::1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:80", "10.0.0.1", "", "a b", "[::2]"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
