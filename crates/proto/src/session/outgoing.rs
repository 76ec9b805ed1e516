//! What an owner answers and tells, in the era of the request that it belongs to.
//!
//! A connection has one era, but a request that names its version in `_meta` is served in that version, also on a stream
//! that was opened with `initialize`: a server serves it without looking at what was agreed before, as
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions>
//! and <https://modelcontextprotocol.io/specification/2026-07-28/basic#statelessness> say. Such requests stand beside the
//! session of the legacy era, and a handler sees in the profile of its request which one it answers. The era of a session
//! that stands for another one is that of the far end, so that such a request is refused there with the version that was
//! agreed; a batch is of one revision, so that it is refused in there, too.
//!
//! A server that does not speak the modern era serves such a request as any other.

use alloc::string::ToString;
use alloc::sync::Arc;

use super::event::{CallRefused, Reply};
use super::link::{Origin, Route};
use super::modern::{self, Modern};
use super::{Enclosed, Enclosure, NotifyRefused, Phase, Role, Session, Violation};
use crate::types::{LogMessageParams, LoggingLevel};
use crate::{Era, ErrorObject, Method, Notification, Payload, Request, RequestId};

impl Session {
    /// Whether a request on a connection of the legacy era is one of the modern era.
    pub(super) fn is_inline_modern(&self, request: &Request) -> bool {
        let (Phase::Legacy(legacy), Role::Server(server)) = (&self.phase, &self.shared.role) else {
            return false;
        };
        // Before the client is ready the connection itself may still become modern.
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

    /// Whether a modern request with this id is still an open stream, which is not among the requests to be answered.
    pub(super) fn is_stream(&self, id: &RequestId) -> bool {
        self.inline_modern.as_ref().is_some_and(|inline_modern| inline_modern.is_stream(id))
    }

    /// Ends the streams of modern clients in order.
    pub(super) fn end_streams(&mut self) {
        if let Phase::Modern(modern) = &mut self.phase {
            modern.end_streams(&mut self.shared);
        }
        if let Some(inline_modern) = &mut self.inline_modern {
            inline_modern.end_streams(&mut self.shared);
        }
    }

    /// Answers a request of the peer. Ignored when nobody waits for the answer any more.
    pub fn respond(&mut self, id: &RequestId, reply: Result<Reply, ErrorObject>) {
        let modern = self.shared.requests.is_modern(id);
        match (&mut self.phase, &self.inline_modern) {
            (Phase::Legacy(_), Some(inline_modern)) if modern => {
                inline_modern.respond(&mut self.shared, id, reply)
            }
            (Phase::Legacy(legacy), _) => legacy.respond(&mut self.shared, id, reply),
            (Phase::Modern(modern), _) => modern.respond(&mut self.shared, id, reply),
            _ => {}
        }
    }

    /// What it takes to put the envelope around the answer to a request that is being handled, where that is work: a
    /// large result has to be looked through and copied, and its owner may do that where it keeps nobody waiting. Then
    /// [`Session::respond_enclosed`]. `None` where a result is sent as it is.
    #[must_use]
    pub fn enclosure(&self, id: &RequestId) -> Option<Enclosure> {
        let modern = match &self.phase {
            Phase::Modern(modern) => modern,
            _ => self.inline_modern.as_deref().filter(|_| self.shared.requests.is_modern(id))?,
        };
        self.shared.requests.method_of(id).map(|method| modern.enclosure(method))
    }

    /// As [`Session::respond`], with a result that has its envelope around it.
    pub fn respond_enclosed(&mut self, id: &RequestId, reply: Result<Enclosed, ErrorObject>) {
        self.shared.finish_request(id, |_| reply.map(|enclosed| enclosed.0));
    }

    /// Tells the peer something. What belongs to no request reaches only a peer that asked for it: a legacy
    /// client that is ready, or a stream of a modern one.
    ///
    /// # Errors
    /// When it was not sent: see [`NotifyRefused`].
    pub fn notify(&mut self, notification: Notification, route: Route) -> Result<(), NotifyRefused> {
        self.notify_streams_of(notification, route, None)
    }

    /// The same of what belongs to no request and is one principal's alone: of a modern client's streams it reaches those
    /// that were opened in that name ([`Origin::principal`](super::Origin::principal)). A legacy session is one client's,
    /// who is not looked at.
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
        // Each era has notifications that the other one does not have.
        match (session, streams) {
            (Err(NotifyRefused::NotAllowed(CallRefused::NotInVersion { .. })), streams) => streams,
            (session, Err(NotifyRefused::NotAllowed(CallRefused::NotInVersion { .. }))) => session,
            (session, streams) => session.and(streams),
        }
    }

    /// Tells the peer how far one of its requests is. Nothing is sent when it did not ask for progress; what
    /// it has not taken yet is replaced by what is newer.
    ///
    /// # Errors
    /// When the request is no longer being handled.
    pub fn progress(
        &mut self,
        id: &RequestId,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), NotifyRefused> {
        self.shared.send_progress(id, progress, total, message)
    }

    /// Sends a log message that belongs to a request of the peer, when its sender wants messages of that
    /// level.
    ///
    /// # Errors
    /// When the request is no longer being handled, or logging was not declared.
    pub fn log(&mut self, id: &RequestId, message: &LogMessageParams) -> Result<(), NotifyRefused> {
        let incoming = self.shared.requests.find(id).ok_or(NotifyRefused::NoSuchRequest)?;
        let wanted = incoming.details().and_then(|details| details.log_level);
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

    /// Closes the stream of a request of the peer, behind what was said on it so far; the peer comes back for the rest.
    /// Nothing is closed where the peer would not come back: on links without exchanges, and in revisions that do not
    /// know it.
    ///
    /// # Errors
    /// When the request is no longer being handled.
    pub fn close_stream(&mut self, id: &RequestId) -> Result<(), NotifyRefused> {
        let polled = self.profile().is_some_and(|profile| profile.http_priming_event);
        if !polled || !self.shared.caps.exchanges {
            return Ok(());
        }
        let incoming = self.shared.requests.find(id).ok_or(NotifyRefused::NoSuchRequest)?;
        let details = incoming.details_mut();
        details.closing = Some(self.shared.queue.push_close_stream(details.closing, id.clone()));
        Ok(())
    }
}
