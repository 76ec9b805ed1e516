//! A server over HTTP, or our way to it: name, proxy, every address, TLS, what answers there, and the conversation.
//!
//! Called by [`Doctor::examine`](super::Doctor::examine). Before the link is made each address is connected to once, and
//! where nothing or something strange answers, it is asked for a page; where there is no MCP server, the usual paths are
//! asked for one, without any header of the user's. No tool is called.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http>,
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

mod answers;
mod authorization;
mod clock;
mod conversation;
mod exchanges;
mod paths;
mod reach;
mod statuses;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header;
use mcpjoin_proto::Era;
use mcpjoin_proto::session::Ask;
use tokio::net::TcpStream;
use tokio::time::Instant;
use url::Url;

use self::answers::Unopened;
use self::exchanges::{Came, Exchanges};
use self::paths::Elsewhere;
use self::reach::{First, Reached, first_words};
use super::course::Course;
use super::opening::Opening;
use super::remote::foreign;
use super::report::{Check, Finding, Outcome, Phase};
use super::socket;
use super::wire::Wire;
use mcpjoin::client::ClientBuilder;
use mcpjoin::internal::http::{Proxy, shown};
use mcpjoin::internal::{Checked, readable};
use mcpjoin::link::{HttpConnect, HttpSetupError, HttpWay};

/// How long a stranger has to say something.
const STRANGE: Duration = Duration::from_secs(2);

/// What an examination over HTTP knows of the way.
struct Place {
    url: Url,
    /// Without the brackets of an IPv6 address.
    host: String,
    tls: rustls::ClientConfig,
    proxy: Option<Proxy>,
    within: Duration,
    /// HTTP+SSE was asked for.
    sse: bool,
    /// We say who we are.
    authorized: bool,
}

/// Does all of it.
pub(super) async fn examine(
    course: &mut Course,
    connect: HttpConnect,
    client: ClientBuilder,
    slow: Duration,
) {
    course.begin(Phase::Resolve);
    let place = match connect.checked() {
        Ok(checked) => Place::of(checked, &connect),
        Err(error) => return course.fail(unusable(&error)),
    };
    if !place.resolve(course).await {
        return;
    }
    course.begin(Phase::Connect);
    let Some((address, stream, began)) = place.connect(course).await else { return };
    if !place.handshake(course, address, stream).await {
        return;
    }

    let exchanges = Exchanges::default();
    let noted = exchanges.clone();
    let handle = connect.handle();
    let connect = connect.log_exchanges(Arc::new(move |exchanged| noted.note(exchanged)));
    let before = connect.clone();
    let link = match connect.build() {
        Ok(link) => link,
        Err(error) => return course.fail(unusable(&error)),
    };
    // Servers of HTTP+SSE have never heard of another era.
    let client = if place.sse { client.ask(Ask::Only(Era::Legacy)) } else { client };
    let wire = Wire::default();
    let opening = Opening { began, child: None, slow };
    course.begin(Phase::Probe);
    match opening.connect(course, &wire, link, client).await {
        Ok(client) => {
            let checks =
                [Check::Protocol, Check::Authorization, Check::Headers, Check::Size, Check::Capacity];
            checks.into_iter().for_each(|check| course.pass(check));
            place.passed(course);
            conversation::way(course, handle.way(), place.sse, &shown(&place.url));
            course.lists(&client, &wire).await;
            let streamable = handle.way() != Some(HttpWay::HttpSse);
            for finding in course.findings_mut().iter_mut().filter(|finding| finding.id == "list-failed") {
                conversation::of_list(finding, &exchanges.all(), place.authorized);
            }
            conversation::judged(course, &exchanges.all(), streamable);
            clock::judged(course, &exchanges.all());
            if course.leave(client).await.is_some() {
                conversation::left(course, &exchanges.all(), streamable);
            }
            course.heard(&wire.seen());
        }
        Err(error) => {
            let (all, seen) = (exchanges.all(), wire.seen());
            let unopened = Unopened {
                phase: course.phase,
                cause: &error.cause,
                exchanges: &all,
                seen: &seen,
                sse: place.sse,
                authorized: place.authorized,
                // What is encrypted it only passes on.
                proxy: place.proxy.as_ref().filter(|_| place.url.scheme() == "http"),
            };
            let mut finding = unopened.finding();
            if finding.id == "proxy-authorization"
                && place.proxy.as_ref().is_some_and(Proxy::is_told_who_asks)
            {
                statuses::not_let_through(&mut finding);
            }
            if matches!(finding.id, "broken" | "silent") && all.iter().all(|one| one.head().is_none()) {
                finding = place.strange(course.phase, address).await.unwrap_or(finding);
            }
            let guarded = all.first().is_some_and(|first| first.status() == Some(401));
            let answered =
                all.iter().any(|one| matches!(one.status(), Some(200..=499)) && one.status() != Some(401));
            if place.sse
                && answered
                && let Some(url) = paths::streamable(&place.url, &place.tls, place.within).await
            {
                finding = answers::streamable(course.phase, &url, &all);
            } else if matches!(finding.id, "wrong-path" | "html") {
                match paths::elsewhere(&place.url, &place.tls, place.within, guarded).await {
                    Elsewhere::Perhaps(advice) => finding.advice = advice,
                    Elsewhere::Same(405) if !place.sse && all.iter().all(|one| one.status() == Some(405)) => {
                        finding = answers::no_method(course.phase, &all);
                    }
                    // Who wants to know who asks tells nobody else what is there.
                    Elsewhere::Same(401 | 403) | Elsewhere::Unknown => {}
                    Elsewhere::Same(_) | Elsewhere::Nowhere => {
                        if finding.id == "wrong-path" {
                            answers::NOWHERE.clone_into(&mut finding.advice);
                        }
                    }
                }
            }
            answers::opening(course, &all);
            clock::judged(course, &all);
            if all.iter().any(|one| matches!(one.came, Came::Response(_))) {
                place.passed(course);
                course.pass(Check::Protocol);
            }
            let wants_login = finding.id == "not-authorized" && !place.authorized;
            course.fail(finding);
            if wants_login {
                authorization::examine(course, &before, &shown(&place.url)).await;
            }
        }
    }
}

impl Place {
    fn of(checked: Checked, connect: &HttpConnect) -> Self {
        let Checked { url, headers, tls } = checked;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let proxy = Proxy::to(&url);
        let authorized = headers.contains_key(header::AUTHORIZATION);
        Self {
            host,
            proxy,
            tls,
            authorized,
            within: connect.connect_within(),
            sse: connect.is_http_sse(),
            url,
        }
    }

    /// Whether there is an address to connect to: that of the server, or of the proxy before it.
    async fn resolve(&self, course: &mut Course) -> bool {
        let (host, port) = match &self.proxy {
            None => (self.host.clone(), self.url.port_or_known_default().unwrap_or(443)),
            Some(proxy) => match Url::parse(proxy.url()) {
                Ok(url) => {
                    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
                    // That of SOCKS is known to nobody else.
                    (host, url.port_or_known_default().unwrap_or(1080))
                }
                Err(_) => (String::new(), 0),
            },
        };
        match socket::resolve(course, &host, port, self.within).await {
            Ok(detail) => {
                let detail = match &self.proxy {
                    Some(proxy) => format!("{proxy}: {detail}"),
                    None => detail,
                };
                match self.proxy {
                    Some(_) => course.not_run([Check::Address], "the proxy resolves the name"),
                    None => {
                        course.pass(Check::Address);
                        course.not_run([Check::Proxy], "there is no proxy before it");
                    }
                }
                course.end(detail);
                true
            }
            Err(mut finding) => {
                if let Some(proxy) = &self.proxy {
                    finding.id = "proxy-unreached";
                    finding.check = Check::Proxy;
                    finding.seen = format!("{proxy}: {}", finding.seen);
                    "correct the variable that names the proxy, or name the host in NO_PROXY"
                        .clone_into(&mut finding.advice);
                }
                course.fail(*finding);
                false
            }
        }
    }

    /// A connection, to which address, and when its making began: what others have cost stands before that.
    async fn connect(&self, course: &mut Course) -> Option<(SocketAddr, TcpStream, Instant)> {
        let reached = Reached::connect(&course.addresses, self.within).await;
        let proxy = self.proxy.as_ref().map(Proxy::url);
        if !reached.any() {
            let mut finding = reached.unreached(self.within, proxy);
            if finding.id == "refused"
                && let Some((here, there)) = reach::other_loopback(&course.addresses).await
            {
                reach::listens_there(&mut finding, here, there);
            }
            course.fail(finding);
            return None;
        }
        let detail = reached.detail();
        match (proxy, course.addresses.len()) {
            (Some(_), _) => {
                course.not_run([Check::Reached, Check::Families], "the proxy connects");
                course.end(format!("to the proxy: {detail}"));
            }
            (None, addresses) => {
                course.pass(Check::Reached);
                let halves = reached.halves(&self.host);
                if addresses == 1 {
                    course.not_run([Check::Families], "there is one address alone");
                }
                let silent = reached.silent();
                if let Some(address) = &silent {
                    course.not_run([Check::Families], "not every address has answered");
                    course.notes.push(format!(
                        "{} is {address} too, which did not answer as soon as another: the network of this machine may \
                         have no way to it",
                        self.host
                    ));
                }
                match halves {
                    Some(finding) => {
                        let (from, now) = (course.since, Instant::now());
                        course.step(Outcome::Failed, from, now, detail);
                        course.fault(finding);
                    }
                    None => {
                        if addresses > 1 && silent.is_none() {
                            course.pass(Check::Families);
                        }
                        course.end(detail);
                    }
                }
            }
        }
        let began = course.since;
        reached.stream().map(|(address, stream, waited)| (address, stream, began + waited))
    }

    /// Whether TLS is no reason to stop here.
    async fn handshake(&self, course: &mut Course, address: SocketAddr, mut stream: TcpStream) -> bool {
        if self.url.scheme() != "https" {
            let why = "the URL is http://";
            course.not_run([Check::Tls, Check::ServerCertificate], why);
            course.skip(Phase::Tls, why);
            return true;
        }
        if self.proxy.is_some() {
            let why = "through a proxy it comes with the first request";
            course.not_run([Check::Tls, Check::ServerCertificate], why);
            course.skip(Phase::Tls, why);
            return true;
        }
        course.begin(Phase::Tls);
        match tls::shake(&mut stream, &self.tls, &self.host, self.within).await {
            Ok(shaken) => {
                course.pass(Check::Tls);
                course.pass(Check::ServerCertificate);
                self.certificate(course, &shaken);
                true
            }
            Err(error) => {
                // Many a server of HTTP waits for the end of a line in what is none, or hangs up without a word.
                let mute =
                    matches!(error, tls::Unshaken::Closed | tls::Unshaken::Io(_) | tls::Unshaken::Silent);
                let error = match mute {
                    true => match first_words(address, self.within.min(STRANGE)).await {
                        First::Bytes(first) if speaks_http(&first) => tls::Unshaken::Foreign(first),
                        _ => error,
                    },
                    false => error,
                };
                let finding = tls::unshaken(error, &self.host, self.within);
                if finding.check == Check::ServerCertificate {
                    course.pass(Check::Tls);
                }
                course.fail(finding);
                false
            }
        }
    }

    fn certificate(&self, course: &mut Course, shaken: &tls::Shaken) {
        use mcpjoin_quic::endpoint::{CertificateFacts, now};
        let Some(facts) = shaken.certificate.as_ref().and_then(|der| CertificateFacts::read(der)) else {
            return course.end(shaken.version.to_owned());
        };
        course.end(format!(
            "{}, {} until {}, signed by {}",
            shaken.version,
            facts.subject,
            facts.ends(),
            facts.issuer
        ));
        if tls::intercepts(&facts.issuer) {
            course.notes.push(format!(
                "the certificate of {} is signed by {}, which stands in between and reads what is sent; programs with \
                 certificates of their own (Node.js, Python) may not trust it",
                self.host, facts.issuer
            ));
        }
        if facts.not_after - now().0 < super::quic::SOON {
            course.notes.push(format!("its certificate runs out on {}", facts.ends()));
        }
        course.certificate = Some(facts);
    }

    /// Something has answered in HTTP: then the way there is in order.
    fn passed(&self, course: &mut Course) {
        if self.proxy.is_some() {
            course.pass(Check::Proxy);
            if self.url.scheme() == "https" {
                course.pass(Check::Tls);
                course.pass(Check::ServerCertificate);
            }
        }
    }

    /// What listens there, where it did not answer in HTTP.
    async fn strange(&self, phase: Phase, address: SocketAddr) -> Option<Finding> {
        if self.proxy.is_some() || self.url.scheme() == "https" {
            return None;
        }
        // Many a server of TLS hangs up without a word when it is spoken to without.
        let spoken = async {
            let mut stream = TcpStream::connect(address).await.ok()?;
            let within = self.within.min(STRANGE);
            Some(tls::speaks(&tls::shake(&mut stream, &self.tls, &self.host, within).await))
        };
        let (first, spoken) = tokio::join!(first_words(address, self.within.min(STRANGE)), spoken);
        if let First::Bytes(bytes) = &first {
            if bytes.starts_with(b"HTTP/") {
                // It answers in HTTP, and not to what a client says.
                return None;
            }
            if let Some(mut finding) = foreign(phase, bytes) {
                if finding.id == "speaks-tls" {
                    return Some(tls_port(phase, address));
                }
                finding.evidence.received = vec![readable(bytes.trim_ascii_end())];
                return Some(finding);
            }
            let mut finding = Finding::new(
                "not-http",
                Check::Protocol,
                phase,
                format!("what listens at {address} does not answer in HTTP"),
                "another program has that port",
                "check the port; `ss -ltnp` shows which program listens on which",
            );
            finding.evidence.received = vec![readable(bytes.trim_ascii_end())];
            return Some(finding);
        }
        if spoken == Some(true) {
            return Some(tls_port(phase, address));
        }
        (first == First::Closed).then(|| {
            Finding::new(
                "not-http",
                Check::Protocol,
                phase,
                format!("what listens at {address} closes the connection without an answer"),
                "it does not speak HTTP, or ends each time that it is asked",
                "check the port; `ss -ltnp` shows which program listens on which; then look at the server's own log",
            )
        })
    }
}

/// Whether it answers in HTTP without TLS, and not to say that it wants TLS.
fn speaks_http(first: &[u8]) -> bool {
    first.starts_with(b"HTTP/") && memchr::memmem::find(first, b"HTTPS").is_none()
}

fn tls_port(phase: Phase, address: SocketAddr) -> Finding {
    Finding::new(
        "tls-port",
        Check::Tls,
        phase,
        format!("what listens at {address} speaks TLS"),
        "the server wants its connections encrypted, and the URL says http",
        "write https:// in the URL",
    )
}

fn unusable(error: &HttpSetupError) -> Finding {
    let (id, meaning, advice) = match error {
        HttpSetupError::Header { .. } => {
            ("unusable", "nothing can be sent with it", "leave that header out, or mend it")
        }
        HttpSetupError::Certificate(_) => (
            "unusable",
            "the authority that is to be trusted is not known",
            "--ca FILE, where FILE is in PEM",
        ),
        HttpSetupError::Client(_) => (
            "proxy-malformed",
            "the surroundings name a proxy that is none",
            "look at HTTP_PROXY, HTTPS_PROXY and ALL_PROXY",
        ),
        _ => ("no-address", "it cannot be connected to", "write http://host:port/path"),
    };
    Finding::new(id, Check::Address, Phase::Resolve, error.to_string(), meaning, advice)
}
