//! One message posted, and everything that comes of it.
//!
//! Made by the link for every message, run by it until it is over, dropped to end it. What happens on the way is told
//! as [`News`]: an exchange changes nothing itself.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use mcpjoin_proto::http::classify::{Probe, ProbeBody, ProbeVerdict, verdict};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::http::reply::forgets_session;
use mcpjoin_proto::session::{Inbound, LinkEnd, LinkError, LinkErrorKind, Outbound};
use mcpjoin_proto::{ErrorObject, Message, Raw, Request, RequestId, code};
use reqwest::{Response, Url};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, timeout};

use super::again::{FIRST_WAIT, LONGEST_WAIT, Repeatable, UNASKED_RETRIES, told_to_wait};
use super::failure;
use super::heard::Mark;
use super::legacy::LegacySession;
use super::reading::{Whole, compressed, ends_with_connection, read, settles, too_long, whole};
use super::resuming::LINGER;
use super::wire::{Sending, Unanswered, Wire, media_type};
use crate::link::stream::is_cut_off;

/// What an exchange tells the link.
pub(super) enum News {
    /// Something for the session.
    Came(Inbound),
    /// The same from an event with an id, in a legacy session: it may have come before. `of`: the request whose stream it
    /// came on.
    Heard { inbound: Inbound, mark: Mark, of: Option<RequestId> },
    /// The server has accepted `initialize`.
    Initialized { session: LegacySession, reply: Inbound },
    /// The server asks to come again before it says what era it is of: nothing else is asked meanwhile.
    Postponed,
    /// The server knows no POST of `initialize` here.
    TryHttpSse(Box<Refused>),
    /// The server does not know the session any more. `again`: what it has refused for that reason.
    Gone { generation: u64, again: Option<Box<Outbound>> },
    /// The headers of a call did not fit the tool.
    Mismatched { call: Box<Outbound>, refusal: Inbound },
    /// The tools were listed again for that reason: the pages.
    Relisted { call: Request, refusal: Inbound, pages: Vec<Raw> },
    /// The session was opened again.
    Reopened(LegacySession),
    /// It could not be.
    NotReopened { cause: LinkError, fatal: bool },
    /// HTTP+SSE: where to post.
    Endpoint(Url),
    /// HTTP+SSE: there is no such stream here.
    NoHttpSse(LinkError),
    /// Nothing more can come.
    Ended(LinkEnd),
}

/// `initialize` as it was refused.
pub(super) struct Refused {
    pub(super) initialize: Outbound,
    pub(super) id: RequestId,
    /// The server's own words, where they were a message.
    pub(super) reply: Option<Inbound>,
    pub(super) cause: LinkError,
}

/// What a message is to its exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A probe of the era.
    Probe(Probe),
    /// A request.
    Request,
    /// A notification, a response, several of these: nothing comes back.
    Told,
}

/// A message to post.
pub(super) struct Post {
    pub(super) sending: Sending,
    pub(super) role: Role,
    /// Whether it may be sent again when the server cannot answer now.
    pub(super) repeatable: Repeatable,
    /// The request that is to be answered.
    pub(super) owed: Option<RequestId>,
    /// The session that it belongs to.
    pub(super) session: Option<Arc<LegacySession>>,
    /// It stands for itself, as in 2026-07-28.
    pub(super) modern: bool,
    /// HTTP+SSE: the reply comes on the stream.
    pub(super) elsewhere: bool,
    /// What it was made of. `None` when it is not to be sent a second time.
    pub(super) outbound: Option<Outbound>,
    /// It was refused once, and not executed.
    pub(super) again: bool,
}

/// A response that was read, and is no event stream.
struct Answer {
    status: StatusCode,
    what: Said,
}

enum Said {
    /// JSON that was read as what came in.
    Inbound(Inbound),
    /// Nothing that can be read, in words.
    Page(String),
    /// The beginning of what may have been the reply.
    Broken(String),
}

pub(super) struct Exchange {
    pub(super) wire: Arc<Wire>,
    pub(super) post: Post,
    news: Sender<News>,
}

impl Exchange {
    pub(super) const fn new(wire: Arc<Wire>, post: Post, news: Sender<News>) -> Self {
        Self { wire, post, news }
    }

    /// Runs it to its end.
    pub(super) async fn run(self) {
        if let Some(owed) = self.post.owed.clone() {
            return self.ask(owed).await;
        }
        let limit = self.wire.limits.request;
        match timeout(limit, self.tell()).await {
            Ok(()) => {}
            Err(_) => self.not_told(&"it was not accepted in time"),
        }
    }

    pub(super) async fn say(&self, news: News) {
        // The link has gone, and with it everybody who would hear.
        let _ = self.news.send(news).await;
    }

    pub(super) async fn lose(&self, owed: &RequestId, cause: LinkError) {
        self.say(News::Came(Inbound::Lost { id: owed.clone(), cause })).await;
    }

    pub(super) fn error(&self, what: impl AsRef<str>, retryable: bool) -> LinkError {
        self.post.sending.error(what, retryable)
    }

    // ---- what is only told ----

    /// Says that the server has not taken what has no reply. A response that is lost is a request of the server that fails.
    fn not_told(&self, reason: &dyn fmt::Display) {
        let about = &self.post.sending.about;
        match self.post.repeatable {
            Repeatable::Awaited => {
                tracing::warn!(target: "mcpjoin", %about, %reason, "the server has not taken it");
            }
            _ => tracing::debug!(target: "mcpjoin", %about, %reason, "the server has not taken it"),
        }
    }

    /// Posts something that has no reply. What the server has seen nothing of is tried again, since it may wait for it; a
    /// response also where that is not known.
    async fn tell(&self) {
        let mut waits = 0;
        let response = loop {
            match self.send(self.wire.limits.request).await {
                Ok(response) => break response,
                Err(unanswered)
                    if (unanswered.unsent || self.post.repeatable == Repeatable::Awaited)
                        && waits < UNASKED_RETRIES =>
                {
                    sleep(FIRST_WAIT * 2_u32.saturating_pow(waits)).await;
                    waits += 1;
                }
                Err(unanswered) => return self.not_told(&unanswered.error),
            }
        };
        if response.status().is_success() {
            // A short body is read to its end, so that the connection can be used again.
            let _ = timeout(LINGER, whole(response, failure::EXCERPT)).await;
            return;
        }
        if let Some(generation) = self.gone(response.status(), None) {
            // Nothing that was told to a session that has ended means anything to the next one.
            self.say(News::Gone { generation, again: None }).await;
            return;
        }
        self.not_told(&failure::page(response).await);
    }

    // ---- what is asked ----

    async fn ask(self, owed: RequestId) {
        let owed = &owed;
        let budget = match self.post.role {
            Role::Probe(_) => self.wire.limits.initialize,
            _ => self.wire.limits.request,
        };
        let response = match self.send(budget).await {
            Ok(response) => response,
            Err(unanswered) => return self.unanswered(owed, unanswered).await,
        };
        if self.post.elsewhere && response.status().is_success() {
            let _ = timeout(LINGER, whole(response, failure::EXCERPT)).await;
            return;
        }
        let head = response.headers().clone();
        if response.status().is_success() && media_type(&response) == MediaType::EventStream {
            return match compressed(&response) {
                Some(what) => self.lose(owed, self.error(what, false)).await,
                None => self.follow(response, &head, owed).await,
            };
        }
        let answer = self.read(response, owed).await;
        match self.post.role {
            Role::Probe(probe) => self.probed(probe, answer, &head, owed).await,
            _ => self.answered(answer, owed).await,
        }
    }

    /// Sends it; waits and sends it again where the server asks for that and the time allows it.
    async fn send(&self, budget: Duration) -> Result<Response, Unanswered> {
        let started = Instant::now();
        let mut waits = 0;
        loop {
            let response = self.wire.send(&self.post.sending).await?;
            let left = budget.saturating_sub(started.elapsed());
            let (status, head) = (response.status(), response.headers());
            let Some(pause) = self.post.repeatable.pause(status, head, waits) else { return Ok(response) };
            if pause > left.min(LONGEST_WAIT) {
                return Ok(response);
            }
            let about = &self.post.sending.about;
            tracing::info!(target: "mcpjoin", "{about}: {status}; sent again in {} ms", pause.as_millis());
            drop(response);
            if waits == 0 && self.post.role == Role::Probe(Probe::Discover) {
                self.say(News::Postponed).await;
            }
            waits += 1;
            sleep(pause).await;
        }
    }

    /// Reads a response that is no event stream.
    async fn read(&self, response: Response, owed: &RequestId) -> Answer {
        let (status, head) = (response.status(), response.headers().clone());
        let limits = &self.wire.limits;
        let page = |what: String| match told_to_wait(status, &head) {
            Some(wait) => Said::Page(format!("{what}; {wait}")),
            None => Said::Page(what),
        };
        let json = media_type(&response) == MediaType::Json;
        if !json && (!status.is_success() || head.contains_key(name::CONTENT_TYPE)) {
            return Answer { status, what: page(failure::page(response).await) };
        }
        let ends_with_connection = ends_with_connection(&response);
        let what = match whole(response, limits.message).await {
            // What a refusal would have said matters less than that it is one.
            Whole::Broken(what) if status.is_success() => Said::Broken(format!("{status}; {what}")),
            Whole::Broken(what) | Whole::Compressed(what) => Said::Page(format!("{status}; {what}")),
            Whole::TooLong { head, length } => {
                Said::Inbound(too_long(&head, limits.message, length, &self.wire.origin, Some(owed)))
            }
            Whole::Text(text) if text.trim_ascii().is_empty() => page(failure::page_of(status, &head, &[])),
            Whole::Text(text) => match read(&text, &limits.decode, &self.wire.origin, Some(owed)) {
                // Whoever refuses says so in any form.
                Inbound::Malformed { .. } if !status.is_success() => {
                    page(failure::page_of(status, &head, &text))
                }
                // Whoever does not say that it is JSON may say something else.
                Inbound::Malformed { error, .. } if !json => {
                    page(format!("{}: {}", failure::page_of(status, &head, &text), error.kind))
                }
                inbound if ends_with_connection && is_cut_off(&inbound) => Said::Broken(format!(
                    "{status}; the body broke off: the connection was closed in the middle of it"
                )),
                Inbound::Malformed { mut error, excerpt, origin } => {
                    // The body of a response is the reply, or nothing is.
                    error.id.get_or_insert_with(|| owed.clone());
                    Said::Inbound(Inbound::Malformed { error, excerpt, origin })
                }
                inbound => Said::Inbound(inbound),
            },
        };
        Answer { status, what }
    }

    /// The reply to a request that is no probe.
    async fn answered(&self, answer: Answer, owed: &RequestId) {
        if let Some(generation) = self.gone(answer.status, answer.error()) {
            if self.post.again {
                // A session that was made for it did not help. Whoever comes next may try another one.
                return self.lose(owed, self.error(answer.text(), true)).await;
            }
            let again = self.post.outbound.clone().map(Box::new);
            if again.is_none() {
                self.lose(owed, self.error(answer.text(), true)).await;
            }
            self.say(News::Gone { generation, again }).await;
            return;
        }
        let status = answer.status;
        let mismatched = answer.error().is_some_and(|error| error.code == code::HEADER_MISMATCH);
        match answer.what {
            Said::Inbound(refusal) if mismatched && self.post.modern && self.post.outbound.is_some() => {
                let Some(call) = self.post.outbound.clone().map(Box::new) else { return };
                self.say(News::Mismatched { call, refusal }).await;
            }
            Said::Inbound(inbound) => self.hand_in(inbound, owed).await,
            Said::Broken(what) => self.lose(owed, self.error(what, true)).await,
            Said::Page(what) => {
                let what = match status {
                    StatusCode::UNAUTHORIZED => format!("not authorized: {what}"),
                    StatusCode::FORBIDDEN => format!("forbidden: {what}"),
                    StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
                        format!("accepted without a reply: {what}")
                    }
                    _ => what,
                };
                let later = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
                self.lose(owed, self.error(what, later).of(failure::kind(status))).await;
            }
        }
    }

    /// Hands in a body; the request is lost when its reply was not in it.
    async fn hand_in(&self, inbound: Inbound, owed: &RequestId) {
        let settled = settles(&inbound, owed);
        self.say(News::Came(inbound)).await;
        if !settled {
            let cause = self.error("the response brought something else than the reply", false);
            self.lose(owed, cause).await;
        }
    }

    /// The reply to a probe, by the rules of `proto::http::classify`.
    async fn probed(&self, probe: Probe, answer: Answer, head: &HeaderMap, owed: &RequestId) {
        let status = answer.status;
        let text = answer.text();
        let message = match &answer.what {
            Said::Inbound(Inbound::Message { message: Message::Response(reply), .. }) => Some(&reply.outcome),
            _ => None,
        };
        let body = match message {
            Some(Ok(_)) => ProbeBody::Result,
            Some(Err(error)) => ProbeBody::Error(error),
            None => ProbeBody::Other,
        };
        let verdict = verdict(probe, status.as_u16(), body);
        match (verdict, answer.what) {
            (ProbeVerdict::Authenticate, _) => {
                let what = if status == StatusCode::UNAUTHORIZED { "not authorized" } else { "forbidden" };
                let cause = self.error(format!("{what}: {text}"), false).of(LinkErrorKind::Unauthorized);
                self.say(News::Ended(LinkEnd::failed(cause))).await;
            }
            (ProbeVerdict::Unavailable, _) => {
                self.say(News::Ended(LinkEnd::failed(self.error(text, true)))).await;
            }
            (ProbeVerdict::TryHttpSse, what) => {
                let Some(initialize) = self.post.outbound.clone() else { return };
                let reply = match what {
                    Said::Inbound(inbound) if settles(&inbound, owed) => Some(inbound),
                    _ => None,
                };
                let cause = self.error(text, false).of(LinkErrorKind::Foreign);
                let refused = Refused { initialize, id: owed.clone(), reply, cause };
                self.say(News::TryHttpSse(Box::new(refused))).await;
            }
            (ProbeVerdict::Legacy, Said::Inbound(inbound)) if probe == Probe::Initialize => {
                self.initialized(inbound, head, owed).await;
            }
            (_, Said::Inbound(inbound)) => self.hand_in(inbound, owed).await,
            (_, Said::Broken(what)) => self.lose(owed, self.error(what, true)).await,
            (_, Said::Page(what)) => {
                let cause = self.error(what, status.is_server_error());
                self.lose(owed, cause.of(failure::kind(status))).await;
            }
        }
    }

    /// `initialize` was answered.
    pub(super) async fn initialized(&self, reply: Inbound, head: &HeaderMap, owed: &RequestId) {
        match LegacySession::of(&reply, head, owed) {
            Ok(Some(session)) => self.say(News::Initialized { session, reply }).await,
            Ok(None) => self.hand_in(reply, owed).await,
            Err(what) => self.lose(owed, self.error(what, false)).await,
        }
    }

    /// Nothing came back.
    async fn unanswered(&self, owed: &RequestId, unanswered: Unanswered) {
        let hopeless = matches!(
            unanswered.error.kind,
            LinkErrorKind::Unauthorized | LinkErrorKind::Unreached | LinkErrorKind::Untrusted
        );
        if self.post.role == Role::Probe(Probe::Discover) && (unanswered.unsent || hopeless) {
            // There is nobody who could be asked in another way, or nobody who may ask, or who can say so.
            return self.say(News::Ended(LinkEnd::failed(unanswered.error))).await;
        }
        self.lose(owed, unanswered.error).await;
    }

    /// The session that the server has forgotten, by its generation.
    fn gone(&self, status: StatusCode, error: Option<&ErrorObject>) -> Option<u64> {
        let session = self.post.session.as_ref().filter(|session| session.id.is_some())?;
        (!self.post.elsewhere && forgets_session(status.as_u16(), error)).then_some(session.generation)
    }
}

impl Answer {
    /// The error that came, where it was one.
    fn error(&self) -> Option<&ErrorObject> {
        match &self.what {
            Said::Inbound(Inbound::Message { message: Message::Response(reply), .. }) => {
                reply.outcome.as_ref().err()
            }
            _ => None,
        }
    }

    fn text(&self) -> String {
        match &self.what {
            Said::Page(what) | Said::Broken(what) => what.clone(),
            Said::Inbound(Inbound::Message { message: Message::Response(reply), .. }) => match &reply.outcome
            {
                Err(error) => format!("{}: {error}", self.status),
                Ok(_) => self.status.to_string(),
            },
            Said::Inbound(_) => self.status.to_string(),
        }
    }
}

/// The body of a message.
pub(super) fn body(outbound: &Outbound) -> Bytes {
    super::super::gather::Gather::whole(outbound).freeze()
}
