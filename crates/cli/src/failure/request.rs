//! A request has failed, or the server has responded with an error.

use mcpjoin::client::ClientError;
use mcpjoin::proto::session::{
    CallError, CallRefused, ResponseProblem, TransportErrorKind, TransportErrorReason as Reason,
};
use mcpjoin::proto::{DecodeErrorKind, ErrorObject, Method, code};
use mcpjoin_orchestra::client::Unreached;

use super::hints::{
    NO_ENCODING, RAISE_LIMIT, SHARE_SESSIONS, SHOWS_STDERR, TELL, TRY_AGAIN, again, of_status,
};
use super::{Failure, Phase};
use crate::exit::Exit;

/// The hint for a call that the server does not accept, where no better command line is known.
/// The command at the end of a hint, which [`Failure::completed_by`] completes.
const LIST: &str = "mcpjoin list";
pub(crate) const SEE_TOOLS: &str = "see the tools: mcpjoin list";
const SEE_OFFER: &str = "see the server's tools, resources and prompts: mcpjoin list";

impl Failure {
    /// A request of the client failed.
    pub(crate) fn client(error: &ClientError, phase: Phase) -> Self {
        let new = |id, exit, hint: &str| Self::new(id, exit, phase, error.to_string()).hint(hint);
        match error {
            ClientError::Call(error) => Self::call(error, phase),
            ClientError::BadParams { .. } => new("E_USAGE", Exit::Usage, "check the arguments"),
            ClientError::UndeclaredInput { asked, .. } => {
                new("E_NEEDS_INPUT", Exit::ServerError, answered_by(asked.as_str()))
            }
            ClientError::InputFailed { asked, .. } => new(
                "E_NEEDS_INPUT",
                Exit::ServerError,
                match asked {
                    Method::CreateMessage => {
                        "run the command of --sampler by itself: it reads the request \
                        from standard input"
                    }
                    _ => "change the answers of --answer, or leave it out and answer on the terminal",
                },
            ),
            ClientError::UnknownTask { error: remote, .. } => new(
                "E_UNKNOWN_TASK",
                Exit::ServerError,
                "check the id and the server; the task may have expired: then start it again",
            )
            .remote_error(remote),
            ClientError::TaskCancelled { .. } => new(
                "E_TASK_CANCELLED",
                Exit::ServerError,
                "start it again; -v shows the server's standard error",
            ),
            ClientError::TaskTimedOut { .. } => new(
                "E_TIMEOUT",
                Exit::Connection,
                "ask for less: the server keeps \
                    the task only for this time",
            ),
            _ => Self::bad_reply(error.to_string(), phase),
        }
    }

    /// The response of the server is invalid.
    pub(crate) fn bad_reply(message: impl Into<String>, phase: Phase) -> Self {
        Self::new("E_BAD_REPLY", Exit::ServerError, phase, message).hint(TELL)
    }

    /// A request failed.
    pub(crate) fn call(error: &CallError, phase: Phase) -> Self {
        let new = |id, exit, hint: &str| Self::new(id, exit, phase, error.to_string()).hint(hint);
        match error {
            CallError::Remote(object) => Self::remote(object, phase),
            CallError::TimedOut { total, .. } => {
                let hint = if *total {
                    "ask for less in one call: it reached the time limit for the whole call"
                } else {
                    "allow more time with --timeout 5m; -v shows the server's standard error"
                };
                new("E_TIMEOUT", Exit::Connection, hint)
            }
            CallError::Closed(cause) => Self::closed(cause, phase),
            // After a connection was made, the address is right.
            CallError::Lost(error)
                if !matches!(error.kind, TransportErrorKind::Broken | TransportErrorKind::Foreign) =>
            {
                Self::broken(error, phase)
            }
            CallError::Lost(error) => {
                let hint = match error.reason() {
                    Some(Reason::NoReply | Reason::NoEvents | Reason::WrongContentType) => TELL,
                    Some(Reason::ContentEncoding) => NO_ENCODING,
                    Some(Reason::SessionNotKept) => SHARE_SESSIONS,
                    _ => of_status(error.http_status(), phase).unwrap_or_else(|| again(phase)),
                };
                new("E_LOST", Exit::Connection, hint)
            }
            // The limit is ours, and no fault of the server.
            CallError::ResponseTooLarge { .. } => new("E_TOO_LARGE", Exit::Connection, RAISE_LIMIT),
            CallError::InvalidResponse { problem, .. } => {
                new("E_BAD_REPLY", Exit::ServerError, TELL).invalid(problem)
            }
            CallError::Refused(CallRefused::TooLarge { .. }) => new("E_TOO_LARGE", Exit::Usage, RAISE_LIMIT),
            CallError::Refused(CallRefused::Undeclared { .. } | CallRefused::NotInVersion { .. }) => {
                new("E_NOT_OFFERED", Exit::ServerError, SEE_OFFER)
            }
            CallError::Refused(CallRefused::Closed | CallRefused::NotOpen) => {
                new("E_CLOSED", Exit::Connection, TRY_AGAIN)
            }
            _ => new("E_CALL", Exit::Connection, "try again"),
        }
    }

    /// The server responded with an error.
    pub(crate) fn remote(error: &ErrorObject, phase: Phase) -> Self {
        // An error of our own bridge.
        if let Some(Unreached { orchestrator, why, .. }) = Unreached::of(error) {
            let hint = format!(
                "check that an orchestrator listens there: mcpjoin doctor orchestra://{orchestrator}"
            );
            return Self::new("E_CONNECT", Exit::Connection, phase, why).hint(hint);
        }
        let hint = match (error.code, phase) {
            (code::INVALID_PARAMS, Phase::Call) => SEE_TOOLS,
            (code::INVALID_PARAMS | code::RESOURCE_NOT_FOUND, Phase::Read) => {
                "see the resources and the URI templates: mcpjoin list"
            }
            (code::INVALID_PARAMS, Phase::Prompt | Phase::Complete) => {
                "see the prompts and the resource templates, with --json also their arguments: mcpjoin list"
            }
            (code::METHOD_NOT_FOUND, _) => SEE_OFFER,
            (code::MISSING_REQUIRED_CLIENT_CAPABILITY, _) => {
                let required = error.data.as_ref().and_then(|data| data.member("requiredCapabilities"));
                let needs =
                    |name: &str| required.as_ref().is_some_and(|required| required.member(name).is_some());
                let asked = [
                    ("elicitation", "elicitation/create"),
                    ("sampling", "sampling/createMessage"),
                    ("roots", "roots/list"),
                ]
                .into_iter()
                .find(|(capability, _)| needs(capability));
                answered_by(asked.map_or("", |(_, method)| method))
            }
            _ => SHOWS_STDERR,
        };
        Self::new("E_SERVER_ERROR", Exit::ServerError, phase, error.to_string())
            .hint(hint)
            .remote_error(error)
    }

    /// Completes a hint that ends with `mcpjoin list`, so that the command can be pasted. `line`: the command line of a verb
    /// with operands, for the same server.
    #[must_use]
    pub(crate) fn completed_by(mut self, line: impl Fn(&str, &str) -> String) -> Self {
        let Some(before) = self.hint.strip_suffix(LIST) else { return self };
        if self.hint == SEE_TOOLS && self.phase == Phase::Call {
            self.seen.alternative = Some(format!("see the parameters of one: {}", line("tool", "NAME")));
        }
        self.hint = format!("{before}{}", line("list", ""));
        self
    }

    /// Adds the error with which the server responded.
    pub(super) fn remote_error(mut self, error: &ErrorObject) -> Self {
        self.seen.remote = Some(error.clone());
        self
    }

    /// Adds what is wrong with the response of the server.
    pub(super) fn invalid(mut self, problem: &ResponseProblem) -> Self {
        self.seen.is_no_message = matches!(
            problem.decode_error(),
            Some(
                DecodeErrorKind::Json(_)
                    | DecodeErrorKind::NotAnObject
                    | DecodeErrorKind::JsonRpcVersion
                    | DecodeErrorKind::BatchEmpty
            )
        );
        self
    }
}

/// The hint for a request of the server that nothing answers here.
fn answered_by(method: &str) -> &'static str {
    match method {
        "elicitation/create" => {
            "the server asks the user something: answer on a terminal, or with --answer FILE (--no-input declines)"
        }
        "sampling/createMessage" => "the server asks a language model: --sampler COMMAND answers",
        "roots/list" => "the server asks for the folders that it may use: --root DIR names one",
        _ => "the server sends a request that mcpjoin does not support",
    }
}
