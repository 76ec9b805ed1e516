//! Responses, notifications, progress and log messages of the owner, sent in the era of the request that they belong
//! to.
//!
//! A connection has one era, but a server serves a request that carries its version in `_meta` in that version, also on
//! a connection opened with `initialize`:
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic#statelessness>. The handler sees the version in the
//! profile of its request. Such a request is rejected in a session that relays for a gateway, whose peer has one
//! version, and in a batch, which has one revision.
//!
//! A server without the modern era handles such a request like any other.

use alloc::string::ToString;
use alloc::sync::Arc;

use super::event::{CallRefused, Reply};
use super::modern::{self, Modern};
use super::transport::{Origin, Route};
use super::{NotifyRefused, Phase, ResultEnvelope, Role, Session, Violation, WrappedResult};
use crate::types::{LogMessageParams, LoggingLevel};
use crate::{Era, ErrorObject, Method, Notification, Payload, Request, RequestId};

impl Session {
    /// Whether this is a modern request on a legacy connection.
    pub(super) fn is_inline_modern(&self, request: &Request) -> bool {
        let (Phase::Legacy(legacy), Role::Server(server)) = (&self.phase, &self.shared.role) else {
            return false;
        };
        // Until the client is ready, the connection itself may still become modern.
        legacy.is_ready()
            && !self.shared.caps.exchanges
            && server.speaks(Era::Modern)
            && request.method != Method::Initialize
            && modern::names_its_version(request)
    }

    pub(super) fn inline_modern_request(
        &mut self,
        request: Request,
        origin: Arc<Origin>,
        batch: Option<u64>,
    ) {
        let refusal = match &self.phase {
            Phase::Legacy(legacy) if self.shared.relays() => {
                Some(modern::other_version_agreed(&request, legacy.profile()))
            }
            _ if batch.is_some() => {
                self.shared.violation(Violation::Batch);
                Some(ErrorObject::invalid_request("the protocol version of this request has no batches"))
            }
            _ => None,
        };
        if let Some(error) = refusal {
            return self.shared.reply(request.id, batch, Err(error));
        }
        let inline_modern =
            self.inline_modern.get_or_insert_with(|| Modern::new(modern::newest(), &self.shared.role).into());
        inline_modern.request(&mut self.shared, request, origin);
    }

    /// Whether a modern request with this id is an open stream. Streams are not among the pending requests.
    pub(super) fn is_stream(&self, id: &RequestId) -> bool {
        self.inline_modern.as_ref().is_some_and(|inline_modern| inline_modern.is_stream(id))
    }

    /// Ends the streams of modern clients with a result.
    pub(super) fn end_streams(&mut self) {
        if let Phase::Modern(modern) = &mut self.phase {
            modern.end_streams(&mut self.shared);
        }
        if let Some(inline_modern) = &mut self.inline_modern {
            inline_modern.end_streams(&mut self.shared);
        }
    }

    /// Sends the response to a request of the peer. Ignored when the request is no longer pending.
    pub fn respond(&mut self, id: &RequestId, reply: Result<Reply, ErrorObject>) {
        let inline_modern = self.inline_modern.as_ref().filter(|_| self.shared.requests.is_modern(id));
        match (&mut self.phase, inline_modern) {
            (Phase::Legacy(_), Some(inline_modern)) => {
                inline_modern.respond(&mut self.shared, id, reply);
            }
            (Phase::Legacy(legacy), None) => legacy.respond(&mut self.shared, id, reply),
            (Phase::Modern(modern), _) => modern.respond(&mut self.shared, id, reply),
            _ => {}
        }
    }

    /// The data for the envelope of the response to a pending request. Adding the envelope to a large result takes
    /// time, because the result is scanned and copied; the owner can do this in another thread and then call
    /// [`Session::respond_wrapped`]. `None` where results have no envelope.
    #[must_use]
    pub fn result_envelope(&self, id: &RequestId) -> Option<ResultEnvelope> {
        let modern = match &self.phase {
            Phase::Modern(modern) => modern,
            _ => self.inline_modern.as_deref().filter(|_| self.shared.requests.is_modern(id))?,
        };
        self.shared.requests.method_of(id).map(|method| modern.enclosure(method))
    }

    /// As [`Session::respond`], for a result that has its envelope.
    pub fn respond_wrapped(&mut self, id: &RequestId, reply: Result<WrappedResult, ErrorObject>) {
        self.shared.finish_request(id, |_| reply.map(|enclosed| enclosed.0));
    }

    /// Sends a notification. One that belongs to no request reaches only a peer that wants it: a legacy client that is
    /// ready, or the streams of a modern client with a matching filter.
    ///
    /// # Errors
    /// When the notification was not sent: see [`NotifyRefused`].
    pub fn notify(&mut self, notification: Notification, route: Route) -> Result<(), NotifyRefused> {
        self.notify_streams_of(notification, route, None)
    }

    /// As [`Session::notify`], for a notification of one principal that belongs to no request. Of the streams of modern
    /// clients it reaches those that this principal opened ([`Origin::principal`](super::Origin::principal)). The
    /// principal of a legacy session is not checked.
    ///
    /// # Errors
    /// As for [`Session::notify`].
    pub fn notify_principal(
        &mut self,
        notification: Notification,
        principal: &str,
    ) -> Result<(), NotifyRefused> {
        self.notify_streams_of(notification, Route::Session, Some(principal))
    }

    fn notify_streams_of(
        &mut self,
        notification: Notification,
        route: Route,
        principal: Option<&str>,
    ) -> Result<(), NotifyRefused> {
        let shared = &mut self.shared;
        let (legacy, inline_modern) = match (&mut self.phase, &self.inline_modern) {
            (Phase::Over, _) => return Err(CallRefused::Closed.into()),
            (Phase::Idle | Phase::Negotiating(_) | Phase::AwaitingFirst, _) => {
                return Err(CallRefused::NotOpen.into());
            }
            (Phase::Modern(modern), _) => return modern.notify(shared, notification, route, principal),
            (Phase::Legacy(legacy), None) => return legacy.notify(shared, notification, route),
            (Phase::Legacy(legacy), Some(inline_modern)) => (legacy, inline_modern),
        };
        if let Route::ReplyTo(id) = &route {
            return match shared.requests.is_modern(id) {
                true => inline_modern.notify(shared, notification, route, principal),
                false => legacy.notify(shared, notification, route),
            };
        }
        let streams = inline_modern.notify(shared, notification.clone(), Route::Session, principal);
        let session = legacy.notify(shared, notification, Route::Session);
        // Each era has notifications that the other one lacks.
        match (session, streams) {
            (Err(NotifyRefused::NotAllowed(CallRefused::NotInVersion { .. })), streams) => streams,
            (session, Err(NotifyRefused::NotAllowed(CallRefused::NotInVersion { .. }))) => session,
            (session, streams) => session.and(streams),
        }
    }

    /// Reports progress of a request of the peer. Nothing is sent when the peer did not ask for progress. Progress that
    /// still waits in the queue is replaced.
    ///
    /// # Errors
    /// When the request is no longer pending.
    pub fn progress(
        &mut self,
        id: &RequestId,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), NotifyRefused> {
        self.shared.send_progress(id, progress, total, message)
    }

    /// Sends a log message for a request of the peer, if its sender wants messages of this level.
    ///
    /// # Errors
    /// When the request is no longer pending, or logging was not declared.
    pub fn log(&mut self, id: &RequestId, message: &LogMessageParams) -> Result<(), NotifyRefused> {
        let pending = self.shared.requests.find(id).ok_or(NotifyRefused::NoSuchRequest)?;
        let wanted = pending.details().and_then(|details| details.log_level);
        let wanted = match &self.phase {
            Phase::Legacy(legacy) if !self.shared.requests.is_modern(id) => legacy.wants_log(message.level),
            _ => wanted.is_some_and(|from: LoggingLevel| message.level >= from),
        };
        if !wanted {
            return Ok(());
        }
        let params =
            Payload::from_value(message).map_err(|error| NotifyRefused::Invalid(error.to_string()))?;
        let notification = Notification { method: Method::LogMessage, params: Some(params) };
        self.notify(notification, Route::ReplyTo(id.clone()))
    }

    /// Closes the stream of a request of the peer behind the queued messages, so that the peer reconnects for the rest:
    /// 2025-11-25 alone,
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>. Does
    /// nothing on links without exchanges and in revisions without this feature.
    ///
    /// # Errors
    /// When the request is no longer pending.
    pub fn close_stream(&mut self, id: &RequestId) -> Result<(), NotifyRefused> {
        let polled = self.profile().is_some_and(|profile| profile.http_priming_event);
        if !polled || !self.shared.caps.exchanges {
            return Ok(());
        }
        let pending = self.shared.requests.find(id).ok_or(NotifyRefused::NoSuchRequest)?;
        let details = pending.details_mut();
        details.closing = Some(self.shared.queue.push_close_stream(details.closing, id.clone()));
        Ok(())
    }
}
