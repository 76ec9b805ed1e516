//! Failures of logins: from the errors of the library to messages, exit codes and hints.

use mcpjoin::proto::http::origin::Origin;
use mcpjoin_auth::{AuthError, RegistrationError, StepSubject, StoreError, UserAgentError};

use crate::connect::Access;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};

const TELL: &str = "this is a fault of the authorization server: report it to its operators";

/// Refuses a server over plain HTTP on another machine: no token is sent there.
pub(super) fn refuse_plain_http(access: &Access) -> Result<(), Failure> {
    match Origin::of(access.url()) {
        Ok(origin) if !origin.is_secure() && !origin.is_loopback() => Err(Failure::usage(
            format!(
                "cannot log in to {}: tokens are not sent to another machine over plain http",
                access.named()
            ),
            "name the https URL of the server",
        )),
        _ => Ok(()),
    }
}

/// The server accepts requests without a token, and names no authorization server.
pub(super) fn login_not_needed(access: &Access) -> Failure {
    let problem = "no login is needed: the server answers requests without a token";
    Failure::new("E_AUTH_NEEDLESS", Exit::Usage, Phase::Authorize, problem)
        .hint(format!("use it without a login: mcpjoin list {}", access.named()))
}

/// A login cannot be stored or loaded.
pub(super) fn store(error: &StoreError) -> Failure {
    let problem = match error {
        StoreError::System { .. } => format!("cannot store logins: {error}"),
        error => error.to_string(),
    };
    let hint = match error {
        StoreError::System { .. } => {
            "check that the folder is writable and the disk is not full, or set MCPJOIN_AUTH_DIR to another folder"
        }
        StoreError::Unreadable { .. } => {
            "if a newer mcpjoin stored it, use that version; mcpjoin auth logout deletes it"
        }
        StoreError::Busy { .. } => "end the program that locks it (another mcpjoin?), and try again",
        // The error says what is wrong.
        _ => "fix it, delete it, or set MCPJOIN_AUTH_DIR to another folder",
    };
    Failure::new("E_AUTH_STORE", Exit::Usage, Phase::Authorize, problem).hint(hint)
}

/// The same for an operation that uses the store alone.
pub(super) fn of_store(error: AuthError) -> Failure {
    match error {
        AuthError::Store(error) => store(&error),
        error => store(&StoreError::Other(error.to_string())),
    }
}

pub(super) fn failure(error: &AuthError, access: &Access) -> Failure {
    let explain = access.explain_line();
    let new = |id, exit, hint: &str| {
        Failure::new(id, exit, Phase::Authorize, error.to_string()).hint(hint.to_owned())
    };
    if let Some((kind, what)) = error.outage() {
        return access.outage(kind, what, Phase::Authorize);
    }
    match error {
        AuthError::LoginNeeded(_) => new("E_AUTH", Exit::Authorization, &access.line(&[])),
        AuthError::Discovery(found) => {
            let advice = found.advice.clone();
            let shows = format!("{explain} shows each step");
            let hint = advice.map_or_else(|| shows.clone(), |advice| format!("{advice}; {shows}"));
            if found.subject == StepSubject::Server {
                new("E_CONNECT", Exit::Connection, &hint)
            } else {
                new("E_AUTH_DISCOVERY", Exit::Authorization, &hint)
            }
        }
        AuthError::Registration(found) => {
            let hint = match found {
                RegistrationError::NoWay { .. } => {
                    "register a client with the authorization server yourself, with the redirect URI http://127.0.0.1/callback, \
                     and use its id: --client-id ID"
                }
                RegistrationError::IssuerDiffers { .. } => {
                    "use the client that is registered with that authorization server, or another --issuer"
                }
                _ => {
                    "use a registered client: --client-id ID; if the server uses an API key or a token, no \
                     login is needed: --header 'Authorization: Bearer ...'"
                }
            };
            new("E_AUTH_CLIENT", Exit::Authorization, hint)
        }
        AuthError::UserAgent(found) => match found {
            UserAgentError::PortTaken { .. } => new(
                "E_LISTEN",
                Exit::Usage,
                "end the program that uses the port (another login?), or use another port that is registered for the client",
            ),
            UserAgentError::Listen(_) => {
                new("E_LISTEN", Exit::Usage, "use a port that you may listen on: --callback-port PORT")
            }
            UserAgentError::NobodyCame { .. } => new(
                "E_AUTH_NOBODY",
                Exit::Authorization,
                "log in within the time limit (--timeout 20m extends it); with --no-browser you paste the address",
            ),
            _ => new(
                "E_AUTH_BROWSER",
                Exit::Authorization,
                "--no-browser prints the address; open it on any machine",
            ),
        },
        AuthError::Refused { .. } => new(
            "E_AUTH_REFUSED",
            Exit::Authorization,
            "see the reason above; request other scopes (--scope), or log in with another account",
        ),
        AuthError::Response(_) => new(
            "E_AUTH_RESPONSE",
            Exit::Authorization,
            "it was discarded. Log in again; if this happens again, report it to the operators of the authorization server",
        ),
        AuthError::Token(_) => new("E_AUTH_TOKEN", Exit::Authorization, TELL),
        AuthError::Scopes { missing } => new("E_AUTH_SCOPE", Exit::Authorization, &access.line(missing)),
        AuthError::Endpoint(_) => new("E_AUTH_DISCOVERY", Exit::Authorization, TELL),
        AuthError::Store(error) => store(error),
        _ => new("E_AUTH", Exit::Authorization, &format!("{explain} shows each step")),
    }
}
