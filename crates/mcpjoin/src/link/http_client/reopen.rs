//! A legacy session that the server has forgotten, opened again: once, with nothing that could do harm.
//!
//! Run by the link when a request was refused with 404. It sends the `initialize` that opened the first session,
//! `initialized`, the level of log messages and the subscriptions, and nothing else.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>

use std::sync::Arc;

use http::Method as HttpMethod;
use http::header::HeaderMap;
use mcpjoin_proto::session::{LinkError, Outbound, Route};
use mcpjoin_proto::{Message, Method, Notification, Request};
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};

use super::again::Repeatable;
use super::exchange::{News, body};
use super::failure;
use super::legacy::LegacySession;
use super::reading::{reply, whole};
use super::wire::{Sending, Wire};

/// What is to be made again.
pub(super) struct Reopening {
    pub(super) wire: Arc<Wire>,
    pub(super) old: Arc<LegacySession>,
    pub(super) initialize: Request,
    pub(super) restore: Vec<Request>,
}

impl Reopening {
    pub(super) async fn run(self, news: Sender<News>) {
        let limit = self.wire.limits.initialize;
        let told = match timeout(limit, self.open()).await {
            Ok(Ok(session)) => News::Reopened(session),
            Ok(Err((cause, fatal))) => News::NotReopened { cause, fatal },
            Err(_) => {
                let what =
                    format!("the session is gone, and was not opened again within {} ms", limit.as_millis());
                let cause = self.initialization(HeaderMap::new()).error(what, true);
                News::NotReopened { cause, fatal: false }
            }
        };
        let _ = news.send(told).await;
    }

    fn initialization(&self, headers: HeaderMap) -> Sending {
        self.sending(Message::Request(self.initialize.clone()), "initialize", headers)
    }

    fn sending(&self, message: Message, about: &str, headers: HeaderMap) -> Sending {
        let body = body(&Outbound::Message { message, route: Route::Session });
        Sending { headers, body: Some(body), ..self.wire.sending(HttpMethod::POST, about) }
    }

    /// The second member of an error: nothing that comes later can be better.
    async fn open(&self) -> Result<LegacySession, (LinkError, bool)> {
        let sending = self.initialization(super::message_headers());
        let failed = |what: String, fatal: bool| {
            (sending.error(format!("the server has forgotten the session; {what}"), !fatal), fatal)
        };
        let mut waits = 0;
        let response = loop {
            let response = match self.wire.send(&sending).await {
                Ok(response) => response,
                Err(unanswered) => return Err((unanswered.error, false)),
            };
            // A server that is just starting has forgotten its sessions, and may not be ready for others.
            match Repeatable::Opening.pause(response.status(), response.headers(), waits) {
                Some(pause) if pause < self.wire.limits.initialize => sleep(pause).await,
                _ => break response,
            }
            waits += 1;
        };
        let head = response.headers().clone();
        let status = response.status();
        if !status.is_success() {
            let fatal = !status.is_server_error();
            return Err(failed(format!("opening another: {}", failure::page(response).await), fatal));
        }
        let id = &self.initialize.id;
        let Some(reply) = reply(&self.wire, response, id).await else {
            return Err(failed("initialize brought no reply".into(), true));
        };
        let session = match LegacySession::of(&reply, &head, id) {
            Ok(Some(session)) => session,
            Ok(None) => return Err(failed("initialize was refused".into(), true)),
            Err(what) => return Err(failed(what, true)),
        };
        if session.agreed != self.old.agreed {
            let what = format!("and speaks {} now, not {}", session.agreed, self.old.agreed);
            return Err(failed(what, true));
        }
        let session = LegacySession { generation: self.old.generation + 1, ..session };
        self.restore(&session).await;
        Ok(session)
    }

    /// Says that we are ready, and sets what was set. What fails of it is not told: the session is usable without.
    async fn restore(&self, session: &LegacySession) {
        let mut headers = super::message_headers();
        session.write(&mut headers);
        let initialized = Message::Notification(Notification { method: Method::Initialized, params: None });
        let sending = self.sending(initialized, "notifications/initialized", headers.clone());
        if let Ok(response) = self.wire.send(&sending).await {
            let _ = whole(response, failure::EXCERPT).await;
        }
        for request in &self.restore {
            let about = request.method.as_str().to_owned();
            let sending = self.sending(Message::Request(request.clone()), &about, headers.clone());
            if let Ok(response) = self.wire.send(&sending).await
                && reply(&self.wire, response, &request.id).await.is_none()
            {
                tracing::debug!(target: "mcpjoin", about, "was not set again");
            }
        }
    }
}
