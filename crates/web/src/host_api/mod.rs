//! The HTTP API of a host: which request is asked for at which path.
//!
//! Every path stands with and without the prefix under which DC/OS's proxy shows it. What is asked
//! for is put into a [`Request`]; [`HostApi`] answers it, without knowing of HTTP servers.

mod answer;
pub mod body;
mod service;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, RawQuery, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};

use crate::work::Work;

pub use answer::Answer;
pub use service::{HostApi, Request};

/// The prefix of the reference.
const PREFIX: &str = "/pkgpanda";

/// The largest body that is taken: some ten thousand ids.
const BODY_MAX_BYTES: usize = 1 << 20;

/// All requests, for a server or for a test.
pub fn router(api: HostApi) -> Router {
    with_work(Arc::new(Work::new(api)))
}

pub(crate) fn with_work(work: Arc<Work>) -> Router {
    let paths = Router::new()
        .route("/repository", any(add_slash))
        .route("/repository/", get(repository))
        .route("/repository/{id}", get(package).post(fetch).delete(remove))
        .route("/active", any(add_slash))
        .route("/active/", get(active).put(activate))
        .route("/active/{id}", get(active_package));
    Router::new()
        .nest(PREFIX, paths.clone())
        .merge(paths)
        .fallback(async || Answer::error(StatusCode::NOT_FOUND, "there is nothing at this path"))
        .method_not_allowed_fallback(async || {
            Answer::error(StatusCode::METHOD_NOT_ALLOWED, "this path does not know this method")
        })
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .with_state(work)
}

type Shared = State<Arc<Work>>;

async fn repository(State(work): Shared) -> Answer {
    work.run(Request::Repository).await
}

async fn package(State(work): Shared, Id(id): Id) -> Answer {
    work.run(Request::Package(id)).await
}

async fn fetch(State(work): Shared, Id(id): Id, JsonBody(body): JsonBody) -> Answer {
    work.run(Request::Fetch(id, body)).await
}

async fn remove(State(work): Shared, Id(id): Id) -> Answer {
    work.run(Request::Remove(id)).await
}

async fn active(State(work): Shared) -> Answer {
    work.run(Request::Active).await
}

async fn active_package(State(work): Shared, Id(id): Id) -> Answer {
    work.run(Request::ActivePackage(id)).await
}

async fn activate(State(work): Shared, JsonBody(body): JsonBody) -> Answer {
    work.run(Request::Activate(body)).await
}

/// Sends on to the same path with a slash at its end. The address is relative, so that it is right
/// behind any proxy.
async fn add_slash(uri: Uri, RawQuery(query): RawQuery) -> Response {
    let name = uri.path().rsplit('/').next().unwrap_or_default();
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let location = format!("{name}/{query}");
    (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, location)]).into_response()
}

/// The last part of the path. One that cannot be decoded is taken as it is, which is no id.
struct Id(String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(id)) => Self(id),
            Err(_) => Self(parts.uri.path().rsplit('/').next().unwrap_or_default().to_owned()),
        })
    }
}

/// A body that says it is JSON. A page in a browser cannot send one elsewhere without asking first,
/// which this API never allows.
struct JsonBody(Bytes);

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = Answer;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Answer> {
        if !is_json(request.headers()) {
            let text = "the body must be JSON, with the content type `application/json`";
            return Err(Answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        match Bytes::from_request(request, state).await {
            Ok(body) => Ok(Self(body)),
            Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                let text = format!("the body is larger than {BODY_MAX_BYTES} bytes");
                Err(Answer::error(StatusCode::PAYLOAD_TOO_LARGE, text))
            }
            Err(error) => Err(Answer::error(error.status(), error.body_text())),
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let stated = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = stated.unwrap_or_default().split(';').next().unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}
