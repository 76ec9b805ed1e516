//! Who a server over HTTP is told that we are: what `auth login` has stored for its URL, where nothing was typed or
//! configured; and what to do when that is not enough.
//!
//! Made by `connect::http`, asked by the link for every request, and by whoever tells of a failure. It opens no browser and
//! asks nobody; what it sends is hidden from then on wherever we say something.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use mcpjoin::link::{
    AfterChallenge, AuthorizationChallenge, AuthorizationRequest, Credentials, CredentialsError,
};
use mcpjoin::proto::http::challenge::Challenge;
use mcpjoin::proto::session::LinkErrorKind;
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

/// So much of what a server asks for is shown, in characters.
const SHOWN: usize = 400;
/// So many scopes are put into a line that is to be typed.
const SCOPES: usize = 20;
/// In whose name results are kept while nobody is logged in.
const NOBODY: &str = "nobody";
/// The failures that an outage of whoever gives authorizations looks like, to those who see the server alone.
const OF_OUTAGES: [&str; 4] = ["E_AUTH", "E_CONNECT", "E_TLS", "E_LINK"];
const OWN_TOKEN: &str = "--header 'Authorization: Bearer ...', or --header @FILE";

/// The folder in which logins are stored; `None` when the system does not say where the user's files are.
pub(crate) fn folder() -> Option<PathBuf> {
    folders::absolute("MCPJOIN_AUTH_DIR").or_else(|| Some(folders::state()?.join("mcpjoin").join("auth")))
}

/// How one server is let know who asks. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Access(Arc<State>);

struct State {
    ui: Ui,
    url: String,
    /// What the entry says of logging in.
    oauth: Oauth,
    extra_ca: Option<Vec<u8>>,
    connect_timeout: Option<Duration>,
    /// The line that logs in, without scopes and the server: it is the same for whoever reads it.
    options: String,
    /// The server, as it is written in that line.
    named: String,
    means: Means,
    /// What the server has asked for last.
    asked: Mutex<Option<Asked>>,
    /// What was sent last.
    sent: Mutex<Option<HeaderValue>>,
    /// Why an authorization could not be had that no login would bring: the network.
    outage: Mutex<Option<(LinkErrorKind, String)>>,
    /// Clients of ours are told what to do, too: they see no hint.
    has_clients: AtomicBool,
}

/// With what it is let know.
enum Means {
    /// A header that is typed or configured.
    Header,
    /// Nothing: that is what was asked for.
    Off,
    /// Nothing: there is no place to store anything.
    Nowhere,
    /// What is stored.
    Stored(Box<OAuth>),
}

/// How a server has refused a request.
#[derive(Clone, Debug)]
struct Asked {
    status: u16,
    /// The values of `WWW-Authenticate`.
    values: Vec<String>,
}

impl Access {
    /// `has_header`: one named `Authorization` is typed or configured. `named`: the server as it is to be typed.
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
        // What its entry says of logging in counts, where it says something.
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
            means: Means::Nowhere,
            asked: Mutex::default(),
            sent: Mutex::default(),
            outage: Mutex::default(),
            has_clients: AtomicBool::new(false),
        };
        state.means = match folder() {
            _ if has_header => Means::Header,
            _ if connect.no_auth || remote.oauth.off => Means::Off,
            None => Means::Nowhere,
            Some(folder) => {
                let oauth = state.builder().store(FileStore::at(folder)).build();
                Means::Stored(Box::new(oauth.map_err(|error| unusable(&error))?))
            }
        };
        Ok(Self(Arc::new(state)))
    }

    /// Who is asked before each request; nobody, where nothing that is stored is to be used.
    pub(super) fn credentials(&self) -> Option<Self> {
        matches!(self.0.means, Means::Stored(_)).then(|| self.clone())
    }

    /// The URL of the server.
    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }

    /// What its entry says of logging in.
    pub(crate) fn oauth(&self) -> &Oauth {
        &self.0.oauth
    }

    /// The authorities that are trusted beside those of the system: PEM.
    pub(crate) fn extra_ca(&self) -> Option<&[u8]> {
        self.0.extra_ca.as_deref()
    }

    pub(crate) fn connect_timeout(&self) -> Option<Duration> {
        self.0.connect_timeout
    }

    /// Whether a header says who we are, or nothing is to.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.0.means, Means::Header | Means::Off)
    }

    /// A login to this server, to be: what is said of reaching it is in it.
    pub(crate) fn builder(&self) -> OAuthBuilder {
        self.0.builder()
    }

    /// The line that logs in, with these scopes.
    pub(crate) fn line(&self, scopes: &[String]) -> String {
        let State { options, named, .. } = &*self.0;
        let scopes: String =
            scopes.iter().take(SCOPES).map(|scope| format!(" --scope {}", shown(scope.as_ref()))).collect();
        format!("mcpjoin auth login{scopes}{options} {named}")
    }

    /// The server, as it is to be typed.
    pub(crate) fn named(&self) -> &str {
        &self.0.named
    }

    /// The same for another of the verbs of `auth`.
    pub(crate) fn explain_line(&self) -> String {
        let State { options, named, .. } = &*self.0;
        format!("mcpjoin auth explain{options} {named}")
    }

    /// From now on what fails is told to clients of ours in whole: they see no hint.
    pub(crate) fn tells_clients(&self) {
        self.0.has_clients.store(true, Ordering::Relaxed);
    }

    /// A failure with what the server has asked for, and what to do about it.
    #[must_use]
    pub(crate) fn told(&self, mut failure: Failure) -> Failure {
        // Whoever makes its own requests, as `validate` does, has gone on without an authorization, and was refused.
        let outage = self.0.outage().clone().filter(|_| OF_OUTAGES.contains(&failure.id));
        if let Some((kind, what)) = outage {
            let seen = failure.seen;
            return Failure { seen, ..self.outage(kind, what, failure.phase) };
        }
        if failure.id != "E_AUTH" {
            return failure;
        }
        let asked = self.0.asked().clone();
        failure.seen.challenge = asked.as_ref().and_then(Asked::shown);
        let hint = self.hint(asked.as_ref());
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// What to do, where it is known better than that a header is missing.
    fn hint(&self, asked: Option<&Asked>) -> Option<String> {
        let line = match asked.and_then(Asked::missing_scopes) {
            Some(scopes) => self.line(&scopes),
            None => self.line(&[]),
        };
        match &self.0.means {
            Means::Header => Some(format!(
                "the Authorization header is not accepted: give another one, or leave it out and log in: {line}"
            )),
            Means::Off if self.0.oauth.off => Some(format!("say who you are: {OWN_TOKEN}")),
            Means::Off => Some(format!("leave out --no-auth, or say who you are: {OWN_TOKEN}")),
            Means::Nowhere => Some(format!(
                "say who you are: {OWN_TOKEN}; or name a folder for logins in MCPJOIN_AUTH_DIR, and then: {line}"
            )),
            Means::Stored(_) if asked.is_some_and(Asked::wants_something_else) => None,
            Means::Stored(_) if asked.is_some_and(|asked| asked.missing_scopes().is_some()) => Some(line),
            Means::Stored(_) => Some(format!("{line} (with a token of your own: {OWN_TOKEN})")),
        }
    }

    /// Somebody was not reached without whom there is no authorization: `what` says who.
    pub(crate) fn outage(&self, kind: LinkErrorKind, what: String, phase: Phase) -> Failure {
        let id = if kind == LinkErrorKind::Untrusted { "E_TLS" } else { "E_CONNECT" };
        Failure::new(id, Exit::Connection, phase, what).hint(self.outage_hint(kind))
    }

    fn outage_hint(&self, kind: LinkErrorKind) -> String {
        let explain = self.explain_line();
        match kind {
            LinkErrorKind::Untrusted => {
                format!(
                    "--ca FILE trusts one more authority, once you know whose it is; {explain} shows every step"
                )
            }
            _ => format!(
                "does it run, and can it be reached from here? then do the same again; {explain} shows every step"
            ),
        }
    }

    /// Why a request fails, for whoever waits for it.
    fn failed(&self, error: CredentialsError) -> CredentialsError {
        let CredentialsError { message, kind } = &error;
        let is_outage = *kind != LinkErrorKind::Unauthorized;
        *self.0.outage() = is_outage.then(|| (*kind, message.clone()));
        if !self.0.has_clients.load(Ordering::Relaxed) {
            return error;
        }
        let hint = if is_outage {
            self.outage_hint(*kind)
        } else {
            let asked = self.0.asked().clone();
            self.hint(asked.as_ref()).unwrap_or_else(|| format!("say who you are: {OWN_TOKEN}"))
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

    fn asked(&self) -> MutexGuard<'_, Option<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outage(&self) -> MutexGuard<'_, Option<(LinkErrorKind, String)>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self) -> MutexGuard<'_, Option<HeaderValue>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is sent, and hides it.
    fn send(&self, value: Option<&HeaderValue>) {
        let mut sent = self.sent();
        if sent.as_ref() == value {
            return;
        }
        if let Some(text) = value.and_then(|value| value.to_str().ok()) {
            self.ui.hide(Secrets::new(&secret::of_header(text)));
            // The scheme of RFC 9449 is none that words in general are judged by.
            let token = text.split_once(' ').map_or(text, |(_, token)| token);
            self.ui.hide(Secrets::new(&[OsString::from(token.trim())]));
        }
        *sent = value.cloned();
    }
}

impl Asked {
    fn of(challenge: &AuthorizationChallenge<'_>) -> Self {
        let values = challenge.www_authenticate.iter().map(|value| (*value).to_owned()).collect();
        Self { status: challenge.status, values }
    }

    fn challenges(&self) -> impl Iterator<Item = Challenge> {
        self.values.iter().flat_map(|value| Challenge::parse(value.as_bytes()))
    }

    /// As the server says it, cut.
    fn shown(&self) -> Option<String> {
        let text = self.values.join(", ");
        (!text.is_empty()).then(|| visible::cut(&visible::line(&text), SHOWN).into_owned())
    }

    /// The scopes that a token lacks, where that is why it is refused.
    fn missing_scopes(&self) -> Option<Vec<String>> {
        let of_scope = |challenge: &Challenge| challenge.parameter("error") == Some("insufficient_scope");
        let challenge = self.challenges().filter(|_| self.status == 403).find(of_scope)?;
        let scopes = challenge.parameter("scope").unwrap_or_default();
        let scopes: Vec<String> = scopes.split_whitespace().take(SCOPES).map(str::to_owned).collect();
        Some(scopes)
    }

    /// Whether it names ways to say who asks, and none of them is OAuth.
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
        let Means::Stored(oauth) = &self.0.means else { return Ok(None) };
        match oauth.authorization(request).await {
            Ok(value) => {
                *self.0.outage() = None;
                self.0.send(value.as_ref());
                Ok(value)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    fn proof(&self, request: AuthorizationRequest<'_>, authorization: &HeaderValue) -> Option<HeaderValue> {
        let Means::Stored(oauth) = &self.0.means else { return None };
        oauth.proof(request, authorization)
    }

    fn answered(&self, url: &str, dpop_nonce: &str) {
        if let Means::Stored(oauth) = &self.0.means {
            oauth.answered(url, dpop_nonce);
        }
    }

    fn cache_partition(&self) -> Option<String> {
        let Means::Stored(oauth) = &self.0.means else { return Some(NOBODY.into()) };
        match &*self.0.sent() {
            None => Some(NOBODY.into()),
            Some(_) => oauth.cache_partition(),
        }
    }

    async fn challenged(&self, challenge: AuthorizationChallenge<'_>) -> AfterChallenge {
        let Means::Stored(oauth) = &self.0.means else { return AfterChallenge::GiveUp };
        let asked = Asked::of(&challenge);
        let status = asked.status;
        *self.0.asked() = Some(asked);
        match oauth.challenged(challenge).await {
            // Where nothing was sent, the server says more than that nobody is logged in.
            AfterChallenge::Fail(_)
                if self.0.sent().is_none() && !self.0.has_clients.load(Ordering::Relaxed) =>
            {
                AfterChallenge::GiveUp
            }
            AfterChallenge::Fail(error) => AfterChallenge::Fail(self.failed(error)),
            AfterChallenge::GiveUp if self.0.has_clients.load(Ordering::Relaxed) => {
                let text = format!("the server answered {status}, and does not let us in");
                AfterChallenge::Fail(self.failed(CredentialsError::new(text)))
            }
            after => after,
        }
    }
}

/// What a login cannot be made of.
pub(crate) fn unusable(error: &mcpjoin_auth::OAuthSetupError) -> Failure {
    Failure::usage(error.to_string(), "http://host:port/path, and --ca FILE, where FILE is in PEM")
}
