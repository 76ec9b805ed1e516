//! Listeners for MCP clients: on sockets, over QUIC, over HTTP and HTTPS.
//!
//! Used by `serve` and `bridge`, which provide the server ([`Serves`]). The sides for Orchestra are separate.

mod https;

use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::Poll;

use mcpjoin::Server;
use mcpjoin::proto::http::origin::Origin;
use mcpjoin::transport::{HttpListener, HttpOptions, Listener};
use mcpjoin_auth::SubjectTokens;
use mcpjoin_auth::resource::{ResourceServer, ResourceSetupError};
use mcpjoin_quic::endpoint::{Authorities, CertificateError, ClientAuth, Identity};
use sd_notify::NotifyState;
use tokio::sync::watch;

use self::https::Https;
use crate::args::{Authorization, Pin as KeyPin};
use crate::connect::{Signals, certificates, unusable};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::{Bound, Quic, Socket, shown};
use crate::ui::Ui;
use crate::visible;

/// The path to which clients of 2024-11-05 post their messages.
const MESSAGES_PATH: &str = "/messages";

/// The address to listen at.
#[derive(Clone)]
pub(super) enum Address {
    Socket(Socket),
    Quic(Quic),
    /// Streamable HTTP at this URL, with HTTP+SSE beside it.
    Http {
        url: String,
        /// The service is also named by this path of HTTP+SSE.
        sse_path: Option<String>,
        /// The service is named by the URL. Otherwise the URL has no path.
        streamable: bool,
    },
}

impl Address {
    pub(super) fn parse(word: &str) -> Result<Self, Failure> {
        let wrong = |problem: String| {
            Failure::usage(format!("{} is not an address to listen on", shown(word.as_ref())), problem)
        };
        let Some((scheme, rest)) = word.split_once("://") else {
            return match url_meant(word) {
                Some(url) => Err(wrong(format!("--listen {url}"))),
                None => Self::socket(word).map_err(wrong),
            };
        };
        match scheme.to_ascii_lowercase().as_str() {
            scheme @ ("http" | "https" | "sse+http") => {
                let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
                if authority.contains('@') || !authority.contains(':') {
                    return Err(wrong(format!(
                        "write {scheme}://host:port/path, with nothing before the host"
                    )));
                }
                match (scheme, path) {
                    ("http" | "https", "sse" | "messages") => {
                        Err(wrong("use another path: this one is for clients of 2024-11-05".into()))
                    }
                    ("http" | "https", _) => {
                        Ok(Self::Http { url: format!("{scheme}://{rest}"), sse_path: None, streamable: true })
                    }
                    (_, "mcp" | "messages") => Err(wrong("use another path: this one is in use".into())),
                    _ if path.contains(|c: char| matches!(c, '?' | '#') || c.is_whitespace()) => {
                        Err(wrong("a path cannot have a query, a fragment or spaces".into()))
                    }
                    _ => {
                        let path = if path.is_empty() { "sse" } else { path };
                        Ok(Self::Http {
                            url: format!("http://{authority}"),
                            sse_path: Some(format!("/{path}")),
                            streamable: false,
                        })
                    }
                }
            }
            "quic" => Quic::parse(word).map(Self::Quic).map_err(wrong),
            _ => Self::socket(word).map_err(wrong),
        }
    }

    fn socket(word: &str) -> Result<Self, String> {
        // The message of a wrong socket address also names the other kinds of addresses.
        Socket::parse(word).map(Self::Socket).map_err(|problem| {
            problem.replace(
                " or unix:/path",
                ", unix:/path, quic://host:port, http://host:port/path, https://host:port/path or sse+http://host:port/sse",
            )
        })
    }

    /// What the listener is bound to.
    pub(super) fn bound(&self) -> Option<Bound> {
        match self {
            Self::Socket(Socket::Tcp(address)) => Bound::tcp(address),
            Self::Socket(Socket::Unix(path)) => Some(Bound::Unix(path.clone())),
            Self::Quic(address) => Bound::udp(&address.0),
            // Port 0 is a free port, and no part of a URL that a client uses.
            Self::Http { url, .. } => Bound::of_url(url),
        }
    }

    pub(super) const fn is_http(&self) -> bool {
        matches!(self, Self::Http { .. })
    }

    /// Whether clients see our certificate.
    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Quic(_)) || self.is_https()
    }

    fn is_https(&self) -> bool {
        matches!(self, Self::Http { url, .. } if url.starts_with("https:"))
    }

    /// Adds another name of the same service: one port has Streamable HTTP and HTTP+SSE. Returns whether it is one.
    fn merge(&mut self, other: &Self) -> bool {
        let (
            Self::Http { url, sse_path, streamable },
            Self::Http { url: other_url, sse_path: other_path, streamable: other_streamable },
        ) = (self, other)
        else {
            return false;
        };
        let are_other = *streamable != *other_streamable && sse_path.is_some() != other_path.is_some();
        // Port 0 is another port each time.
        let is_one = are_other && base(url) == base(other_url) && !base(url).ends_with(":0");
        if is_one && *other_streamable {
            url.clone_from(other_url);
            *streamable = true;
        } else if is_one {
            sse_path.clone_from(other_path);
        }
        is_one
    }
}

/// A URL without its path.
fn base(url: &str) -> &str {
    let rest = url.find("://").map_or(0, |at| at + 3);
    url[rest..].find('/').map_or(url, |end| &url[..rest + end])
}

/// The URL to listen at that a port, or a host and a port, probably means.
fn url_meant(word: &str) -> Option<String> {
    let (address, path) = word.split_once('/').unwrap_or((word, "mcp"));
    let (host, port) = address.rsplit_once(':').unwrap_or(("", address));
    let is_name = |host: &str| host.chars().all(|c| c.is_ascii_alphanumeric() || ".-[]:".contains(c));
    let port: u16 = port.parse().ok()?;
    if ["http", "https", "tcp", "unix", "quic", "orchestra"].contains(&host) {
        return None;
    }
    let host = if host.is_empty() || host == "*" { "localhost" } else { host };
    is_name(host).then(|| format!("http://{host}:{port}/{path}"))
}

/// Our certificate over QUIC and HTTPS, and the clients that are accepted.
#[derive(Clone, Debug, Default)]
pub(super) struct QuicOptions {
    /// The certificate and its key. Without them a key is generated.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
    /// The authorities of the accepted clients. Without them every client is accepted.
    pub(super) client_ca: Option<PathBuf>,
}

impl QuicOptions {
    /// Reads the files. Called for each connection, so that new certificates are used.
    fn who(&self, made: Option<&Identity>) -> Result<(Identity, ClientAuth), CertificateError> {
        let identity = match (made, &self.identity) {
            (Some(made), _) => made.clone(),
            (None, Some((certificate, key))) => Identity::from_files(certificate, key)?,
            (None, None) => Identity::self_signed(["localhost"])?,
        };
        let clients = match &self.client_ca {
            Some(path) => ClientAuth::Required(Authorities::from_file(path)?),
            None => ClientAuth::Anybody,
        };
        Ok((identity, clients))
    }
}

/// Serves the clients of a listener until `end` is ready. Requests in progress are finished.
pub(super) trait Serves: Clone {
    fn all(&self, listener: Listener, end: impl Future<Output = ()>) -> impl Future<Output = ()>;

    fn http(
        &self,
        listener: HttpListener,
        options: HttpOptions,
        end: impl Future<Output = ()>,
    ) -> impl Future<Output = ()>;
}

impl Serves for Server {
    async fn all(&self, listener: Listener, end: impl Future<Output = ()>) {
        self.serve_all(listener, end).await;
    }

    async fn http(&self, listener: HttpListener, options: HttpOptions, end: impl Future<Output = ()>) {
        self.serve_http(listener, options, end).await;
    }
}

/// An open listener.
enum Open {
    Socket(Listener),
    Quic {
        listener: Listener,
        /// The line that says how clients verify the generated key.
        known_by: Option<String>,
        /// Clients need a certificate.
        asks: bool,
    },
    Http {
        listener: HttpListener,
        sse_path: Option<String>,
        /// The service is named by the path of Streamable HTTP.
        streamable: bool,
        /// The connections are encrypted.
        https: bool,
        /// Clients need a certificate.
        asks: bool,
        asked: Option<TokenIssuer>,
    },
}

/// The authorization server of clients, which need a token.
struct TokenIssuer {
    server: ResourceServer,
    /// The issuer of the tokens.
    issuer: String,
}

/// Who can use a listener, for the warnings at the start.
enum Audience {
    /// Only this machine, or only clients with a certificate.
    Local,
    /// Only clients with a token.
    TokenHolders { encrypted: bool },
    /// Everyone who can reach the port.
    Everyone { encrypted: bool },
}

impl Open {
    async fn at(
        address: &Address,
        quic: &QuicOptions,
        authorization: &Authorization,
        subjects: Option<&SubjectTokens>,
        ui: &Ui,
    ) -> Result<Self, Failure> {
        let socket = match address {
            Address::Quic(address) => return Self::over_quic(address, quic).await,
            Address::Http { url, sse_path, streamable } => {
                let plain = url.replacen("https://", "http://", 1);
                let https = match address.is_https() {
                    true => Some(Https::open(quic, ui)?),
                    false => None,
                };
                let listener =
                    HttpListener::bind(&plain).await.map_err(|error| Failure::listen_http(&error))?;
                let is_https = https.is_some();
                let listener = match https {
                    Some(https) => listener.secured(move |stream| https.clone().accept(stream)),
                    None => listener,
                };
                let asked =
                    token_issuer(authorization, subjects, &service_url(&listener, sse_path.is_some()))?;
                return Ok(Self::Http {
                    listener,
                    sse_path: sse_path.clone(),
                    streamable: *streamable,
                    https: is_https,
                    asks: is_https && quic.client_ca.is_some(),
                    asked,
                });
            }
            Address::Socket(Socket::Tcp(address)) => Listener::tcp(address).await,
            Address::Socket(Socket::Unix(path)) => Listener::unix(path).await,
        };
        socket.map(Self::Socket).map_err(|error| Failure::listen(&error))
    }

    async fn over_quic(address: &Quic, quic: &QuicOptions) -> Result<Self, Failure> {
        let made = match quic.identity {
            Some(_) => None,
            None => Some(quic.who(None).map_err(|error| unusable(&error))?.0),
        };
        let pin = made.as_ref().and_then(Identity::facts).map(|facts| KeyPin(facts.key_hash));
        let who = quic.clone();
        let listener = mcpjoin_quic::listen(&address.0, move || who.who(made.as_ref())).await;
        let listener = listener.map_err(|error| Failure::listen_quic(&error))?;
        let asks = quic.client_ca.is_some();
        let shows = if asks { " --cert FILE --key FILE" } else { "" };
        let known_by = pin.map(|pin| {
            format!(
                "the key changes with every start; clients use: mcpjoin list --pin {pin}{shows} {}",
                listener.address()
            )
        });
        Ok(Self::Quic { listener, known_by, asks })
    }

    /// The addresses as clients name them.
    fn addresses(&self) -> Vec<String> {
        match self {
            Self::Socket(listener) | Self::Quic { listener, .. } => vec![listener.address().to_string()],
            Self::Http { listener, sse_path, streamable, .. } => {
                let url = listener.url();
                let sse = sse_path.as_ref().map(|path| format!("sse+{}{path}", base(&url)));
                streamable.then(|| url.clone()).into_iter().chain(sse).collect()
            }
        }
    }

    fn audience(&self) -> Audience {
        let address = match self {
            Self::Quic { asks: true, .. } | Self::Http { asks: true, .. } => None,
            Self::Socket(listener) => listener.address().socket_addr(),
            Self::Quic { listener, .. } => listener.address().socket_addr(),
            Self::Http { listener, .. } => Some(listener.address()),
        };
        match address.filter(|address| !address.ip().is_loopback()) {
            Some(_) if self.asked().is_some() => Audience::TokenHolders { encrypted: self.is_encrypted() },
            Some(_) => Audience::Everyone { encrypted: self.is_encrypted() },
            None => Audience::Local,
        }
    }

    const fn is_encrypted(&self) -> bool {
        matches!(self, Self::Quic { .. } | Self::Http { https: true, .. })
    }

    const fn asked(&self) -> Option<&TokenIssuer> {
        match self {
            Self::Http { asked, .. } => asked.as_ref(),
            Self::Socket(_) | Self::Quic { .. } => None,
        }
    }

    /// The port, if the resource is on this machine with another port.
    fn other_port(&self) -> Option<u16> {
        let Self::Http { listener, asked, .. } = self else { return None };
        let origin = Origin::of(asked.as_ref()?.server.resource()).ok()?;
        let port = listener.address().port();
        (origin.is_loopback() && origin.port() != port).then_some(port)
    }

    /// Serves all clients until `end` is true.
    async fn serve(self, ui: &Ui, server: impl Serves, options: HttpOptions, mut end: watch::Receiver<bool>) {
        let fetching =
            fetch_keys(ui.clone(), self.asked().map(|asked| (asked.server.clone(), asked.issuer.clone())));
        let end = async move {
            // A dropped sender ends it, too.
            let _ = end.wait_for(|end| *end).await;
        };
        let serving = async {
            match self {
                Self::Socket(listener) | Self::Quic { listener, .. } => server.all(listener, end).await,
                Self::Http { listener, sse_path, asked, .. } => {
                    let options = with_token_issuer(options, asked);
                    let options = match sse_path {
                        Some(path) => options.sse_paths(&path, MESSAGES_PATH),
                        None => options,
                    };
                    server.http(listener, options, end).await;
                }
            }
        };
        // No client waits for this task, and it does not delay the end.
        tokio::select! {
            biased;
            () = serving => {}
            never = fetching => match never {},
        }
    }
}

/// The URL of a service. `of_both`: without the path of Streamable HTTP, since the paths of both transports are below it.
fn service_url(listener: &HttpListener, of_both: bool) -> String {
    let url = listener.url();
    url.strip_suffix("/mcp").filter(|_| of_both).unwrap_or(&url).to_owned()
}

/// Fetches the keys for verifying tokens, and reports a failure before the first client meets it.
async fn fetch_keys(ui: Ui, issuer: Option<(ResourceServer, String)>) -> Infallible {
    if let Some((server, issuer)) = issuer
        && let Err(error) = server.prepare().await
    {
        let why = match error {
            ResourceSetupError::Verifier(why) => why,
            error => error.to_string(),
        };
        let trust =
            if why.contains("certificate") { " (--auth-ca FILE trusts another authority)" } else { "" };
        ui.warning(&format!(
            "the authorization server {issuer} cannot be used: {why}{trust}. Until it can, requests with a token get 503, and \
             requests without one 401. It is tried again with the next token"
        ));
    }
    pending().await
}

/// The authorization of clients that connect to this URL.
fn token_issuer(
    authorization: &Authorization,
    subjects: Option<&SubjectTokens>,
    url: &str,
) -> Result<Option<TokenIssuer>, Failure> {
    let Some(issuer) = authorization.auth_issuer.clone() else { return Ok(None) };
    let resource = authorization.auth_resource.as_deref();
    let authority =
        authorization.auth_ca.as_deref().map(|path| certificates("--auth-ca", path)).transpose()?;
    let mut builder = ResourceServer::builder(resource.unwrap_or(url))
        .issuer(&*issuer)
        .required_scopes(&authorization.auth_scope);
    if let Some(pem) = authority {
        builder = builder.extra_ca(pem);
    }
    if let Some(subjects) = subjects {
        builder = builder.subject_tokens(subjects.clone());
    }
    let server = builder.build().map_err(|error| {
        let hint = match error {
            ResourceSetupError::Verifier(_) if authorization.auth_ca.is_some() => {
                "--auth-ca FILE, where FILE is in PEM"
            }
            ResourceSetupError::Issuer { .. } => {
                "--auth-issuer https://HOST, as the authorization server names itself"
            }
            ResourceSetupError::Scope { .. } => "--auth-scope SCOPE, one for each",
            _ if resource.is_none() => {
                "--auth-resource https://HOST/PATH, the URL by which clients know this server"
            }
            _ => "--auth-resource https://HOST/PATH, in lower case up to the path",
        };
        Failure::usage(visible::line(&error.to_string()), hint)
    })?;
    Ok(Some(TokenIssuer { server, issuer }))
}

fn with_token_issuer(options: HttpOptions, asked: Option<TokenIssuer>) -> HttpOptions {
    let Some(TokenIssuer { server, .. }) = asked else { return options };
    // Clients use this name, also behind a proxy.
    let host = server.resource().split('/').nth(2).unwrap_or_default();
    let options = options.clone().allow_host(host).unwrap_or(options);
    options.admission(server)
}

/// The result of serving.
pub(super) struct ServeEnd {
    pub(super) exit: Exit,
    /// A second signal has come: the caller must not wait for anything.
    pub(super) hurried: bool,
}

/// Open listeners at all addresses, before any client is served.
pub(super) struct Listening {
    open: Vec<Open>,
    /// Called when a signal has come: no new client is served.
    on_drain: Box<dyn Fn()>,
}

impl Listening {
    /// `subjects`: where the tokens of clients are remembered, if they are exchanged for others.
    pub(super) async fn at(
        addresses: &[Address],
        quic: &QuicOptions,
        authorization: &Authorization,
        subjects: Option<&SubjectTokens>,
        ui: &Ui,
    ) -> Result<Self, Failure> {
        if authorization.auth_issuer.is_some() && !addresses.iter().all(Address::is_http) {
            return Err(Failure::usage(
                "--auth-issuer works only over HTTP; clients at the other addresses would need no token",
                "only --listen http://host:port/path; start another mcpjoin for the other addresses",
            ));
        }
        let mut services: Vec<Address> = Vec::new();
        for address in addresses {
            if !services.iter_mut().any(|service| service.merge(address)) {
                services.push(address.clone());
            }
        }
        let mut open = Vec::new();
        for address in &services {
            open.push(Open::at(address, quic, authorization, subjects, ui).await?);
        }
        Ok(Self { open, on_drain: Box::new(|| {}) })
    }

    /// Sets what is called when a signal has come, before requests in progress are finished.
    pub(super) fn on_drain(mut self, on_drain: impl Fn() + 'static) -> Self {
        self.on_drain = Box::new(on_drain);
        self
    }

    /// Prints the addresses, and first a warning if everyone can use them.
    pub(super) fn announce(&self, ui: &Ui) {
        let mut warning = None;
        for open in &self.open {
            match open.audience() {
                Audience::Everyone { encrypted: false } => {
                    warning = Some("there is no authentication and no encryption");
                }
                Audience::Everyone { encrypted: true } => {
                    warning = warning.or(Some("there is no authentication"));
                }
                Audience::TokenHolders { .. } | Audience::Local => {}
            }
        }
        let shows_tokens =
            |open: &Open| matches!(open.audience(), Audience::TokenHolders { encrypted: false });
        if self.open.iter().any(shows_tokens) {
            ui.warning("no encryption: tokens can be read in transit; put an https proxy in front of it");
        }
        if let Some(warning) = warning {
            ui.warning(&format!("everyone who can reach this port can use this server: {warning}"));
        }
        for open in &self.open {
            for address in open.addresses() {
                ui.note(&format!("listening on {}", visible::line(&address)));
            }
            if let Some(TokenIssuer { server, issuer }) = open.asked() {
                let (issuer, resource) = (visible::line(issuer), visible::line(server.resource()));
                ui.note(&format!("requires tokens of {issuer} for {resource}"));
                if let Some(port) = open.other_port() {
                    ui.warning(&format!(
                        "{resource} is not this address (port {port}): clients are sent to that address for tokens, which works only \
                         if a proxy there forwards to this port"
                    ));
                }
            }
            if let Open::Quic { known_by: Some(line), .. } = open {
                ui.note(line);
            }
        }
    }

    /// Serves all clients until a signal comes. Requests in progress are finished, unless another signal comes.
    pub(super) async fn serve(
        self,
        server: &impl Serves,
        options: &HttpOptions,
        signals: &mut Signals,
        ui: &Ui,
    ) -> ServeEnd {
        let (end, ended) = watch::channel(false);
        // Both verbs have these options. The library does not know them.
        let options = options.clone().too_large_hint("--max-message-size raises the limit").wrong_path_hint(
            "If a proxy removes the beginning of the path, use the rest of the path in --listen.",
        );
        let serving = self
            .open
            .into_iter()
            .map(|open| boxed(open.serve(ui, server.clone(), options.clone(), ended.clone())));
        let mut serving = all(serving.collect());
        tell_service_manager(NotifyState::Ready, ui);
        let Err(signal) = signals.until(&mut serving).await else {
            return ServeEnd { exit: Exit::Done, hurried: false };
        };
        tell_service_manager(NotifyState::Stopping, ui);
        (self.on_drain)();
        // There is no receiver if serving has ended by itself.
        let _ = end.send(true);
        let hurried = signals.until(serving).await.is_err();
        ServeEnd { exit: Exit::Signal(signal), hurried }
    }
}

/// Tells systemd the state of this process, if systemd has started it with `Type=notify`.
/// <https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html>
fn tell_service_manager(state: NotifyState<'_>, ui: &Ui) {
    if let Err(error) = sd_notify::notify(&[state]) {
        ui.warning(&format!("the socket of NOTIFY_SOCKET cannot be used: {error}"));
    }
}

pub(super) type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub(super) fn boxed<'a>(future: impl Future<Output = ()> + 'a) -> Boxed<'a> {
    Box::pin(future)
}

/// Ready when all futures are.
pub(super) fn all<'a>(mut futures: Vec<Boxed<'a>>) -> Boxed<'a> {
    boxed(poll_fn(move |cx| {
        futures.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }))
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn an_address_to_listen_on_is_one_of_six_kinds() {
        let kind = |word: &str| match Address::parse(word) {
            Ok(Address::Socket(socket)) => socket.to_string(),
            Ok(Address::Quic(quic)) => quic.to_string(),
            Ok(Address::Http { url, sse_path: None, .. }) => url,
            Ok(Address::Http { url, sse_path: Some(path), .. }) => format!("{url} and {path}"),
            Err(failure) => format!("no: {}", failure.hint),
        };
        for (word, meant) in [
            ("http://127.0.0.1:0", "http://127.0.0.1:0"),
            ("HTTP://[::1]:1/tools", "http://[::1]:1/tools"),
            ("https://localhost:1/tools", "https://localhost:1/tools"),
            ("sse+http://localhost:1", "http://localhost:1 and /sse"),
            ("SSE+HTTP://localhost:1/", "http://localhost:1 and /sse"),
            ("sse+http://localhost:1/events", "http://localhost:1 and /events"),
            ("tcp://localhost:1", "tcp://localhost:1"),
            ("unix:/run/x", "unix:/run/x"),
            ("unix:///run/x", "unix:/run/x"),
            ("quic://localhost:1", "quic://localhost:1"),
        ] {
            assert_eq!(kind(word), meant, "{word}");
        }
        for (word, hint) in [
            ("http://localhost", "write http://host:port/path"),
            ("sse+http://localhost", "write sse+http://host:port/path"),
            ("http://me:hunter2@localhost:1/", "with nothing before the host"),
            ("http://localhost:1/sse", "use another path"),
            ("http://localhost:1/messages", "use another path"),
            ("sse+http://localhost:1/mcp", "use another path"),
            ("sse+http://localhost:1/messages", "use another path"),
            ("sse+http://localhost:1/a?b", "cannot have a query"),
            ("https://localhost", "write https://host:port/path"),
            ("ftp://localhost:1", "https://host:port/path or sse+http://host:port/sse"),
            ("localhost:1", "--listen http://localhost:1/mcp"),
            ("quic://localhost:1/x", "quic://host:port"),
        ] {
            let kind = kind(word);
            assert!(kind.starts_with("no: ") && kind.contains(hint), "{word}: {kind}");
            assert!(!kind.contains("hunter2"), "{kind}");
        }
    }

    #[test]
    fn streamable_http_and_http_sse_at_one_port_are_one_service() {
        let merged = |one: &str, other: &str| {
            let mut address = Address::parse(one).ok().unwrap();
            let merged = address.merge(&Address::parse(other).ok().unwrap());
            let Address::Http { url, sse_path, .. } = address else { return None };
            merged.then(|| (url, sse_path.unwrap_or_default()))
        };
        let one = |url: &str, path: &str| Some((url.to_owned(), path.to_owned()));
        let (http, sse) = ("http://h:1/tools", "sse+http://h:1/events");
        assert_eq!(merged(http, sse), one("http://h:1/tools", "/events"));
        assert_eq!(merged(sse, http), one("http://h:1/tools", "/events"));
        assert_eq!(merged("http://h:1", sse), one("http://h:1", "/events"));
        for (one, other) in [
            (http, http),
            (sse, sse),
            (http, "sse+http://h:2/events"),
            ("https://h:1/tools", sse),
            ("http://h:0", "sse+http://h:0"),
        ] {
            assert_eq!(merged(one, other), None, "{one} {other}");
        }
    }

    #[test]
    fn a_port_or_a_host_and_a_port_are_answered_with_the_url() {
        for (word, url) in [
            ("9402", "http://localhost:9402/mcp"),
            (":9402", "http://localhost:9402/mcp"),
            ("localhost:9402", "http://localhost:9402/mcp"),
            ("0.0.0.0:9402/x", "http://0.0.0.0:9402/x"),
            ("[::1]:9402", "http://[::1]:9402/mcp"),
        ] {
            let failure = Address::parse(word).err().unwrap();
            assert_eq!(failure.hint, format!("--listen {url}"), "{word}");
            assert!(Address::parse(url).is_ok());
        }
        for word in ["nonsense", "tcp:1", "http:9402"] {
            let failure = Address::parse(word).err().unwrap();
            assert!(failure.hint.starts_with("write "), "{word}: {}", failure.hint);
        }
        assert!(Address::parse("unix:/x").is_ok());
    }
}
