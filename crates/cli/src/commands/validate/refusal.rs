//! Why there is nothing to judge: from what the library says to failures.

use mcpjoin::proto::session::CloseCause;
use mcpjoin::validate::ValidateError;

use super::report::cut;
use crate::connect::refused;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};

/// Of what a server answered that is no message, so many characters are shown.
const GARBAGE: usize = 200;

/// `typed`: the server's address, as it is shown.
pub(super) fn failure(error: ValidateError, typed: &str) -> Failure {
    match error {
        ValidateError::Spawn(error) => Failure::spawn(&error),
        ValidateError::Socket(error) => Failure::connect(&error),
        ValidateError::Quic(error) => Failure::quic(&error),
        ValidateError::NoSession(failure) => {
            Failure::closed(&CloseCause::Opening(failure), Phase::Initialize)
        }
        ValidateError::Setup(error) => refused(&error),
        error @ ValidateError::Unreachable { .. } => {
            Failure::new("E_CONNECT", Exit::Connection, Phase::Connect, error.to_string())
                .hint("does a server listen there, and may you reach it?")
        }
        error @ ValidateError::Unauthorized { .. } => {
            Failure::new("E_AUTH", Exit::Authorization, Phase::Probe, error.to_string())
                .hint("say who you are: mcpjoin auth login URL, --header 'Authorization: Bearer ...', or --header @FILE; if you did, it is not accepted")
        }
        ValidateError::Redirected { ref location, .. } => {
            let hint = match location {
                // Whoever goes there comes back.
                Some(location) if without_query(location) == without_query(typed) => {
                    "that is the address itself: see what the server, or a proxy before it, wants to be asked otherwise"
                }
                Some(_) => "nothing was sent there: name that address if it is the right one",
                None => "see what the server itself says about it",
            };
            Failure::new("E_NO_ENDPOINT", Exit::Connection, Phase::Probe, error.to_string()).hint(hint)
        }
        ValidateError::NotMcp { status, ref head, .. } => {
            let (id, hint) = match status {
                429 | 500.. => ("E_LINK", "try again; see what the server itself says about it"),
                _ => (
                    "E_NO_ENDPOINT",
                    "is the path right? It is often /mcp, or /sse for the HTTP+SSE of 2024-11-05",
                ),
            };
            let mut failure = Failure::new(id, Exit::Connection, Phase::Probe, error.to_string()).hint(hint);
            if !head.is_empty() {
                failure.seen.garbage = Some(cut(&String::from_utf8_lossy(head), GARBAGE));
            }
            failure
        }
        error => Failure::new("E_VALIDATE", Exit::Connection, Phase::Initialize, error.to_string()),
    }
}

/// Neither is shown with what stands in it.
fn without_query(address: &str) -> &str {
    address.split(['?', '#']).next().unwrap_or(address)
}
