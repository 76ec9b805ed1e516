//! The page to which a browser comes back: a listener on the loopback interface that hears one answer.
//!
//! Used by `browser`. [RFC 8252, 7.3 and 8.3](https://www.rfc-editor.org/rfc/rfc8252#section-7.3): it listens on loopback addresses
//! alone, for as long as the answer is waited for and no longer. It knows one path; a request that names another host (a name that
//! somebody had lead here) or carries another `state` (adversarial case 135) is refused and ends nothing: the right answer can still
//! come. Nothing of what was asked stands on its pages.

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

/// The head of a request may have so many bytes: a code and a state fit in a fraction.
const HEAD: usize = 64 * 1024;
/// A browser that has connected and then says nothing is not waited for any longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many connections at once. Browsers open some before they need them.
const CONNECTIONS: usize = 32;
/// How long nobody is accepted after somebody could not be: the process may have no more files to open.
const PAUSE: Duration = Duration::from_millis(100);
/// How often another free port is looked for, when one is free on one address alone.
const TRIES: usize = 16;

/// Waits for one answer.
#[derive(Debug)]
pub(super) struct Callback {
    listeners: Vec<TcpListener>,
    port: u16,
    path: String,
}

/// What is wrong with a request, or the query of the right one.
enum Heard {
    Answer(String),
    Refused,
}

impl Callback {
    /// Listens on 127.0.0.1, and on `::1` where there is one. Port 0 is any that is free. `both`: a browser may come to either
    /// address, so nobody else may listen on the other one.
    pub(super) async fn listen(port: u16, path: &str, both: bool) -> io::Result<Self> {
        let path = path.to_owned();
        for tries in 1.. {
            let four = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
            let found = four.local_addr()?.port();
            match TcpListener::bind((Ipv6Addr::LOCALHOST, found)).await {
                Ok(six) => return Ok(Self { listeners: vec![four, six], port: found, path }),
                Err(error) if both && error.kind() == io::ErrorKind::AddrInUse => {
                    if port != 0 || tries == TRIES {
                        return Err(error);
                    }
                }
                // There is no such address, or nobody is led there.
                Err(_) => return Ok(Self { listeners: vec![four], port: found, path }),
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// The query of the one request that has this state.
    pub(super) async fn answer(self, state: &str) -> String {
        let this = &self;
        let mut talks = FuturesUnordered::new();
        loop {
            let accepted = this.accept().boxed();
            let full = talks.len() >= CONNECTIONS;
            if talks.is_empty() {
                let stream = accepted.await;
                talks.push(this.talk(stream, state).boxed());
                continue;
            }
            if full {
                if let Some(Heard::Answer(query)) = talks.next().await {
                    return query;
                }
                continue;
            }
            match select(accepted, talks.next()).await {
                Either::Left((stream, _)) => talks.push(this.talk(stream, state).boxed()),
                Either::Right((Some(Heard::Answer(query)), _)) => return query,
                Either::Right(_) => {}
            }
        }
    }

    /// The next who comes. Who cannot be accepted ends nothing: the browser comes again, or to the other address.
    async fn accept(&self) -> TcpStream {
        // Each waits for itself: one that fails keeps none of the others from whoever comes there.
        let accepts = self.listeners.iter().map(|listener| accept_at(listener).boxed());
        futures_util::future::select_all(accepts).await.0
    }

    /// One request of one connection.
    async fn talk(&self, mut stream: TcpStream, state: &str) -> Heard {
        let Ok(Some(head)) = timeout(PATIENCE, head(&mut stream)).await else { return Heard::Refused };
        let (page, heard) = self.judge(&head, state);
        // Whether the browser has read the page or not, the answer was heard.
        let _ = timeout(PATIENCE, async {
            stream.write_all(page.as_bytes()).await?;
            stream.shutdown().await
        })
        .await;
        heard
    }

    fn judge(&self, head: &str, state: &str) -> (String, Heard) {
        let refused = |status: &str, text: &str| (page(status, text), Heard::Refused);
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (first.next(), first.next(), first.next(), first.next())
        else {
            return refused("400 Bad Request", "This is no request that is understood here.");
        };
        if !version.starts_with("HTTP/1.") {
            return refused("400 Bad Request", "This is no request that is understood here.");
        }
        let mut hosts = lines
            .filter_map(|line| line.split_once(':'))
            .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
            .map(|(_, value)| value.trim());
        match (hosts.next(), hosts.next()) {
            (Some(host), None) if self.is_ours(host) => {}
            // RFC 9112, 3.2.
            (None, _) | (_, Some(_)) => {
                return refused("400 Bad Request", "This is no request that is understood here.");
            }
            _ => return refused("403 Forbidden", "This page is for this machine alone."),
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if path != self.path {
            return refused("404 Not Found", "There is nothing here.");
        }
        if method != "GET" {
            return refused("405 Method Not Allowed", "This page is only read.");
        }
        let fits = Parameters::parse(query)
            .is_ok_and(|parameters| parameters.value("state").is_some_and(|given| given == state));
        if !fits {
            return refused(
                "400 Bad Request",
                "This does not belong to the login that is waited for. Start the login again from the program.",
            );
        }
        let text = "The answer has arrived. You can close this window; the program says what has come of it.";
        (page("200 OK", text), Heard::Answer(query.to_owned()))
    }

    /// Whether a request is meant for this listener: else a name leads here that somebody else has chosen.
    fn is_ours(&self, host: &str) -> bool {
        // Whoever comes to the port of http need not name it (RFC 9110, 4.2.3).
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
                sleep(PAUSE).await;
            }
        }
    }
}

/// The head of a request; `None` when it ends before, or does not end.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            bytes.truncate(end);
            return String::from_utf8(bytes).ok();
        }
        if bytes.len() >= HEAD || stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// A page that says one fixed sentence.
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
