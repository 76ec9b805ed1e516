//! Receives the redirect of a login: a listener on the loopback interface that accepts one response.
//!
//! Used by `browser`. [RFC 8252, 7.3 and 8.3](https://www.rfc-editor.org/rfc/rfc8252#section-7.3): it listens on loopback addresses
//! only, and only while the response is expected. It serves one path. A request that names another host (a DNS name that leads
//! here) or has another `state` (adversarial case 135) is refused, and the listener goes on: the right response can still come.
//! Its pages repeat nothing of a request.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::form::Parameters;

/// The longest head of a request in bytes: a code and a state take a fraction of it.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// How long a connected browser may be silent.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest number of connections. Browsers open some before they need them.
const MAX_CONNECTIONS: usize = 32;
/// How long to wait after accepting fails: the process may have no free file descriptor.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// How many ports are tried when a port is free on one address only.
const MAX_PORT_TRIES: usize = 16;

/// Waits for one response.
#[derive(Debug)]
pub(super) struct Callback {
    listeners: Vec<TcpListener>,
    port: u16,
    path: String,
}

/// The problem of a request, or the query of the right one.
enum Received {
    Answer(String),
    Refused,
}

impl Callback {
    /// Listens on 127.0.0.1, and on `::1` where there is one. Port 0 means any free port. `both`: a browser may use either
    /// address, so no other program may listen on the other one.
    pub(super) async fn listen(port: u16, path: &str, both: bool) -> io::Result<Self> {
        let path = path.to_owned();
        for tries in 1.. {
            let four = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
            let found = four.local_addr()?.port();
            match TcpListener::bind((Ipv6Addr::LOCALHOST, found)).await {
                Ok(six) => return Ok(Self { listeners: vec![four, six], port: found, path }),
                Err(error) if both && error.kind() == io::ErrorKind::AddrInUse => {
                    if port != 0 || tries == MAX_PORT_TRIES {
                        return Err(error);
                    }
                }
                // There is no such address, or no browser uses it.
                Err(_) => return Ok(Self { listeners: vec![four], port: found, path }),
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the query of the one request with this state.
    pub(super) async fn answer(self, state: &str) -> String {
        let this = &self;
        let mut talks = FuturesUnordered::new();
        loop {
            let accepted = this.accept().boxed();
            let full = talks.len() >= MAX_CONNECTIONS;
            if talks.is_empty() {
                let stream = accepted.await;
                talks.push(this.talk(stream, state).boxed());
                continue;
            }
            if full {
                if let Some(Received::Answer(query)) = talks.next().await {
                    return query;
                }
                continue;
            }
            match select(accepted, talks.next()).await {
                Either::Left((stream, _)) => talks.push(this.talk(stream, state).boxed()),
                Either::Right((Some(Received::Answer(query)), _)) => return query,
                Either::Right(_) => {}
            }
        }
    }

    /// Accepts a connection. An error is passed over: the browser retries, or uses the other address.
    async fn accept(&self) -> TcpStream {
        // Each listener accepts on its own: one that fails does not block the other.
        let accepts = self.listeners.iter().map(|listener| accept_at(listener).boxed());
        futures_util::future::select_all(accepts).await.0
    }

    /// Handles one request of one connection.
    async fn talk(&self, mut stream: TcpStream, state: &str) -> Received {
        let Ok(Some(head)) = timeout(REQUEST_TIMEOUT, head(&mut stream)).await else {
            return Received::Refused;
        };
        let (page, received) = self.check(&head, state);
        // The response was received, whether or not the browser reads the page.
        let _ = timeout(REQUEST_TIMEOUT, async {
            stream.write_all(page.as_bytes()).await?;
            stream.shutdown().await
        })
        .await;
        received
    }

    fn check(&self, head: &str, state: &str) -> (String, Received) {
        let refused = |status: &str, text: &str| (page(status, text), Received::Refused);
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (first.next(), first.next(), first.next(), first.next())
        else {
            return refused("400 Bad Request", "Invalid request.");
        };
        if !version.starts_with("HTTP/1.") {
            return refused("400 Bad Request", "Invalid request.");
        }
        let mut hosts = lines
            .filter_map(|line| line.split_once(':'))
            .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
            .map(|(_, value)| value.trim());
        match (hosts.next(), hosts.next()) {
            (Some(host), None) if self.is_ours(host) => {}
            // RFC 9112, 3.2.
            (None, _) | (_, Some(_)) => {
                return refused("400 Bad Request", "Invalid request.");
            }
            _ => return refused("403 Forbidden", "This page works only on this machine."),
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if path != self.path {
            return refused("404 Not Found", "There is nothing here.");
        }
        if method != "GET" {
            return refused("405 Method Not Allowed", "This page supports only GET.");
        }
        let fits = Parameters::parse(query)
            .is_ok_and(|parameters| parameters.value("state").is_some_and(|given| given == state));
        if !fits {
            return refused(
                "400 Bad Request",
                "This response belongs to another login. Start the login again in the program.",
            );
        }
        let text = "Login response received. You can close this window; the program shows the result.";
        (page("200 OK", text), Received::Answer(query.to_owned()))
    }

    /// Whether a request is meant for this listener, and not for a DNS name of a third party that leads here.
    fn is_ours(&self, host: &str) -> bool {
        // A URL with the default port of http need not name it (RFC 9110, 4.2.3).
        let name =
            host.strip_suffix(&format!(":{}", self.port)).or_else(|| (self.port == 80).then_some(host));
        let ours = ["127.0.0.1", "localhost", "[::1]"];
        name.is_some_and(|name| ours.iter().any(|ours| name.eq_ignore_ascii_case(ours)))
    }
}

async fn accept_at(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::debug!(target: "mcpjoin", %error, "a browser could not be accepted");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Reads the head of a request; `None` when it ends early or is too long.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            bytes.truncate(end);
            return String::from_utf8(bytes).ok();
        }
        if bytes.len() >= MAX_HEAD_BYTES || stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// A page with one fixed sentence.
fn page(status: &str, text: &str) -> String {
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>mcpjoin</title>\
         <p style=\"font: 1.2em sans-serif; margin: 4em auto; max-width: 30em\">{text}</p></html>\n"
    );
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests;
