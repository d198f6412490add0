//! What a request is answered, and which status belongs to which error.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use host::plan::PlanError;
use host::store::StoreError;
use host::{ExecuteError, HostError};
use package::PackageId;
use package::id::ParseIdError;
use serde_json::{Value, json};

use super::body::BodyError;

/// A status and a JSON document, or nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The document.
    pub body: Option<Value>,
}

impl Answer {
    /// What was asked for.
    pub(super) fn found(body: Value) -> Self {
        Self { status: StatusCode::OK, body: Some(body) }
    }

    /// What was asked for is done.
    pub(super) fn done() -> Self {
        Self { status: StatusCode::NO_CONTENT, body: None }
    }

    /// What was asked for is not done.
    pub(crate) fn error(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, body: Some(json!({ "error": text.into() })) }
    }

    /// Nothing is begun any more, or it was given up.
    pub(crate) fn stopping() -> Self {
        Self::error(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping; nothing was done")
    }

    /// The same with more for programs.
    fn with(mut self, key: &str, value: Value) -> Self {
        if let Some(Value::Object(body)) = &mut self.body {
            body.insert(key.to_owned(), value);
        }
        self
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        match self.body {
            None => self.status.into_response(),
            Some(body) => {
                let kind = [(header::CONTENT_TYPE, "application/json")];
                (self.status, kind, body.to_string()).into_response()
            }
        }
    }
}

/// Ids in the order of their bytes, which is not that of their names and versions.
pub(super) fn sorted<'a>(ids: impl IntoIterator<Item = &'a PackageId>) -> Vec<String> {
    let mut texts: Vec<String> = ids.into_iter().map(ToString::to_string).collect();
    texts.sort();
    texts
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error(transparent)]
    NoSuchId(ParseIdError),
    #[error(transparent)]
    WrongId(ParseIdError),
    #[error("package `{0}` is not active")]
    NotActive(PackageId),
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Host(#[from] HostError),
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::Host(error.into())
    }
}

impl From<ApiError> for Answer {
    fn from(error: ApiError) -> Self {
        let status = match &error {
            ApiError::NoSuchId(_) | ApiError::NotActive(_) => StatusCode::NOT_FOUND,
            ApiError::WrongId(_) | ApiError::Body(_) => StatusCode::BAD_REQUEST,
            ApiError::Host(error) => status(error),
        };
        let answer = Self::error(status, package::causes(&error).join(": "));
        match error {
            ApiError::Host(HostError::Plan(PlanError::Missing(ids))) => {
                answer.with("missing_packages", json!(sorted(&ids)))
            }
            _ => answer,
        }
    }
}

fn status(error: &HostError) -> StatusCode {
    match error {
        // The set becomes something that can be asked for when it is first put there.
        HostError::NotBootstrapped(_) | HostError::Store(StoreError::NotFound(_)) => {
            StatusCode::NOT_FOUND
        }
        HostError::Active { .. } | HostError::Used { .. } | HostError::Plan(_) => {
            StatusCode::CONFLICT
        }
        HostError::Store(error) if error.is_of_the_source() => StatusCode::BAD_GATEWAY,
        HostError::Cancelled(_) | HostError::Execute(ExecuteError::Cancelled(_)) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
