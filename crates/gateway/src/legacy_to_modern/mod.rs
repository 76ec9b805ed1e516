//! A client of the legacy era before a server of the modern era.
//!
//! The server's questions, which come in place of a result, are asked as requests of the client, and the request is made
//! again with the answers. What the client sets for its session is said with each request (the level of log messages), or
//! kept by a stream (`resources/subscribe`, changes of lists). The envelope of the modern era is taken out of results.
//! <https://modelcontextprotocol.io/specification/2026-07-28/changelog> names what differs.

mod listening;
mod rounds;
mod translate;

use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::ServerRole;
use mcpjoin_proto::types::{LoggingLevel, SetLevelParams};
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Profile, Raw, Request, Version};

use self::listening::Listening;
use self::translate::Wraps;
use super::pair::Pair;
use super::relaying::forward;
use super::telling::Telling;
use super::upstream::Upstream;
use mcpjoin::client::Client;
use mcpjoin::connection::Context;

/// What stands between one legacy client and its modern server.
pub(super) struct LegacyToModern {
    /// The revision that the client speaks.
    profile: &'static Profile,
    timeout: Duration,
    /// The tools whose structured results go into an object.
    wraps: Wraps,
    listening: Listening,
    telling: Telling,
}

impl LegacyToModern {
    pub(super) fn new(
        profile: &'static Profile,
        timeout: Duration,
        pair: Arc<Pair>,
        upstream: &Arc<Upstream>,
        server: &Client,
    ) -> Self {
        let telling = pair.telling.clone();
        let listening = Listening::begin(pair, upstream, server);
        Self { profile, timeout, wraps: Wraps::default(), listening, telling }
    }

    /// Answers a request of the client.
    pub(super) async fn request(
        &self,
        server: &Client,
        request: Request,
        cx: &Context,
    ) -> Result<Payload, ErrorObject> {
        match request.method {
            // The session has remembered it, and each request says it from now on.
            Method::SetLevel => checked_level(&request).map(|()| Payload::from_raw(Raw::empty_object())),
            Method::Subscribe => self.listening.subscribe(uri(&request)?).await,
            Method::Unsubscribe => self.listening.unsubscribe(&uri(&request)?),
            _ => self.ask(server, request, cx).await,
        }
    }

    /// Asks the server, and the client what the server asks, until there is a result.
    async fn ask(&self, server: &Client, request: Request, cx: &Context) -> Result<Payload, ErrorObject> {
        let (method, asked) = (request.method.clone(), request.params);
        let mut rounds = rounds::Rounds::new(asked.clone(), self.timeout);
        loop {
            let call = rounds.call(&method, cx);
            let result = match forward(server.connection().call(call), cx).await {
                Ok(result) => result,
                Err(error) => {
                    let error = self.telling.ended(error, server.connection()).await;
                    return Err(translate::error(self.profile, &method, error));
                }
            };
            if !translate::needs_input(&result) {
                return Ok(translate::result(self.profile, &method, asked.as_ref(), result, &self.wraps));
            }
            rounds.answer(&method, &result, cx).await?;
        }
    }

    /// A notification of the client, for the server; `None` where the server has none of the kind.
    pub(super) fn notification(&self, notification: Notification) -> Option<Notification> {
        // Whoever wants to know asks anew.
        (notification.method != Method::RootsListChanged).then_some(notification)
    }
}

/// What a modern server is for a legacy client that has asked for a version.
pub(super) fn role_of(mut role: ServerRole, server: &Client, asked_for: Option<&Version>) -> ServerRole {
    let asked_for = asked_for.and_then(Profile::of).filter(|profile| profile.initialize);
    let version = asked_for.map_or_else(newest, |profile| profile.version.clone());
    role.presents = server
        .peer()
        .presented
        .clone()
        .map(|presented| translate::initialized(Payload::from_raw(presented), &version).into_raw());
    role.versions = vec![version];
    role
}

fn newest() -> Version {
    Version::newest(mcpjoin_proto::Era::Legacy)
}

fn checked_level(request: &Request) -> Result<(), ErrorObject> {
    let params = request.params.as_ref().ok_or_else(|| ErrorObject::invalid_params("`level` is missing"))?;
    let params: SetLevelParams =
        params.raw().decode().map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
    if LoggingLevel::ALL.contains(&params.level) {
        Ok(())
    } else {
        Err(ErrorObject::invalid_params("`level` is no level of log messages"))
    }
}

fn uri(request: &Request) -> Result<String, ErrorObject> {
    let uri = request.params.as_ref().and_then(Payload::uri);
    let uri = uri.as_ref().and_then(Raw::to_string_value);
    uri.map(std::borrow::Cow::into_owned).ok_or_else(|| ErrorObject::invalid_params("`uri` is missing"))
}
