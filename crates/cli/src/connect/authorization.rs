//! The authorization of requests over HTTP: the login that `auth login` has stored for the server's URL, where no header is
//! typed or configured; and the hint where a server refuses a request.
//!
//! Made by `connect::network`. The transport calls it for every request, and [`Access::explain`] adds to failures. It opens no
//! browser and asks no question. The tokens that it sends are hidden from then on in everything that is printed.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use mcpjoin::proto::http::challenge::Challenge;
use mcpjoin::proto::session::{TransportErrorKind, TransportErrorReason};
use mcpjoin::transport::{
    AfterChallenge, AuthorizationChallenge, AuthorizationRequest, Credentials, CredentialsError,
};
use mcpjoin_auth::{FileStore, OAuth, OAuthBuilder};

use crate::args::Connect;
use crate::config::{Oauth, Remote};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::folders;
use crate::secret;
use crate::target::shown;
use crate::ui::{Secrets, Ui};
use crate::visible;

/// How much of a challenge is shown.
const MAX_CHALLENGE_COLUMNS: usize = 400;
/// The scopes in a command line that the user is to type.
const MAX_SCOPES: usize = 20;
/// The cache partition of requests without a login.
const ANONYMOUS_PARTITION: &str = "anonymous";
/// The ids of failures that an outage of the authorization server may cause.
const OUTAGE_FAILURES: [&str; 4] = ["E_AUTH", "E_CONNECT", "E_TLS", "E_LINK"];
const OWN_TOKEN: &str = "--header 'Authorization: Bearer ...', or --header @FILE";

/// The folder of stored logins; `None` where the user's home is not known.
pub(crate) fn folder() -> Option<PathBuf> {
    folders::absolute("MCPJOIN_AUTH_DIR").or_else(|| Some(folders::state()?.join("mcpjoin").join("auth")))
}

/// The authorization of requests to one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Access(Arc<State>);

struct State {
    ui: Ui,
    url: String,
    /// The settings for logins from the entry.
    oauth: Oauth,
    extra_ca: Option<Vec<u8>>,
    connect_timeout: Option<Duration>,
    /// The options of `mcpjoin auth` for this server, without scopes.
    options: String,
    /// The server as the user would type it.
    named: String,
    source: Source,
    /// The last refusal of the server.
    refusal: Mutex<Option<Refusal>>,
    /// The authorization that was sent last.
    sent: Mutex<Option<HeaderValue>>,
    /// The network failure that kept us from an authorization. A login does not help against it.
    outage: Mutex<Option<(TransportErrorKind, String)>>,
    /// Clients of ours get the hint in the error, since they see no output of ours.
    has_clients: AtomicBool,
}

/// Where the authorization comes from.
enum Source {
    /// A header that is typed or configured.
    Header,
    /// Nowhere: an option or the entry says so.
    Off,
    /// Nowhere: there is no folder for logins.
    NoFolder,
    /// The stored login.
    Stored(Box<OAuth>),
}

/// How a server has refused a request.
#[derive(Clone, Debug)]
struct Refusal {
    status: u16,
    /// The values of `WWW-Authenticate`.
    values: Vec<String>,
}

impl Access {
    /// `has_header`: whether a header `Authorization` is typed or configured. `named`: the entry as the user would type it.
    pub(super) fn new(
        ui: &Ui,
        remote: &Remote,
        connect: &Connect,
        has_header: bool,
        extra_ca: Option<Vec<u8>>,
        named: Option<&str>,
    ) -> Result<Self, Failure> {
        let url = remote.address.url.clone();
        let mut options = String::new();
        if let Some(path) = &connect.ca {
            options.push_str(&format!(" --ca {}", shown(path.as_os_str())));
        }
        // The entry is named where it has settings for logins.
        let named = named.filter(|_| remote.oauth != Oauth::default());
        if let (Some(_), Some(file)) = (named, &connect.configured.config) {
            options.push_str(&format!(" --config {}", shown(file.as_os_str())));
        }
        let named = named.map_or_else(|| shown(url.as_ref()), |name| shown(name.as_ref()));
        let mut state = State {
            ui: ui.clone(),
            url,
            oauth: remote.oauth.clone(),
            extra_ca,
            connect_timeout: connect.connect_timeout,
            options,
            named,
            source: Source::NoFolder,
            refusal: Mutex::default(),
            sent: Mutex::default(),
            outage: Mutex::default(),
            has_clients: AtomicBool::new(false),
        };
        state.source = match folder() {
            _ if has_header => Source::Header,
            _ if connect.no_auth || remote.oauth.off => Source::Off,
            None => Source::NoFolder,
            Some(folder) => {
                let oauth = state.builder().store(FileStore::at(folder)).build();
                Source::Stored(Box::new(oauth.map_err(|error| unusable(&error))?))
            }
        };
        Ok(Self(Arc::new(state)))
    }

    /// The credentials for the transport; `None` where no stored login is used.
    pub(super) fn credentials(&self) -> Option<Self> {
        matches!(self.0.source, Source::Stored(_)).then(|| self.clone())
    }

    /// The URL of the server.
    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }

    /// The settings for logins from the entry.
    pub(crate) fn oauth(&self) -> &Oauth {
        &self.0.oauth
    }

    /// The authorities that are trusted beside those of the system, in PEM.
    pub(crate) fn extra_ca(&self) -> Option<&[u8]> {
        self.0.extra_ca.as_deref()
    }

    pub(crate) fn connect_timeout(&self) -> Option<Duration> {
        self.0.connect_timeout
    }

    /// Whether a header `Authorization` is typed or configured.
    pub(crate) fn has_header(&self) -> bool {
        matches!(self.0.source, Source::Header)
    }

    /// Whether a stored login is not used: there is a header, or logins are off.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.0.source, Source::Header | Source::Off)
    }

    /// A login to this server, with the settings for reaching it.
    pub(crate) fn builder(&self) -> OAuthBuilder {
        self.0.builder()
    }

    /// The command line that logs in with these scopes.
    pub(crate) fn line(&self, scopes: &[String]) -> String {
        let State { options, named, .. } = &*self.0;
        let scopes: String = scopes
            .iter()
            .take(MAX_SCOPES)
            .map(|scope| format!(" --scope {}", shown(scope.as_ref())))
            .collect();
        format!("mcpjoin auth login{scopes}{options} {named}")
    }

    /// The server as the user would type it.
    pub(crate) fn named(&self) -> &str {
        &self.0.named
    }

    /// The command line that explains the authorization.
    pub(crate) fn explain_line(&self) -> String {
        let State { options, named, .. } = &*self.0;
        format!("mcpjoin auth explain{options} {named}")
    }

    /// The command line that examines the server.
    pub(crate) fn doctor_line(&self) -> String {
        let State { options, named, .. } = &*self.0;
        format!("mcpjoin doctor{options} {named}")
    }

    /// From now on errors contain the hint, since they go to clients of ours.
    pub(crate) fn tells_clients(&self) {
        self.0.has_clients.store(true, Ordering::Relaxed);
    }

    /// Adds to a failure the challenge of the server and a hint.
    #[must_use]
    pub(crate) fn explain(&self, mut failure: Failure) -> Failure {
        // `validate` makes its own requests: it went on without an authorization after an outage, and was refused.
        let outage = lock(&self.0.outage).clone().filter(|_| OUTAGE_FAILURES.contains(&failure.id));
        if let Some((kind, what)) = outage {
            let seen = failure.seen;
            return Failure { seen, ..self.outage(kind, what, failure.phase) };
        }
        let is_untrusted = matches!(
            failure.seen.reason,
            Some(TransportErrorReason::SelfSigned | TransportErrorReason::UnknownIssuer)
        );
        if is_untrusted && self.0.extra_ca.is_some() {
            return failure
                .hint("--ca was read, but contains neither the server's certificate nor its authority");
        }
        if failure.id != "E_AUTH" {
            return failure;
        }
        let refusal = lock(&self.0.refusal).clone();
        failure.seen.challenge = refusal.as_ref().and_then(Refusal::shown);
        match self.hint(refusal.as_ref(), failure.seen.http_status) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// The hint, where more is known than that a header is missing. `status`: that of a
    /// response without a challenge, which `validate` alone has seen.
    fn hint(&self, refusal: Option<&Refusal>, status: Option<u16>) -> Option<String> {
        let missing = refusal.and_then(Refusal::missing_scopes);
        let line = self.line(missing.as_deref().unwrap_or_default());
        match &self.0.source {
            Source::Header => Some(format!(
                "the server rejects the Authorization header: use another one, or leave it out and log in: \
                 {line}"
            )),
            Source::Off if self.0.oauth.off => Some(format!("send a token: {OWN_TOKEN}")),
            Source::Off => Some(format!("leave out --no-auth, or send a token: {OWN_TOKEN}")),
            Source::NoFolder => Some(format!(
                "send a token: {OWN_TOKEN}; or set MCPJOIN_AUTH_DIR to a folder for logins, and then: {line}"
            )),
            Source::Stored(_) if refusal.is_some_and(Refusal::wants_something_else) => None,
            Source::Stored(_) if missing.is_some() => Some(line),
            Source::Stored(_) if refusal.is_some_and(Refusal::shows_no_oauth) => Some(format!(
                "no sign of OAuth: this server probably requires an API key or a token: {OWN_TOKEN}, or \
                 the header in its documentation; if it has logins: {line}"
            )),
            Source::Stored(_) if refusal.map_or_else(|| status == Some(403), Refusal::is_silent_denial) => {
                Some(format!(
                    "check the URL: a proxy or a firewall may have refused it; if the server requires a token: {OWN_TOKEN}; \
                 if it has logins: {line}"
                ))
            }
            Source::Stored(_) => Some(format!("{line} (with your own token: {OWN_TOKEN})")),
        }
    }

    /// The failure of a server that was not reached, which `what` names.
    pub(crate) fn unreached(&self, kind: TransportErrorKind, what: String) -> Failure {
        self.explain(self.outage(kind, what, Phase::Authorize))
    }

    /// The failure of an authorization server that was not reached, which `what` names.
    pub(crate) fn outage(&self, kind: TransportErrorKind, what: String, phase: Phase) -> Failure {
        let id = if kind == TransportErrorKind::Untrusted { "E_TLS" } else { "E_CONNECT" };
        Failure::new(id, Exit::Connection, phase, what).hint(self.outage_hint(kind))
    }

    fn outage_hint(&self, kind: TransportErrorKind) -> String {
        let explain = self.explain_line();
        match kind {
            TransportErrorKind::Untrusted => {
                format!(
                    "--ca FILE trusts another authority, after you have checked whose it is; {explain} \
                     shows every step"
                )
            }
            _ => format!("check that it runs and is reachable, then try again; {explain} shows every step"),
        }
    }

    /// The error of a request that needs an authorization.
    fn failed(&self, error: CredentialsError) -> CredentialsError {
        let CredentialsError { message, kind } = &error;
        let is_outage = *kind != TransportErrorKind::Unauthorized;
        *lock(&self.0.outage) = is_outage.then(|| (*kind, message.clone()));
        if !self.0.has_clients.load(Ordering::Relaxed) {
            return error;
        }
        let hint = if is_outage {
            self.outage_hint(*kind)
        } else {
            let refusal = lock(&self.0.refusal).clone();
            self.hint(refusal.as_ref(), None).unwrap_or_else(|| format!("send a token: {OWN_TOKEN}"))
        };
        CredentialsError::new(self.0.ui.hidden(&format!("{message}; try: {hint}"))).of(*kind)
    }
}

impl State {
    fn builder(&self) -> OAuthBuilder {
        let mut builder = OAuth::builder(&self.url);
        if let Some(pem) = &self.extra_ca {
            builder = builder.extra_ca(pem.clone());
        }
        if let Some(time) = self.connect_timeout {
            builder = builder.connect_timeout(time);
        }
        builder
    }

    /// Records the authorization that is sent, and hides it.
    fn record_sent(&self, value: Option<&HeaderValue>) {
        let mut sent = lock(&self.sent);
        if sent.as_ref() == value {
            return;
        }
        if let Some(value) = value {
            hide_token(&self.ui, value);
        }
        *sent = value.cloned();
    }
}

/// Hides the token in a value of `Authorization` in everything that is printed from now on.
pub(crate) fn hide_token(ui: &Ui, authorization: &HeaderValue) {
    let Ok(text) = authorization.to_str() else { return };
    ui.hide(Secrets::new(&secret::of_header("authorization", text)));
    // `DPoP` (RFC 9449) is not among the schemes of `secret`.
    let token = text.split_once(' ').map_or(text, |(_, token)| token);
    ui.hide(Secrets::new(&[OsString::from(token.trim())]));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Refusal {
    fn of(challenge: &AuthorizationChallenge<'_>) -> Self {
        let values = challenge.www_authenticate.iter().map(|value| (*value).to_owned()).collect();
        Self { status: challenge.status, values }
    }

    fn challenges(&self) -> impl Iterator<Item = Challenge> {
        self.values.iter().flat_map(|value| Challenge::parse(value.as_bytes()))
    }

    /// The values as the server sent them, truncated.
    fn shown(&self) -> Option<String> {
        let text = self.values.join(", ");
        (!text.is_empty()).then(|| visible::cut(&visible::line(&text), MAX_CHALLENGE_COLUMNS).into_owned())
    }

    /// The scopes that the token lacks, where that is the reason.
    fn missing_scopes(&self) -> Option<Vec<String>> {
        let of_scope = |challenge: &Challenge| challenge.parameter("error") == Some("insufficient_scope");
        let challenge = self.challenges().filter(|_| self.status == 403).find(of_scope)?;
        let scopes = challenge.parameter("scope").unwrap_or_default();
        Some(scopes.split_whitespace().take(MAX_SCOPES).map(str::to_owned).collect())
    }

    /// Whether it says nothing about how to be authorized.
    fn shows_no_oauth(&self) -> bool {
        self.status == 401 && self.challenges().next().is_none()
    }

    /// Whether it denies access without a word about authorization.
    fn is_silent_denial(&self) -> bool {
        self.status == 403 && self.challenges().next().is_none()
    }

    /// Whether it names schemes, and none of them is of OAuth.
    fn wants_something_else(&self) -> bool {
        let is_ours = |challenge: &Challenge| challenge.is("Bearer") || challenge.is("DPoP");
        let mut challenges = self.challenges().peekable();
        challenges.peek().is_some() && !challenges.any(|challenge| is_ours(&challenge))
    }
}

impl Credentials for Access {
    async fn authorization(
        &self,
        request: AuthorizationRequest<'_>,
    ) -> Result<Option<HeaderValue>, CredentialsError> {
        let Source::Stored(oauth) = &self.0.source else { return Ok(None) };
        match oauth.authorization(request).await {
            Ok(value) => {
                *lock(&self.0.outage) = None;
                self.0.record_sent(value.as_ref());
                Ok(value)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    fn proof(&self, request: AuthorizationRequest<'_>, authorization: &HeaderValue) -> Option<HeaderValue> {
        let Source::Stored(oauth) = &self.0.source else { return None };
        oauth.proof(request, authorization)
    }

    fn answered(&self, url: &str, dpop_nonce: &str) {
        if let Source::Stored(oauth) = &self.0.source {
            oauth.answered(url, dpop_nonce);
        }
    }

    fn cache_partition(&self) -> Option<String> {
        let Source::Stored(oauth) = &self.0.source else { return Some(ANONYMOUS_PARTITION.into()) };
        match &*lock(&self.0.sent) {
            None => Some(ANONYMOUS_PARTITION.into()),
            Some(_) => oauth.cache_partition(),
        }
    }

    async fn challenged(&self, challenge: AuthorizationChallenge<'_>) -> AfterChallenge {
        let Source::Stored(oauth) = &self.0.source else { return AfterChallenge::GiveUp };
        let status = challenge.status;
        *lock(&self.0.refusal) = Some(Refusal::of(&challenge));
        let has_clients = self.0.has_clients.load(Ordering::Relaxed);
        match oauth.challenged(challenge).await {
            // Without an authorization in the request, the server's own challenge says more than that there is no login.
            AfterChallenge::Fail(_) if lock(&self.0.sent).is_none() && !has_clients => AfterChallenge::GiveUp,
            AfterChallenge::Fail(error) => AfterChallenge::Fail(self.failed(error)),
            AfterChallenge::GiveUp if has_clients => {
                let text = format!("the server answered {status}: access is not permitted");
                AfterChallenge::Fail(self.failed(CredentialsError::new(text)))
            }
            after => after,
        }
    }
}

/// The failure of settings that make no login.
pub(crate) fn unusable(error: &mcpjoin_auth::OAuthSetupError) -> Failure {
    Failure::usage(error.to_string(), "http://host:port/path, and --ca FILE, where FILE is in PEM")
}
