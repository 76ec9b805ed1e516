//! A server over HTTP: its name, a proxy, every address, TLS, the first responses, and the session.
//!
//! Called by [`Doctor::examine`](super::Doctor::examine). Each address is connected to once before the link is made. A peer
//! that does not answer in HTTP gets a GET; where there is no MCP server, the usual paths get one each, without any header of
//! the user. It calls no tool.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http>,
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

mod connect;
mod endpoints;
mod exchanges;
mod responses;
mod session;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header;
use mcpjoin_proto::Era;
use mcpjoin_proto::session::{CloseCause, EraChoice};
use tokio::net::TcpStream;
use tokio::time::Instant;
use url::Url;

use self::connect::{Connections, FirstBytes, first_bytes};
use self::endpoints::Elsewhere;
use self::exchanges::{Exchange, Exchanges};
use self::responses::NotOpened;
use super::diagnosis::other_protocol;
use super::examination::Examination;
use super::findings::*;
use super::observer::Observed;
use super::report::{Check, Finding, Phase};
use super::{quic, socket};
use mcpjoin::client::ClientBuilder;
use mcpjoin::internal::http::{Proxy, shown};
use mcpjoin::internal::{Checked, readable};
use mcpjoin::transport::{HttpConnect, HttpSetupError, HttpWay};
use mcpjoin_quic::endpoint::CertificateFacts;

/// How long a peer that does not speak HTTP has to send its first bytes.
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(2);

/// The server, from its URL and its options.
struct Destination {
    url: Url,
    /// Without the brackets of an IPv6 address.
    host: String,
    tls: rustls::ClientConfig,
    proxy: Option<Proxy>,
    connect_timeout: Duration,
    /// HTTP+SSE was asked for.
    sse: bool,
    /// Requests have an `Authorization` header.
    authorized: bool,
}

/// Runs all phases.
pub(super) async fn examine(exam: &mut Examination, connect: HttpConnect, client: ClientBuilder) {
    exam.begin(Phase::Resolve);
    let destination = match connect.checked() {
        Ok(checked) => Destination::new(checked, &connect),
        Err(error) => return exam.fail(unusable(&error)),
    };
    if !destination.resolve(exam).await {
        return;
    }
    exam.begin(Phase::Connect);
    let Some((address, stream, began)) = destination.connect(exam).await else { return };
    if !destination.handshake(exam, address, stream).await {
        return;
    }

    let exchanges = Exchanges::default();
    let log = exchanges.clone();
    let handle = connect.handle();
    let connect = connect.log_exchanges(Arc::new(move |exchanged| log.record(exchanged)));
    let for_login = connect.clone();
    let link = match connect.build() {
        Ok(link) => link,
        Err(error) => return exam.fail(unusable(&error)),
    };
    // Servers of HTTP+SSE know the legacy era only.
    let client = if destination.sse { client.era(EraChoice::Only(Era::Legacy)) } else { client };
    match exam.open(link, client, began, None).await {
        Ok(client) => {
            exam.pass([Check::Protocol, Check::Authorization, Check::Headers, Check::Size, Check::Capacity]);
            destination.pass_proxy(exam);
            let is_sse = handle.way() == Some(HttpWay::HttpSse);
            session::check_transport(exam, is_sse && !destination.sse, &shown(&destination.url));
            exam.read_lists(&client).await;
            let all = exchanges.all();
            for finding in exam.findings_of(&LIST_FAILED) {
                session::refine_list(finding, &all, destination.authorized);
            }
            session::check(exam, &all, is_sse);
            session::check_clock(exam, &all);
            if exam.disconnect(client).await {
                session::check_end(exam, &exchanges.all(), is_sse);
            }
            exam.add_violations();
        }
        Err(cause) => {
            let all = exchanges.all();
            let (phase, observed) = (exam.phase, exam.observer.observed());
            let finding = destination.not_opened(phase, &observed, &cause, &all, address).await;
            responses::explain_opening(exam, &all);
            session::check_clock(exam, &all);
            if all.iter().any(|exchange| exchange.head().is_some()) {
                destination.pass_proxy(exam);
                exam.pass([Check::Protocol]);
            }
            let requires_login = finding.id == "not-authorized" && !destination.authorized;
            exam.fail(finding);
            if requires_login {
                session::check_login(exam, &for_login, &shown(&destination.url)).await;
            }
        }
    }
}

impl Destination {
    fn new(checked: Checked, connect: &HttpConnect) -> Self {
        let Checked { url, headers, tls } = checked;
        Self {
            host: host(&url),
            tls,
            proxy: Proxy::to(&url),
            connect_timeout: connect.connect_within(),
            sse: connect.is_http_sse(),
            authorized: headers.contains_key(header::AUTHORIZATION),
            url,
        }
    }

    /// Resolves the name of the server, or of the proxy. Returns whether it has an address.
    async fn resolve(&self, exam: &mut Examination) -> bool {
        let (host, port) = match &self.proxy {
            None => (self.host.clone(), self.url.port_or_known_default().unwrap_or(443)),
            Some(proxy) => match Url::parse(proxy.url()) {
                // The port of SOCKS is not known to `Url`.
                Ok(url) => (host(&url), url.port_or_known_default().unwrap_or(1080)),
                Err(_) => (String::new(), 0),
            },
        };
        let resolved = socket::resolve(exam, &host, port, self.connect_timeout).await;
        match (resolved, &self.proxy) {
            (Ok(detail), None) => {
                exam.pass([Check::Address]);
                exam.not_run([Check::Proxy], "no proxy is used");
                exam.end(detail);
                true
            }
            (Ok(detail), Some(proxy)) => {
                exam.not_run([Check::Address], "the proxy resolves the name");
                exam.end(format!("{proxy}: {detail}"));
                true
            }
            (Err(finding), None) => {
                exam.fail(finding);
                false
            }
            (Err(mut finding), Some(proxy)) => {
                let meaning = std::mem::take(&mut finding.meaning);
                finding.becomes(&PROXY_NAME_UNKNOWN, &[("meaning", &meaning)]);
                finding.seen = format!("{proxy}: {}", finding.seen);
                exam.fail(finding);
                false
            }
        }
    }

    /// Connects. Returns the address, the connection, and its begin, which leaves out the wait for other addresses.
    async fn connect(&self, exam: &mut Examination) -> Option<(SocketAddr, TcpStream, Instant)> {
        let addresses = exam.report.addresses.clone();
        let connections = Connections::open(&addresses, self.connect_timeout).await;
        let proxy = self.proxy.as_ref().map(Proxy::url);
        if !connections.any() {
            let mut finding = connections.none_open(self.connect_timeout, proxy);
            if finding.id == "refused"
                && let Some((here, there)) = connect::other_loopback(&addresses).await
            {
                let (here, there) = (here.to_string(), there.to_string());
                finding.becomes(&OTHER_LOOPBACK, &[("here", &here), ("there", &there)]);
            }
            exam.fail(finding);
            return None;
        }
        let detail = connections.detail();
        if proxy.is_some() {
            exam.not_run([Check::Reached, Check::Families], "the proxy connects");
            exam.end(format!("to the proxy: {detail}"));
        } else {
            exam.pass([Check::Reached]);
            let silent = connections.silent();
            if addresses.len() == 1 {
                exam.not_run([Check::Families], "there is only one address");
            } else if silent.is_none() {
                exam.pass([Check::Families]);
            }
            if let Some(address) = silent {
                exam.not_run([Check::Families], "not every address responded");
                exam.report.notes.push(format!(
                    "{} is also {address}, which did not respond before the other address: this machine \
                     may have no route to it",
                    self.host
                ));
            }
            match connections.some_refused(&self.host) {
                Some(finding) => {
                    exam.end_failed(detail);
                    exam.add(finding);
                }
                None => exam.end(detail),
            }
        }
        let began = exam.since;
        connections.into_stream().map(|(address, stream, waited)| (address, stream, began + waited))
    }

    /// Makes a handshake of TLS where the server is connected to directly. Returns whether the examination goes on.
    async fn handshake(&self, exam: &mut Examination, address: SocketAddr, mut stream: TcpStream) -> bool {
        let skipped = if self.url.scheme() != "https" {
            Some("the URL is http://")
        } else if self.proxy.is_some() {
            Some("with a proxy this happens at the first request")
        } else {
            None
        };
        if let Some(why) = skipped {
            exam.not_run([Check::Tls, Check::ServerCertificate], why);
            exam.skip(Phase::Tls, why);
            return true;
        }
        exam.begin(Phase::Tls);
        match tls::handshake(&mut stream, &self.tls, &self.host, self.connect_timeout).await {
            Ok(session) => {
                exam.pass([Check::Tls, Check::ServerCertificate]);
                self.end_handshake(exam, &session);
                true
            }
            Err(mut error) => {
                // Many HTTP servers wait for the end of a line in the handshake, or hang up.
                if error.is_unspecific()
                    && let FirstBytes::Received(bytes) =
                        first_bytes(address, self.first_bytes_timeout()).await
                    && answers_in_http(&bytes)
                {
                    error = tls::HandshakeError::Foreign(bytes);
                }
                let finding = tls::failed(error, &self.host, self.connect_timeout);
                if finding.check == Check::ServerCertificate {
                    exam.pass([Check::Tls]);
                }
                exam.fail(finding);
                false
            }
        }
    }

    fn end_handshake(&self, exam: &mut Examination, session: &tls::Session) {
        let Some(facts) = session.certificate.as_ref().and_then(|der| CertificateFacts::read(der)) else {
            return exam.end(session.version);
        };
        let (version, until) = (session.version, facts.ends());
        exam.end(format!("{version}, {} until {until}, signed by {}", facts.subject, facts.issuer));
        if tls::intercepts(&facts.issuer) {
            exam.report.notes.push(format!(
                "the certificate of {} is signed by {}, which decrypts the traffic; programs with \
                 certificates of their own (Node.js, Python) may not trust it",
                self.host, facts.issuer
            ));
        }
        if quic::expires_soon(&facts) {
            exam.report.notes.push(format!("its certificate expires on {until}"));
        }
        exam.report.certificate = Some(facts);
    }

    /// Passes the checks of the proxy after a response in HTTP.
    fn pass_proxy(&self, exam: &mut Examination) {
        if self.proxy.is_some() {
            exam.pass([Check::Proxy]);
            if self.url.scheme() == "https" {
                exam.pass([Check::Tls, Check::ServerCertificate]);
            }
        }
    }

    /// The finding of a session that did not open. Sends further requests where the exchanges do not say enough.
    async fn not_opened(
        &self,
        phase: Phase,
        observed: &Observed,
        cause: &CloseCause,
        all: &[Exchange],
        address: SocketAddr,
    ) -> Finding {
        let not_opened = NotOpened {
            phase,
            cause,
            exchanges: all,
            observed,
            sse: self.sse,
            authorized: self.authorized,
            // A proxy only forwards an encrypted connection.
            proxy: self.proxy.as_ref().filter(|_| self.url.scheme() == "http"),
        };
        let mut finding = not_opened.finding();
        if finding.id == PROXY_CREDENTIALS_REFUSED.id
            && self.proxy.as_ref().is_some_and(Proxy::is_told_who_asks)
        {
            finding.becomes(&PROXY_CREDENTIALS_REFUSED, &[]);
        }
        if matches!(finding.id, "broken" | "not-http" | "silent")
            && all.iter().all(|exchange| exchange.head().is_none())
        {
            finding = self.not_http(phase, address).await.unwrap_or(finding);
        }
        let statuses = || all.iter().map(Exchange::status);
        let guarded = statuses().next() == Some(Some(401));
        let answered = statuses().any(|status| matches!(status, Some(200..=400 | 402..=499)));
        if self.sse
            && answered
            && let Some(url) = endpoints::streamable(&self.url, &self.tls, self.connect_timeout).await
        {
            return responses::is_streamable(phase, &url, all);
        }
        if matches!(finding.id, "wrong-path" | "html") {
            match endpoints::elsewhere(&self.url, &self.tls, self.connect_timeout, guarded).await {
                Elsewhere::Perhaps(advice) => finding.advice = advice,
                Elsewhere::Same(405) if !self.sse && statuses().all(|status| status == Some(405)) => {
                    return responses::no_method(phase, all);
                }
                // A server that requires authorization does not show its other paths.
                Elsewhere::Same(401 | 403) | Elsewhere::Unknown => {}
                Elsewhere::Same(_) | Elsewhere::Nowhere => {
                    if finding.id == WRONG_PATH.id {
                        endpoints::NOWHERE.clone_into(&mut finding.advice);
                    }
                }
            }
        }
        finding
    }

    fn first_bytes_timeout(&self) -> Duration {
        self.connect_timeout.min(FIRST_BYTES_TIMEOUT)
    }

    /// The protocol of a peer that did not answer in HTTP.
    async fn not_http(&self, phase: Phase, address: SocketAddr) -> Option<Finding> {
        if self.proxy.is_some() || self.url.scheme() == "https" {
            return None;
        }
        // Many TLS servers hang up when they get text.
        let timeout = self.first_bytes_timeout();
        let handshake = async {
            let mut stream = TcpStream::connect(address).await.ok()?;
            Some(tls::handshake(&mut stream, &self.tls, &self.host, timeout).await)
        };
        let (first, handshake) = tokio::join!(first_bytes(address, timeout), handshake);
        let tls_port = || TLS_PORT.at(phase, format!("{address} expects HTTPS"));
        let bytes = match first {
            FirstBytes::Received(bytes) => bytes,
            _ if handshake.as_ref().is_some_and(tls::is_spoken) => return Some(tls_port()),
            FirstBytes::Silent => return None,
            FirstBytes::Closed => {
                let seen = format!("{address} closes the connection without a response");
                return Some(CLOSES_UNASKED.at(phase, seen));
            }
        };
        // It answers in HTTP, but not to the request of a client.
        if bytes.starts_with(b"HTTP/") {
            return None;
        }
        let mut finding = match other_protocol(phase, &bytes) {
            Some(finding) if finding.id == "speaks-tls" => return Some(tls_port()),
            Some(finding) => finding,
            None => NOT_HTTP.at(phase, format!("{address} does not speak HTTP")),
        };
        finding.evidence.received = vec![readable(bytes.trim_ascii_end())];
        Some(finding)
    }
}

/// The host, without the brackets of an IPv6 address.
fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned()
}

/// Whether the peer answers in HTTP without TLS, and does not say that it requires TLS.
fn answers_in_http(first: &[u8]) -> bool {
    first.starts_with(b"HTTP/") && memchr::memmem::find(first, b"HTTPS").is_none()
}

fn unusable(error: &HttpSetupError) -> Finding {
    let kind = match error {
        HttpSetupError::Header { .. } => HEADER_UNUSABLE,
        HttpSetupError::Certificate(_) => AUTHORITY_UNUSABLE,
        HttpSetupError::Client(_) => PROXY_MALFORMED,
        _ => NO_URL,
    };
    kind.at(Phase::Resolve, error.to_string())
}
