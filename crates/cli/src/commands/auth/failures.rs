//! Failures of logins: from the errors of the library to messages, exit codes and hints.

use mcpjoin::proto::http::origin::Origin;
use mcpjoin_auth::{AuthError, RegistrationError, StepSubject, StoreError, UserAgentError};

use crate::connect::Access;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};

const TELL: &str = "this is a fault of the authorization server: tell those who run it";

/// Refuses a server over plain HTTP on another machine: no token is sent there.
pub(super) fn refuse_plain_http(access: &Access) -> Result<(), Failure> {
    match Origin::of(access.url()) {
        Ok(origin) if !origin.is_secure() && !origin.is_loopback() => Err(Failure::usage(
            format!("nobody can log in to {}: no token is sent over http to another machine", access.named()),
            "name the https URL of the server",
        )),
        _ => Ok(()),
    }
}

/// The server accepts requests without a token, and names no authorization server.
pub(super) fn login_not_needed(access: &Access) -> Failure {
    let problem = "there is nothing to log in to: the server lets in whoever asks";
    Failure::new("E_AUTH_NEEDLESS", Exit::Usage, Phase::Authorize, problem)
        .hint(format!("use it as it is: mcpjoin list {}", access.named()))
}

/// A login cannot be stored or loaded.
pub(super) fn store(error: &StoreError) -> Failure {
    let problem = match error {
        StoreError::System { .. } => format!("logins cannot be stored there: {error}"),
        error => error.to_string(),
    };
    let hint = match error {
        StoreError::System { .. } => {
            "see that it is a folder that you may write to, on a disk that is not full; or name another one in MCPJOIN_AUTH_DIR"
        }
        StoreError::Unreadable { .. } => {
            "where a newer mcpjoin has stored it, use that one; mcpjoin auth logout forgets it"
        }
        StoreError::Busy { .. } => "end the program that holds it (another mcpjoin?), and do it again",
        // The error says what is wrong.
        _ => "mend that, delete it, or name another folder in MCPJOIN_AUTH_DIR",
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
            let shows = format!("{explain} shows every step");
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
                    "register a client with the authorization server yourself, with http://127.0.0.1/callback to come back \
                     to, and name it: --client-id ID"
                }
                RegistrationError::IssuerDiffers { .. } => {
                    "name the client that is registered with that authorization server, or another --issuer"
                }
                _ => {
                    "name a client that is registered already: --client-id ID; where the server takes an API key or a token, \
                     no login is needed: --header 'Authorization: Bearer ...'"
                }
            };
            new("E_AUTH_CLIENT", Exit::Authorization, hint)
        }
        AuthError::UserAgent(found) => match found {
            UserAgentError::PortTaken { .. } => new(
                "E_LISTEN",
                Exit::Usage,
                "end what listens there (another login?), or name another port that the client is registered with",
            ),
            UserAgentError::Listen(_) => {
                new("E_LISTEN", Exit::Usage, "name a port that you may use: --callback-port PORT")
            }
            UserAgentError::NobodyCame { .. } => new(
                "E_AUTH_NOBODY",
                Exit::Authorization,
                "log in in the browser before the time is over (--timeout 20m gives more); --no-browser takes the address by hand",
            ),
            _ => new(
                "E_AUTH_BROWSER",
                Exit::Authorization,
                "--no-browser prints the address, to be opened on any machine",
            ),
        },
        AuthError::Refused { .. } => new(
            "E_AUTH_REFUSED",
            Exit::Authorization,
            "the authorization server says why; ask for other scopes (--scope), or log in as somebody who may",
        ),
        AuthError::Response(_) => new(
            "E_AUTH_RESPONSE",
            Exit::Authorization,
            "nothing of it was used. Log in again; if it comes back, tell those who run the authorization server",
        ),
        AuthError::Token(_) => new("E_AUTH_TOKEN", Exit::Authorization, TELL),
        AuthError::Scopes { missing } => new("E_AUTH_SCOPE", Exit::Authorization, &access.line(missing)),
        AuthError::Endpoint(_) => new("E_AUTH_DISCOVERY", Exit::Authorization, TELL),
        AuthError::Store(error) => store(error),
        _ => new("E_AUTH", Exit::Authorization, &format!("{explain} shows every step")),
    }
}
