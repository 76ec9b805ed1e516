//! What is recorded of each request of a client: who asked which server for what, how it ended, how long it took.
//!
//! [`recorded`] stands around the answer of a target to a request, so each request has exactly one record, also when
//! it is cancelled. Made by `legacy` and `modern`; given to the program as [`GatewayEvent::Called`]. It never contains
//! a header, and it keeps the text of the parameters and of the result only until the event has been handled.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic>

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mcpjoin_proto::session::{Origin, Reply};
use mcpjoin_proto::types::Implementation;
use mcpjoin_proto::{ErrorObject, Method, Payload, Raw, Request, code};
use tokio::time::Instant;

use super::end::GatewayEvent;
use super::errors::noting_refusal;
use super::settings::Settings;
use mcpjoin::connection::Context;

/// The member of a result that says that a tool has failed.
const IS_ERROR: &[u8] = b"\"isError\"";

/// One request of a client, after its end.
#[derive(Clone)]
#[non_exhaustive]
pub struct CallRecord {
    /// When the request arrived, by the clock of this machine.
    pub time: SystemTime,
    /// The name of the target.
    pub target: Box<str>,
    /// The method.
    pub method: Method,
    /// How it ended.
    pub outcome: CallOutcome,
    /// The time from its arrival to its end.
    pub duration: Duration,
    /// The size of its parameters in bytes.
    pub bytes_in: usize,
    /// The size of its result, or of the message and the data of its error, in bytes.
    pub bytes_out: usize,
    params: Option<Payload>,
    origin: Option<Arc<Origin>>,
    client: Option<Arc<Implementation>>,
    result: Option<Raw>,
}

/// How a request of a client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallOutcome {
    /// With a result.
    Ok,
    /// With a result of a tool that says that the tool has failed (`isError`).
    ToolError,
    /// With an error.
    Error {
        /// The code of the error.
        code: i64,
    },
    /// With the error -32601: the target does not have the method. Clients ask for lists that a server has not declared. A tool that is
    /// unknown is an [`Error`](Self::Error).
    Unsupported,
    /// The client cancelled it, or its connection ended.
    Cancelled,
    /// With an error of the gateway, because the request is above a limit or against a rule.
    Refused,
}

impl CallOutcome {
    /// Returns the word for this outcome in records and metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::Error { .. } => "error",
            Self::Unsupported => "unsupported",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
        }
    }
}

impl CallRecord {
    /// Returns the authenticated principal that made the request; `None` if the request was not authenticated.
    #[must_use]
    pub fn principal(&self) -> Option<&str> {
        self.origin.as_ref()?.principal.as_deref()
    }

    /// Returns the address of the client; `None` if its connection has none.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.origin.as_ref()?.peer.as_deref()
    }

    /// Returns the name and version that the client gives itself.
    #[must_use]
    pub fn client(&self) -> Option<&Implementation> {
        self.client.as_deref()
    }

    /// Returns the name of the tool or the prompt, or the URI of the resource, that the request is about. The client
    /// has chosen it, so it may be long.
    #[must_use]
    pub fn subject(&self) -> Option<String> {
        let params = self.params.as_ref()?;
        match self.method {
            Method::CallTool | Method::GetPrompt => params.name_string().map(Into::into),
            Method::ReadResource | Method::Subscribe | Method::Unsubscribe => {
                params.uri()?.to_string_value().map(Into::into)
            }
            _ => None,
        }
    }

    /// Returns the arguments of a call of a tool or a prompt. They may contain secrets of the client's user.
    #[must_use]
    pub fn arguments(&self) -> Option<Raw> {
        self.params.as_ref()?.raw().member("arguments")
    }

    /// Returns the names of the tools in the result of `tools/list`; nothing for other requests.
    #[must_use]
    pub fn listed_tools(&self) -> Vec<String> {
        let tools = self.result.as_ref().filter(|_| self.method == Method::ListTools);
        let tools = tools.and_then(|result| result.member("tools")?.decode::<Vec<Raw>>().ok());
        let names = tools.iter().flatten().filter_map(|tool| tool.member("name"));
        names.filter_map(|name| name.to_string_value().map(Into::into)).collect()
    }
}

/// Without the parameters and the result, which may contain secrets.
impl fmt::Debug for CallRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallRecord")
            .field("target", &self.target)
            .field("method", &self.method)
            .field("outcome", &self.outcome)
            .field("duration", &self.duration)
            .field("bytes_in", &self.bytes_in)
            .field("bytes_out", &self.bytes_out)
            .finish_non_exhaustive()
    }
}

/// Answers a request of a client, and reports its record if records are wanted.
pub(super) async fn recorded<F: Future<Output = Result<Reply, ErrorObject>>>(
    settings: &Settings,
    request: Request,
    cx: &Context,
    answer: impl FnOnce(Request) -> F,
) -> Result<Reply, ErrorObject> {
    if !settings.records_calls {
        return answer(request).await;
    }
    let mut call = InProgress::begin(settings, &request);
    call.record.origin = cx.origin().cloned();
    call.record.client = cx.client().and_then(|client| client.info.clone());
    let (answer, is_refused) = noting_refusal(answer(request)).await;
    call.end(&answer, is_refused);
    answer
}

/// A request that has no answer yet. Dropping it reports its record; without an answer it was cancelled.
struct InProgress<'a> {
    settings: &'a Settings,
    record: CallRecord,
    began: Instant,
}

impl<'a> InProgress<'a> {
    fn begin(settings: &'a Settings, request: &Request) -> Self {
        settings.emit(&GatewayEvent::Calling { target: &settings.name });
        let record = CallRecord {
            time: SystemTime::now(),
            target: settings.name.clone(),
            method: request.method.clone(),
            outcome: CallOutcome::Cancelled,
            duration: Duration::ZERO,
            bytes_in: request.params.as_ref().map_or(0, |params| params.raw().len()),
            bytes_out: 0,
            params: request.params.clone(),
            origin: None,
            client: None,
            result: None,
        };
        Self { settings, record, began: Instant::now() }
    }

    /// `is_refused`: an error is the gateway's own, because of a limit or a rule.
    fn end(&mut self, answer: &Result<Reply, ErrorObject>, is_refused: bool) {
        let record = &mut self.record;
        let result = match answer {
            Ok(Reply::Complete(result) | Reply::Task(result)) => Some(result),
            Ok(Reply::Verbatim(result)) => Some(result.raw()),
            Ok(Reply::NeedInput(_)) => None,
            Err(error) => {
                let data = error.data.as_ref();
                record.bytes_out = error.message.len() + data.map_or(0, Raw::len);
                record.outcome = match (is_refused, error.code) {
                    (true, _) => CallOutcome::Refused,
                    (false, code::METHOD_NOT_FOUND) if record.method != Method::CallTool => {
                        CallOutcome::Unsupported
                    }
                    (false, code) => CallOutcome::Error { code },
                };
                return;
            }
        };
        record.bytes_out = result.map_or(0, Raw::len);
        record.outcome =
            match result.is_some_and(|result| record.method == Method::CallTool && has_failed(result)) {
                true => CallOutcome::ToolError,
                false => CallOutcome::Ok,
            };
        record.result = result.filter(|_| record.method == Method::ListTools).cloned();
    }
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.record.duration = self.began.elapsed();
        self.settings.emit(&GatewayEvent::Called(&self.record));
    }
}

/// Reports a request that was refused before its client had a connection.
pub(super) fn record_refused(
    settings: &Settings,
    request: &Request,
    origin: Arc<Origin>,
    error: &ErrorObject,
    is_refused: bool,
) {
    if settings.records_calls {
        let mut call = InProgress::begin(settings, request);
        call.record.origin = Some(origin);
        call.end(&Err(error.clone()), is_refused);
    }
}

/// Whether the result of a tool says that the tool has failed. Few results have the member, so most are not scanned
/// member by member.
fn has_failed(result: &Raw) -> bool {
    memchr::memmem::find(result.as_str().as_bytes(), IS_ERROR).is_some()
        && result.member("isError").is_some_and(|failed| failed.as_str() == "true")
}
