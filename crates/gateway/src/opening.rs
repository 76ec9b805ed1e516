//! The first request of a client, which says what kind of server the client needs.
//!
//! Messages that arrive before the server is ready are buffered in order, and the client's connection then reads them
//! first. A message that says nothing about the client (a `ping`, a request without a session) is answered at once, as
//! by a server whose session is not open. Used by `lib`, `legacy` and `modern`.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::session::{
    CloseCause, Event, Inbound, Limits, Origin, Outbound, Presents, Role, Route, ServerRole, Session,
    TransportCaps, TransportEnd,
};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::task::EXTENSION;
use mcpjoin_proto::types::{ClientCapabilities, Implementation, ProtocolType, ServerCapabilities};
use mcpjoin_proto::{
    Era, ErrorObject, Message, Method, Payload, Profile, Raw, Request, RequestId, Response, Time, Version,
};
use tokio::time::{Instant, sleep, timeout};

use super::capacity::Caller;
use super::end::{GatewayEnd, Refusal};
use super::errors::ErrorTexts;
use super::upstream::ClientHello;
use mcpjoin::internal::TransportLayer;
use mcpjoin::transport::{Link, Transport};

/// Messages that are buffered. Their bytes are limited by `Limits::waiting`.
const MAX_BUFFERED_MESSAGES: usize = 1024;

/// How long an error may take to reach a client whose connection is then closed, and how long the close may take.
const CLOSE_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether the client has a stream open for messages that belong to no request.
pub(super) type HasListener = Arc<dyn Fn() -> bool + Send + Sync>;

/// The link of a client, until its connection is made.
pub(super) struct Opening {
    io: Box<dyn Transport>,
    buffered: VecDeque<Inbound>,
    buffered_bytes: usize,
    max_bytes: usize,
    /// Answers messages that say nothing about the client.
    session: Session,
    began: Instant,
    /// How the client has left, if it has.
    left: Option<TransportEnd>,
    /// How long a client that has closed its side waits for its responses.
    drain: Duration,
}

/// The first request that says something about its client.
pub(super) struct First {
    pub(super) request: Request,
    pub(super) hello: ClientHello,
    pub(super) origin: Arc<Origin>,
    /// Its sender, if the connection is not one client's alone.
    pub(super) caller: Caller,
}

/// A link whose first messages are already buffered.
struct Buffered {
    io: Box<dyn Transport>,
    buffered: VecDeque<Inbound>,
}

impl Opening {
    /// In a box, because the future that serves the client would have room for it to its end.
    pub(super) fn new(link: Link, limits: &Arc<Limits>) -> Box<Self> {
        let mut io = link.into_transport();
        io.configure(limits);
        let mut role = ServerRole::new(Implementation::new("", ""), ServerCapabilities::default());
        role.relays = true;
        let mut session = Session::new(Role::Server(role.into()), io.caps(), limits.clone());
        session.open(Time::ZERO);
        Box::new(Self {
            io,
            buffered: VecDeque::new(),
            buffered_bytes: 0,
            max_bytes: limits.waiting,
            session,
            began: Instant::now(),
            left: None,
            drain: limits.drain,
        })
    }

    pub(super) fn caps(&self) -> TransportCaps {
        self.io.caps()
    }

    /// Tells whether the client has a stream open for messages that belong to no request. `None` if the link has no
    /// such streams.
    pub(super) fn has_listener(&self) -> Option<HasListener> {
        self.io.has_listener().map(Arc::from)
    }

    /// Waits for the first request that says something about the client. Cancel-safe.
    pub(super) async fn first(&mut self) -> Result<First, CloseCause> {
        poll_fn(|cx| self.poll_first(cx)).await
    }

    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Result<First, CloseCause>> {
        loop {
            self.send();
            let flushed = self.io.poll_flush(cx);
            if !self.io.has_room() {
                // Nothing is read from a client that does not read its responses.
                let Poll::Ready(Err(end)) = flushed else { return Poll::Pending };
                return Poll::Ready(Err(CloseCause::Link(end)));
            }
            let Poll::Ready(inbound) = self.io.poll_inbound(cx) else { return Poll::Pending };
            let first = match &inbound {
                Inbound::Message { message: Message::Request(request), origin } => First::of(request, origin),
                Inbound::Closed { cause } => return Poll::Ready(Err(CloseCause::Link(cause.clone()))),
                _ => None,
            };
            match first {
                Some(first) => {
                    self.buffer(inbound);
                    return Poll::Ready(Ok(first));
                }
                None => self.session.handle(Time::from_epoch(self.began.elapsed()), inbound),
            }
        }
    }

    /// Sends the messages of the session.
    fn send(&mut self) {
        while let Some(outbound) = self.session.poll_transmit() {
            self.io.push(outbound);
        }
        while let Some(event) = self.session.poll_event() {
            if let Event::Violation(violation) = event {
                tracing::debug!(target: "mcpjoin", %violation, "the peer broke a rule");
            }
        }
    }

    fn buffer(&mut self, inbound: Inbound) {
        self.buffered_bytes += inbound.payload_len();
        self.buffered.push_back(inbound);
    }

    /// Waits for the start of a server and buffers messages meanwhile. `Err`: the client has left. A client that has
    /// closed its side in order may wait as long as a server that drains.
    pub(super) async fn wait_for<T>(
        &mut self,
        mut start: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, TransportEnd> {
        let mut drain: Option<Pin<Box<tokio::time::Sleep>>> = None;
        poll_fn(|cx| {
            if let Poll::Ready(started) = start.as_mut().poll(cx) {
                return Poll::Ready(Ok(started));
            }
            let _ = self.io.poll_flush(cx);
            while self.left.is_none()
                && self.buffered.len() < MAX_BUFFERED_MESSAGES
                && self.buffered_bytes < self.max_bytes
            {
                let Poll::Ready(inbound) = self.io.poll_inbound(cx) else { break };
                if let Inbound::Closed { cause } = &inbound {
                    self.left = Some(cause.clone());
                }
                self.buffer(inbound);
            }
            let Some(end) = &self.left else { return Poll::Pending };
            if !end.kind.is_closed() || self.io.caps().exchanges {
                return Poll::Ready(Err(end.clone()));
            }
            let drain = drain.get_or_insert_with(|| Box::pin(sleep(self.drain)));
            drain.as_mut().poll(cx).map(|()| Err(end.clone()))
        })
        .await
    }

    /// The link, with the buffered messages first.
    pub(super) fn into_link(self: Box<Self>) -> Link {
        Link::new(Buffered { io: self.io, buffered: self.buffered })
    }

    /// Answers the first request with the error for a refusal, and closes the link.
    pub(super) async fn refuse(
        mut self: Box<Self>,
        id: &RequestId,
        error: ErrorObject,
        refusal: Refusal,
    ) -> GatewayEnd {
        let response = Response { id: Some(id.clone()), outcome: Err(error) };
        self.io.push(Outbound::Message {
            message: Message::Response(response),
            route: Route::ReplyTo(id.clone()),
        });
        let _ = timeout(CLOSE_FLUSH_TIMEOUT, poll_fn(|cx| self.io.poll_flush(cx))).await;
        self.close_link().await;
        GatewayEnd::NoServer(refusal)
    }

    /// Closes the link of a client that left before there was a server for it. A client that has only closed its side gets an
    /// error as the answer to its first request.
    pub(super) async fn client_left(
        self: Box<Self>,
        left: TransportEnd,
        id: &RequestId,
        errors: &ErrorTexts,
    ) -> GatewayEnd {
        if !left.kind.is_closed() || self.io.caps().exchanges {
            return self.close(CloseCause::Link(left)).await;
        }
        let refusal = Refusal::NotReady { waited: self.drain };
        self.refuse(id, errors.refusal(&refusal), refusal).await
    }

    /// Closes the link.
    pub(super) async fn close(mut self: Box<Self>, cause: CloseCause) -> GatewayEnd {
        self.close_link().await;
        GatewayEnd::Client(cause)
    }

    async fn close_link(&mut self) {
        let _ = timeout(CLOSE_FLUSH_TIMEOUT, poll_fn(|cx| self.io.poll_close(cx))).await;
    }
}

impl First {
    /// The client, for warnings to the operator.
    pub(super) fn client_name(&self) -> String {
        let Implementation { name, version, .. } = &self.hello.info;
        let principal = self.origin.principal.iter().map(|principal| format!(", principal {principal}"));
        let peer = self.origin.peer.iter().map(|peer| format!(" at {peer}"));
        [format!("{name} {version}")].into_iter().chain(peer).chain(principal).collect()
    }

    /// Reads the first request; `None` if it does not say what a server must know about its client.
    fn of(request: &Request, origin: &Arc<Origin>) -> Option<Self> {
        let params = request.params.as_ref()?;
        let hello = match request.method {
            Method::Initialize => legacy_hello(params.raw())?,
            _ => modern_hello(params)?,
        };
        Some(Self { request: request.clone(), hello, origin: origin.clone(), caller: Caller::of(origin) })
    }
}

/// A copy of what is kept for further starts of the server: it would keep the buffer of its message, or over HTTP of its connection.
fn copied(raw: &Raw) -> Option<Raw> {
    Raw::parse(Bytes::copy_from_slice(raw.as_bytes())).ok()
}

/// Reads the parameters of `initialize`.
fn legacy_hello(params: &Raw) -> Option<ClientHello> {
    let params = &copied(params)?;
    let offered: Version = params.member("protocolVersion")?.decode().ok()?;
    // Some servers agree to any version. One that is not opened with `initialize` could then not be used.
    let is_known = Profile::of(&offered).is_some_and(|profile| profile.initialize);
    let version = if is_known { offered } else { Version::newest(Era::Legacy) };
    let initialize = match is_known {
        true => params.clone(),
        false => Payload::from_raw(params.clone())
            .with_member("protocolVersion", &Raw::string(version.as_str()))
            .into_raw(),
    };
    let declared = params.member("capabilities").map(without_tasks);
    let capabilities = declared.as_ref().map(ClientCapabilities::read).transpose().ok()?;
    let info = params.member("clientInfo").map(|raw| Implementation::read(&raw)).transpose().ok()?;
    let mut presents = Presents::default();
    presents.initialize = Some(initialize);
    // For a modern server.
    presents.capabilities = declared;
    presents.info = params.member("clientInfo");
    Some(ClientHello {
        initializes: true,
        version: Some(version),
        capabilities: capabilities.unwrap_or_default(),
        info: info.unwrap_or_else(unnamed),
        presents,
        resumed: None,
    })
}

/// Returns the capabilities of a legacy client without the extension for tasks, which counts as undeclared in its era:
/// the client could not read the task of a modern server.
fn without_tasks(capabilities: Raw) -> Raw {
    let extensions = capabilities.member("extensions").filter(|known| known.member(EXTENSION).is_some());
    let Some(extensions) = extensions else { return capabilities };
    let extensions = Payload::from_raw(extensions).without_members(|name| name == EXTENSION);
    Payload::from_raw(capabilities).with_member("extensions", extensions.raw()).into_raw()
}

/// Reads the `_meta` of a modern request.
pub(super) fn modern_hello(params: &Payload) -> Option<ClientHello> {
    let meta = params.meta()?;
    let version: Version = meta.member(key::PROTOCOL_VERSION)?.decode().ok()?;
    Profile::of(&version).filter(|profile| !profile.initialize)?;
    let raw = copied(&meta.member(key::CLIENT_CAPABILITIES)?)?;
    let capabilities = ClientCapabilities::read(&raw).ok()?;
    let named = meta.member(key::CLIENT_INFO).and_then(|info| copied(&info));
    let info = named.as_ref().and_then(|info| Implementation::read(info).ok());
    let mut presents = Presents::default();
    presents.info = named.filter(|_| info.is_some());
    let info = info.unwrap_or_else(unnamed);
    // For a legacy server the same facts become the parameters of `initialize`.
    let said = presents.info.clone().or_else(|| Raw::from_value(&info).ok())?;
    let newest = Version::newest(Era::Legacy);
    let initialize = format!(r#"{{"protocolVersion":"{newest}","capabilities":{raw},"clientInfo":{said}}}"#);
    presents.initialize = Raw::parse(initialize).ok();
    presents.capabilities = Some(raw);
    Some(ClientHello { initializes: false, version: None, capabilities, info, presents, resumed: None })
}

/// The name of a client that gives none, for a server that requires one.
fn unnamed() -> Implementation {
    Implementation::new("unknown", "unknown")
}

impl TransportLayer for Buffered {
    fn io(&self) -> &dyn Transport {
        &*self.io
    }

    fn io_mut(&mut self) -> &mut dyn Transport {
        &mut *self.io
    }

    /// The link was configured before its first messages were read.
    fn configure(&mut self, _: &Limits) {}

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        match self.buffered.pop_front() {
            Some(inbound) => Poll::Ready(inbound),
            None => self.io.poll_inbound(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_client_keeps_none_of_its_requests() {
        let long = "x".repeat(Raw::SHARED_FROM);
        let capabilities = format!(r#"{{"extensions":{{"x":{{"y":"{long}"}}}}}}"#);
        let info = format!(r#"{{"name":"c","version":"{long}"}}"#);
        let modern = format!(
            r#"{{"_meta":{{"{}":"2026-07-28","{}":{capabilities},"{}":{info}}},"much":1}}"#,
            key::PROTOCOL_VERSION,
            key::CLIENT_CAPABILITIES,
            key::CLIENT_INFO
        );
        let legacy = format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"clientInfo":{info},"much":1}}"#
        );
        for text in [modern, legacy] {
            let text = Bytes::from(text);
            let params = Payload::from_raw(Raw::parse(text.clone()).expect("JSON"));
            let hello = modern_hello(&params).or_else(|| legacy_hello(params.raw())).expect("a client");
            drop(params);
            assert!(text.is_unique());
            let said = [&hello.presents.capabilities, &hello.presents.info];
            let said = said.map(|said| said.as_ref().map(Raw::as_str));
            assert_eq!(said, [Some(&*capabilities), Some(&*info)]);
        }
    }
}
