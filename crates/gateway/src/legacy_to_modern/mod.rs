//! Clients of the legacy era in front of a server of the modern era.
//!
//! A modern server asks in place of a result. The client receives each question as a request, and the original request
//! is repeated with the answers (`rounds`). Settings of the client's session become part of each request (the log
//! level) or of a stream (`resources/subscribe`, changes of lists; `stream`). Results lose the envelope of the modern
//! era (`translate`). Used by `legacy`.
//! <https://modelcontextprotocol.io/specification/2026-07-28/changelog> lists the differences.

mod rounds;
mod stream;
mod translate;

use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::ServerRole;
use mcpjoin_proto::types::{LoggingLevel, ProtocolType, SetLevelParams};
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Profile, Raw, Request, Version};

use self::stream::Stream;
use self::translate::WrappedTools;
use super::errors::ErrorTexts;
use super::pair::Pair;
use super::policy::Questions;
use super::relay::forward;
use super::upstream::Upstream;
use mcpjoin::client::Client;
use mcpjoin::connection::Context;

/// Answers one legacy client by asking its modern server.
pub(super) struct LegacyToModern {
    /// The revision that the client speaks.
    profile: &'static Profile,
    timeout: Duration,
    /// The tools whose structured results are wrapped in an object.
    wrapped_tools: WrappedTools,
    stream: Stream,
    errors: ErrorTexts,
    /// What the server may ask the client.
    questions: Questions,
}

impl LegacyToModern {
    pub(super) fn new(
        profile: &'static Profile,
        timeout: Duration,
        pair: Arc<Pair>,
        upstream: &Arc<Upstream>,
        server: &Client,
    ) -> Self {
        let (errors, questions) = (pair.errors.clone(), pair.questions.clone());
        let stream = Stream::open(pair, upstream, server);
        Self { profile, timeout, wrapped_tools: WrappedTools::default(), stream, errors, questions }
    }

    /// Answers a request of the client.
    pub(super) async fn request(
        &self,
        server: &Client,
        request: Request,
        cx: &Context,
    ) -> Result<Payload, ErrorObject> {
        match request.method {
            // The session stores the level, and each request carries it from now on.
            Method::SetLevel => {
                checked_level(request.params.as_ref()).map(|_| Payload::from_raw(Raw::empty_object()))
            }
            Method::Subscribe => self.stream.subscribe(uri(request.params.as_ref())?).await,
            Method::Unsubscribe => self.unsubscribe(request.params.as_ref()),
            _ => self.ask(server, request, cx).await,
        }
    }

    /// Ends the subscription to a resource, if there is one.
    pub(super) fn unsubscribe(&self, params: Option<&Payload>) -> Result<Payload, ErrorObject> {
        self.stream.unsubscribe(&uri(params)?)
    }

    /// Subscribes to a resource that the client is subscribed to. A refusal is logged.
    pub(super) async fn subscribe(&self, params: &Payload) {
        let Ok(uri) = uri(Some(params)) else { return };
        if let Err(error) = self.stream.subscribe(uri).await {
            tracing::debug!(target: "mcpjoin", %error, "a subscription was refused");
        }
    }

    /// Sends the request to the server, and the server's questions to the client, until there is a result.
    async fn ask(&self, server: &Client, request: Request, cx: &Context) -> Result<Payload, ErrorObject> {
        let (method, asked) = (request.method.clone(), request.params);
        let mut rounds = rounds::Rounds::new(asked.clone(), self.timeout, self.errors.target());
        loop {
            let call = rounds.call(&method, cx);
            let result = match forward(server.connection().call(call), cx).await {
                Ok(result) => result,
                Err(error) => {
                    let error = self.errors.call_error(error, server.connection()).await;
                    return Err(translate::error(self.profile, &method, error));
                }
            };
            if !translate::needs_input(&result) {
                return Ok(translate::result(
                    self.profile,
                    &method,
                    asked.as_ref(),
                    result,
                    &self.wrapped_tools,
                ));
            }
            rounds.ask_client(&method, &result, cx, &self.questions).await?;
        }
    }

    /// The notification for the server; `None` if the modern era does not have it.
    pub(super) fn notification(&self, notification: Notification) -> Option<Notification> {
        // A modern server asks for the roots each time it needs them.
        (notification.method != Method::RootsListChanged).then_some(notification)
    }
}

/// The role towards a legacy client that has asked for a version.
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

/// Returns the parameters of `logging/setLevel`.
///
/// # Errors
/// If there is no such level.
pub(super) fn checked_level(params: Option<&Payload>) -> Result<&Payload, ErrorObject> {
    let params = params.ok_or_else(|| ErrorObject::invalid_params("`level` is missing"))?;
    let read =
        SetLevelParams::read(params.raw()).map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
    if LoggingLevel::ALL.contains(&read.level) {
        Ok(params)
    } else {
        Err(ErrorObject::invalid_params("`level` is not a log level"))
    }
}

fn uri(params: Option<&Payload>) -> Result<String, ErrorObject> {
    let uri = params.and_then(Payload::uri);
    let uri = uri.as_ref().and_then(Raw::to_string_value);
    uri.map(std::borrow::Cow::into_owned).ok_or_else(|| ErrorObject::invalid_params("`uri` is missing"))
}
