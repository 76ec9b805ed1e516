//! A complete login: discovery, registration, the user or another grant, and the exchange of the code.
//!
//! Called by `oauth` (`login`) and by `refused` (the server requires an authorization, or more scopes).
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-flow-steps>
//!
//! Everything stored belongs to one issuer. Discovery runs again for each login; if the server then names another issuer,
//! nothing stored is used or sent (CVE-2026-104850, adversarial case 136).

use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use http::HeaderValue;
use tokio::time::Instant;

use super::account::{Account, JUST_NOW, authorization};
use super::authorize::{Asked, AuthorizationRequest};
use super::discovery::{Challenged, Discovered, Discovery, Wanted, discover};
use super::dpop::{self, Dpop};
use super::error::AuthError;
use super::fetch::{cut, shown_text};
use super::form::Form;
use super::registration::{ClientIdentity, Registration, RegistrationError, Way, register};
use super::rules;
use super::steps::{Step, StepSubject};
use super::store::StoreError;
use super::stored_login::StoredLogin;
use super::token::{self, TokenEndpoint, Tokens};
use super::user_agent::{Authorizing, UserAgentError};

/// Obtains a token without a user: any grant but the authorization code.
pub(super) trait Obtain: Send + Sync {
    fn obtain<'a>(&'a self, at: Obtaining<'a>) -> BoxFuture<'a, Result<Tokens, AuthError>>;
}

/// The input of a grant.
#[derive(Clone, Copy)]
pub(super) struct Obtaining<'a> {
    /// The resource and its authorization server.
    pub(super) discovered: &'a Discovered,
    /// The token endpoint of that authorization server.
    pub(super) endpoint: TokenEndpoint<'a>,
    /// The requested scopes.
    pub(super) scopes: &'a [String],
}

/// The reason for a login.
#[derive(Clone, Debug)]
pub(super) enum Occasion {
    /// The program asks for it.
    Wanted,
    /// The server refuses this authorization, or requires one.
    Unauthorized { refused: Option<HeaderValue>, challenge: Challenged },
    /// The server requires more scopes than this authorization has.
    StepUp { refused: HeaderValue, challenge: Challenged },
}

impl Occasion {
    const fn challenge(&self) -> Option<&Challenged> {
        match self {
            Self::Wanted => None,
            Self::Unauthorized { challenge, .. } | Self::StepUp { challenge, .. } => Some(challenge),
        }
    }

    fn is_over(&self, current: Option<&HeaderValue>) -> bool {
        let refused = match self {
            Self::Wanted => return false,
            Self::Unauthorized { refused, .. } => refused.as_ref(),
            Self::StepUp { refused, .. } => Some(refused),
        };
        current.is_some() && current != refused
    }
}

/// The result of a grant.
struct Granted {
    registration: Registration,
    tokens: Tokens,
}

/// The input of a login, after discovery.
struct Ask<'a> {
    discovered: &'a Discovered,
    identity: ClientIdentity,
    /// The stored registration, if it is of the same issuer.
    stored: Option<&'a Registration>,
    scopes: Option<&'a [String]>,
    token_endpoint: &'a str,
    possession: Option<&'a Dpop>,
}

impl Account {
    /// Logs in, or waits for a login in progress. It is cancelled when no caller waits for it any more.
    pub(super) async fn logged_in(self: &Arc<Self>, occasion: Occasion) -> Result<(), AuthError> {
        let this = Arc::clone(self);
        self.logging_in.join(move || async move { this.log_in(&occasion).await }).await
    }

    /// Logs in. Once there are tokens they are stored, even if no caller waits any more.
    pub(super) async fn log_in(self: &Arc<Self>, occasion: &Occasion) -> Result<(), AuthError> {
        let stored = match self.reload().await {
            Ok(stored) => stored,
            // An unreadable store does not prevent a new login.
            Err(error) => {
                tracing::warn!(target: "mcpjoin", %error, "the stored login is not used");
                None
            }
        };
        if occasion.is_over(authorization(stored.as_ref()).as_ref()) {
            return Ok(());
        }
        let identity = self.identity(stored.as_deref());
        let discovered = self.discovered(occasion, &identity, stored.as_deref()).await?;
        self.is_new(occasion, &discovered, stored.as_deref())?;
        let stored = stored.as_deref().filter(|kept| kept.issuer() == discovered.issuer);
        let scopes = self.scopes(occasion, &discovered, stored);
        let possession = self.possession_for(&discovered, stored)?;
        let issuer = shown_text(&discovered.issuer);
        let token_endpoint = discovered.server.token_endpoint.clone();
        let token_endpoint =
            token_endpoint.ok_or_else(|| AuthError::Endpoint(format!("{issuer} has no token endpoint")))?;
        let ask = Ask {
            discovered: &discovered,
            identity,
            stored: stored.map(|kept| &kept.registration),
            scopes: scopes.as_deref(),
            token_endpoint: &token_endpoint,
            possession: possession.as_deref(),
        };
        if matches!(occasion, Occasion::Wanted) {
            // The user's effort in the browser must not be lost.
            self.store.check(&self.server).await.map_err(AuthError::Store)?;
        }
        let granted = match &self.obtain {
            Some(obtain) => self.obtained(&**obtain, &ask).await,
            None => self.authorized(ask).await,
        };
        self.told_tokens(&token_endpoint, &granted);
        if let (Err(AuthError::UserAgent(UserAgentError::NobodyCame { .. })), Some(kept)) = (&granted, stored)
            && kept.registration.way == Way::Dynamic
        {
            self.doubt_client(kept.registration.clone()).await;
        }
        let Granted { registration, tokens } = granted?;
        let kept = StoredLogin {
            server: self.server.clone(),
            resource: discovered.resource,
            registration,
            token_endpoint,
            revocation_endpoint: discovered.server.revocation_endpoint,
            requested: scopes.unwrap_or_default(),
            tokens: Some(tokens),
            key: possession.as_ref().map(|possession| possession.key()),
        };
        tracing::debug!(target: "mcpjoin", server = %self.shown(), %issuer, "logged in");
        match self.keep_login(kept, possession).await {
            Err(error) if !matches!(occasion, Occasion::Wanted) => {
                tracing::warn!(target: "mcpjoin", %error, "the login is not stored");
                Ok(())
            }
            outcome => Ok(outcome?),
        }
    }

    /// Makes the next login register another client. An authorization server that does not know a client shows that to the user, and
    /// must not redirect ([RFC 6749, 4.1.2.1](https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2.1)). The tokens stay, and are
    /// refreshed with their client. In a task of its own, like [`keep_login`](Self::keep_login).
    async fn doubt_client(self: &Arc<Self>, client: Registration) {
        let this = Arc::clone(self);
        let work = tokio::spawn(async move {
            let _lock = this.store.lock(&this.server).await?;
            let Some(kept) = this.reload().await?.filter(|kept| kept.registration == client) else {
                return Ok(());
            };
            let registration = Registration { redirect_uris: Vec::new(), ..client };
            let possession = this.possession();
            this.keep(StoredLogin { registration, ..StoredLogin::clone(&kept) }, possession).await
        });
        if let Ok(Err(error)) = work.await {
            tracing::warn!(target: "mcpjoin", %error, "the client stays stored");
        }
    }

    /// Runs discovery. The issuer of the stored login is preferred.
    async fn discovered(
        &self,
        occasion: &Occasion,
        identity: &ClientIdentity,
        stored: Option<&StoredLogin>,
    ) -> Result<Discovered, AuthError> {
        let preferred = match identity {
            ClientIdentity::Registered { issuer: Some(issuer), .. } => Some(issuer.as_str()),
            _ => stored.map(StoredLogin::issuer),
        };
        let discovery = Discovery {
            fetcher: &self.fetcher,
            server: &self.server,
            wanted: if self.obtain.is_some() { Wanted::TokenAlone } else { Wanted::Code },
            issuer: preferred,
            on_step: self.on_step.as_deref(),
        };
        Ok(discover(&discovery, occasion.challenge()).await.outcome?)
    }

    /// The scopes to request. `stored` is of the same issuer.
    fn scopes(
        &self,
        occasion: &Occasion,
        discovered: &Discovered,
        stored: Option<&StoredLogin>,
    ) -> Option<Vec<String>> {
        let mut more = self.scopes.clone();
        if let Some(stored) = stored.filter(|_| !matches!(occasion, Occasion::Wanted)) {
            // Scopes that were granted before must not be lost with the new token.
            more.extend(stored.requested.iter().cloned());
        }
        discovered.scopes(&more, self.obtain.is_none())
    }

    /// The key to bind the tokens to, where both sides support it. `stored` is of the same issuer.
    fn possession_for(
        &self,
        discovered: &Discovered,
        stored: Option<&StoredLogin>,
    ) -> Result<Option<Arc<Dpop>>, AuthError> {
        let offers = discovered.server.dpop_signing_alg_values_supported.is_some();
        let resource = discovered.protected_resource.as_ref();
        let required = resource.is_some_and(|metadata| metadata.dpop_bound_access_tokens_required);
        let key = stored.and_then(|kept| kept.key.as_ref());
        match required || (offers && (self.dpop || key.is_some())) {
            // A stored key that is invalid does not prevent a new login.
            true => Ok(Some(dpop::possession(key).or_else(|_| dpop::possession(None))?)),
            false => Ok(None),
        }
    }

    /// Stores a login, in a task of its own: if it were dropped on the way, it would release the lock while the store is still
    /// writing, and the stored state would be unknown.
    async fn keep_login(
        self: &Arc<Self>,
        kept: StoredLogin,
        possession: Option<Arc<Dpop>>,
    ) -> Result<(), StoreError> {
        let this = Arc::clone(self);
        let work = tokio::spawn(async move {
            let issuer = kept.issuer().to_owned();
            // A concurrent refresh of the old token must not overwrite this login.
            let lock = this.store.lock(&this.server).await;
            let stored = this.keep(kept, possession).await;
            let mut state = this.state();
            state.logged_in = Some((issuer, Instant::now()));
            state.denied.clear();
            drop(state);
            lock.map(drop).and(stored)
        });
        let given_up =
            |_| Err(StoreError::Other("the login was not stored: the runtime was shut down".into()));
        work.await.unwrap_or_else(given_up)
    }

    /// Whether the refused token was issued just now by the same issuer. A server that refuses such a token will refuse the next
    /// one, too. It may refuse a token of another issuer, or one that has expired: some tokens live for seconds.
    fn is_new(
        &self,
        occasion: &Occasion,
        discovered: &Discovered,
        stored: Option<&StoredLogin>,
    ) -> Result<(), AuthError> {
        let expires = stored.and_then(|kept| kept.tokens.as_ref()?.expires);
        let has_expired = expires.is_some_and(|expires| expires <= SystemTime::now());
        let state = self.state();
        match (occasion, &state.logged_in) {
            (Occasion::Unauthorized { refused: Some(_), .. }, Some((issuer, at)))
                if *issuer == discovered.issuer && at.elapsed() < JUST_NOW && !has_expired =>
            {
                Err(AuthError::Rejected { issuer: shown_text(issuer) })
            }
            _ => Ok(()),
        }
    }

    /// Obtains a token without a user.
    async fn obtained(&self, obtain: &dyn Obtain, ask: &Ask<'_>) -> Result<Granted, AuthError> {
        let (fetcher, now) = (&self.fetcher, SystemTime::now());
        let registration =
            register(fetcher, ask.discovered, &ask.identity, None, ask.stored, ask.scopes, now).await;
        let registration = self.told_registration(registration, ask.stored)?;
        let endpoint = self.endpoint_of(ask, &registration);
        let scopes = ask.scopes.unwrap_or_default();
        let tokens = obtain.obtain(Obtaining { discovered: ask.discovered, endpoint, scopes }).await?;
        Ok(Granted { registration, tokens })
    }

    /// Obtains a token from a user.
    async fn authorized(&self, mut ask: Ask<'_>) -> Result<Granted, AuthError> {
        let granted = self.authorized_once(&ask).await;
        match granted {
            // The authorization server does not know the registered client any more.
            Err(AuthError::Token(error))
                if error.is("invalid_client") && ask.stored.is_some_and(|it| it.way == Way::Dynamic) =>
            {
                tracing::info!(target: "mcpjoin", "the client is registered again");
                ask.stored = None;
                self.authorized_once(&ask).await
            }
            granted => granted,
        }
    }

    async fn authorized_once(&self, ask: &Ask<'_>) -> Result<Granted, AuthError> {
        let Some(user_agent) = &self.user_agent else {
            return Err(AuthError::LoginNeeded(format!("not logged in to {}", self.shown())));
        };
        let server = &ask.discovered.server;
        let issuer = shown_text(&ask.discovered.issuer);
        let endpoint = server.authorization_endpoint.as_deref();
        let endpoint =
            endpoint.ok_or_else(|| AuthError::Endpoint(format!("{issuer} has no authorization endpoint")))?;
        let before = ask.stored.and_then(|stored| stored.redirect_uris.first());
        // Checked before a client is registered for nothing.
        AuthorizationRequest::check(endpoint)?;
        self.fetcher.check(endpoint).await.map_err(|error| AuthError::Endpoint(error.to_string()))?;
        let visit = user_agent.visit(before.map(String::as_str)).await?;
        let redirect_uri = visit.redirect_uri().to_owned();
        let registration = register(
            &self.fetcher,
            ask.discovered,
            &ask.identity,
            Some(&redirect_uri),
            ask.stored,
            ask.scopes,
            SystemTime::now(),
        )
        .await;
        let registration = self.told_registration(registration, ask.stored)?;
        let asked = Asked {
            endpoint,
            client_id: &registration.client_id,
            redirect_uri: &redirect_uri,
            resource: &ask.discovered.resource,
            scopes: ask.scopes,
            issuer: &ask.discovered.issuer,
            names_itself: server.authorization_response_iss_parameter_supported,
        };
        let mut request = AuthorizationRequest::new(asked)?;
        if server.require_pushed_authorization_requests {
            let url = server.pushed_authorization_request_endpoint.as_deref();
            let none = || {
                AuthError::Endpoint(format!("{issuer} names no endpoint for pushed authorization requests"))
            };
            let endpoint =
                TokenEndpoint { url: url.ok_or_else(none)?, ..self.endpoint_of(ask, &registration) };
            let answer = endpoint.post(request.pushed.clone()).await?;
            request.is_pushed(&asked, &token::request_uri(&endpoint.name(), &answer)?)?;
        }
        let authorizing =
            Authorizing::new(request.url.expose().to_owned(), request.state.expose().to_owned());
        let query = visit.authorize(authorizing).await?;
        let code = request.code(&query)?;
        let form = Form::new("authorization_code")
            .with("code", code)
            .with("redirect_uri", redirect_uri)
            .with("code_verifier", request.verifier)
            .with("resource", ask.discovered.resource.as_str());
        let tokens = self.endpoint_of(ask, &registration).ask(form).await?;
        Ok(Granted { registration, tokens })
    }

    /// Reports the response of the token endpoint, if it was called.
    fn told_tokens(&self, token_endpoint: &str, granted: &Result<Granted, AuthError>) {
        let name = shown_text(token_endpoint);
        let step = Step::new(StepSubject::Token, rules::TOKEN, format!("asked for at {name}"));
        match granted {
            Ok(granted) => {
                let found = format!("{name} issued a {} token", granted.tokens.kind.as_str());
                self.report(&Step { found, ..step });
            }
            Err(AuthError::Token(error)) => self.report(&step.failed(error.to_string())),
            Err(_) => {}
        }
    }

    /// Reports how the client got its id.
    fn told_registration(
        &self,
        outcome: Result<Registration, RegistrationError>,
        stored: Option<&Registration>,
    ) -> Result<Registration, RegistrationError> {
        let step = Step::new(StepSubject::Registration, rules::REGISTRATION, "the client needs a client id");
        self.report(&match &outcome {
            Ok(registration) => {
                let how = match registration.way {
                    Way::PreRegistered => "was registered by hand",
                    Way::Document => "is the URL of its metadata document",
                    Way::Dynamic if stored == Some(registration) => "was registered earlier",
                    Way::Dynamic => "was registered now",
                };
                Step { found: format!("the client {} {how}", cut(&registration.client_id)), ..step }
            }
            Err(error) => step.failed(error.to_string()),
        });
        outcome
    }

    fn endpoint_of<'a>(&'a self, ask: &Ask<'a>, registration: &'a Registration) -> TokenEndpoint<'a> {
        TokenEndpoint {
            fetcher: &self.fetcher,
            url: ask.token_endpoint,
            issuer: &ask.discovered.issuer,
            client: registration,
            assertion: self.assertion.as_ref(),
            possession: ask.possession,
        }
    }
}
