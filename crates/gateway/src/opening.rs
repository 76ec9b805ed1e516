//! The first request of a client, which says what the client is: until then nobody knows what server it needs.
//!
//! What comes is held, in its order, and given to the session of the client's connection once there is a server to stand
//! for. What decides nothing (a `ping`, a request that no session is open for) is answered meanwhile as a server does
//! that nobody has opened. <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use mcpjoin_proto::session::{
    CloseCause, Event, Inbound, Limits, LinkCaps, LinkEnd, Outbound, Presents, Role, Route, ServerRole,
    Session,
};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::{ClientCapabilities, Implementation};
use mcpjoin_proto::{
    Era, ErrorObject, Message, Method, Payload, Profile, Raw, Request, RequestId, Response, Time, Version,
};
use tokio::time::{Instant, sleep, timeout};

use super::pair::Heard;
use super::pools::Whose;
use super::upstream::Wanted;
use mcpjoin::link::TransportLayer;
use mcpjoin::link::{Link, Transport};

/// Messages that are held, beside the bound in bytes that a session has for what waits.
const HELD: usize = 1024;

/// A client's link, until its connection is made.
pub(super) struct Opening {
    io: Box<dyn Transport>,
    held: VecDeque<Inbound>,
    held_bytes: usize,
    most_bytes: usize,
    /// Answers what decides nothing.
    session: Session,
    began: Instant,
    /// How the client has left.
    left: Option<LinkEnd>,
    /// How long a client that has said everything waits for what it has asked.
    drain: std::time::Duration,
}

/// What a client has said first.
pub(super) struct First {
    pub(super) id: RequestId,
    pub(super) wanted: Wanted,
    /// Whose it is, where the connection is not one client's alone.
    pub(super) whose: Whose,
}

/// A link whose first messages have been read already.
struct Held {
    io: Box<dyn Transport>,
    held: VecDeque<Inbound>,
}

impl Opening {
    pub(super) fn new(link: Link, limits: &std::sync::Arc<Limits>) -> Self {
        let mut io = link.into_io();
        io.configure(limits);
        let mut role =
            ServerRole::new(Implementation::new("", ""), mcpjoin_proto::types::ServerCapabilities::default());
        role.relays = true;
        let mut session = Session::new(Role::Server(role.into()), io.caps(), limits.clone());
        session.open(Time::ZERO);
        Self {
            io,
            held: VecDeque::new(),
            held_bytes: 0,
            most_bytes: limits.waiting,
            session,
            began: Instant::now(),
            left: None,
            drain: limits.drain,
        }
    }

    pub(super) fn caps(&self) -> LinkCaps {
        self.io.caps()
    }

    /// Whether somebody listens to what belongs to no request, where that is told of it alone.
    pub(super) fn heard(&self) -> Option<Heard> {
        self.io.heard()
    }

    /// Waits for the first request that says what the client is.
    pub(super) async fn first(&mut self) -> Result<First, CloseCause> {
        poll_fn(|cx| self.poll_first(cx)).await
    }

    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Result<First, CloseCause>> {
        loop {
            self.send();
            let flushed = self.io.poll_flush(cx);
            if !self.io.has_room() {
                // Who reads no answers is not read.
                let Poll::Ready(Err(end)) = flushed else { return Poll::Pending };
                return Poll::Ready(Err(CloseCause::Link(end)));
            }
            let Poll::Ready(inbound) = self.io.poll_inbound(cx) else { return Poll::Pending };
            let first = match &inbound {
                Inbound::Message { message: Message::Request(request), origin } => {
                    First::of(request, Whose::of(origin))
                }
                Inbound::Closed { cause } => return Poll::Ready(Err(CloseCause::Link(cause.clone()))),
                _ => None,
            };
            match first {
                Some(first) => {
                    self.hold(inbound);
                    return Poll::Ready(Ok(first));
                }
                None => self.session.handle(Time::from_epoch(self.began.elapsed()), inbound),
            }
        }
    }

    /// Hands what the session has to say to the link.
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

    fn hold(&mut self, inbound: Inbound) {
        self.held_bytes += inbound.payload_len();
        self.held.push_back(inbound);
    }

    /// Waits for a server while what the client says is held. `Err`: the client has left, and waits for nothing. One that
    /// has closed its side in order waits as long as a server that ends would take to finish.
    pub(super) async fn waiting<T>(&mut self, start: impl Future<Output = T>) -> Result<T, LinkEnd> {
        let mut start = pin!(start);
        let mut patience: Option<Pin<Box<tokio::time::Sleep>>> = None;
        poll_fn(|cx| {
            if let Poll::Ready(started) = start.as_mut().poll(cx) {
                return Poll::Ready(Ok(started));
            }
            let _ = self.io.poll_flush(cx);
            while self.left.is_none() && self.held.len() < HELD && self.held_bytes < self.most_bytes {
                let Poll::Ready(inbound) = self.io.poll_inbound(cx) else { break };
                if let Inbound::Closed { cause } = &inbound {
                    self.left = Some(cause.clone());
                }
                self.hold(inbound);
            }
            let Some(end) = &self.left else { return Poll::Pending };
            if !end.kind.is_closed() || self.io.caps().exchanges {
                return Poll::Ready(Err(end.clone()));
            }
            let patience = patience.get_or_insert_with(|| Box::pin(sleep(self.drain)));
            patience.as_mut().poll(cx).map(|()| Err(end.clone()))
        })
        .await
    }

    /// The link, for the connection.
    pub(super) fn into_link(self) -> Link {
        Link::new(Held { io: self.io, held: self.held })
    }

    /// Answers the first request with an error, and closes the link.
    pub(super) async fn refuse(mut self, id: &RequestId, error: ErrorObject, farewell: std::time::Duration) {
        let response = Response { id: Some(id.clone()), outcome: Err(error) };
        self.io.push(Outbound::Message {
            message: Message::Response(response),
            route: Route::ReplyTo(id.clone()),
        });
        let _ = timeout(farewell, poll_fn(|cx| self.io.poll_flush(cx))).await;
        self.close(farewell).await;
    }

    /// Closes the link.
    pub(super) async fn close(mut self, farewell: std::time::Duration) {
        let _ = timeout(farewell, poll_fn(|cx| self.io.poll_close(cx))).await;
    }
}

impl First {
    /// What a request says of its sender, if it says what a server has to know.
    fn of(request: &Request, whose: Whose) -> Option<Self> {
        let params = request.params.as_ref()?;
        let wanted = match request.method {
            Method::Initialize => legacy(params.raw())?,
            _ => modern(params)?,
        };
        Some(Self { id: request.id.clone(), wanted, whose })
    }
}

fn legacy(params: &Raw) -> Option<Wanted> {
    let version: Version = params.member("protocolVersion")?.decode().ok()?;
    let capabilities: Option<ClientCapabilities> =
        params.member("capabilities").map(|raw| raw.decode()).transpose().ok()?;
    let info: Option<Implementation> =
        params.member("clientInfo").map(|raw| raw.decode()).transpose().ok()?;
    let mut presents = Presents::default();
    presents.initialize = Some(params.clone());
    presents.capabilities = params.member("capabilities");
    presents.info = params.member("clientInfo");
    Some(Wanted {
        initializes: true,
        version: Some(version),
        capabilities: capabilities.unwrap_or_default(),
        info: info.unwrap_or_else(unnamed),
        presents,
    })
}

/// What the `_meta` of a modern request says of its sender.
pub(super) fn modern(params: &Payload) -> Option<Wanted> {
    let meta = params.meta()?;
    let version: Version = meta.member(key::PROTOCOL_VERSION)?.decode().ok()?;
    Profile::of(&version).filter(|profile| !profile.initialize)?;
    let raw = meta.member(key::CLIENT_CAPABILITIES)?;
    let capabilities: ClientCapabilities = raw.decode().ok()?;
    let named = meta.member(key::CLIENT_INFO);
    let info = named.as_ref().and_then(|info| info.decode().ok());
    let mut presents = Presents::default();
    presents.info = named.filter(|_| info.is_some());
    let info = info.unwrap_or_else(unnamed);
    // To a legacy server it says the same, with what it must say there.
    let said = presents.info.clone().or_else(|| Raw::from_value(&info).ok())?;
    let newest = Version::newest(Era::Legacy);
    let initialize = format!(r#"{{"protocolVersion":"{newest}","capabilities":{raw},"clientInfo":{said}}}"#);
    presents.initialize = Raw::parse(initialize).ok();
    presents.capabilities = Some(raw);
    Some(Wanted { initializes: false, version: None, capabilities, info, presents })
}

/// A client that does not say who it is, where a server must be told.
fn unnamed() -> Implementation {
    Implementation::new("unknown", "unknown")
}

impl TransportLayer for Held {
    fn io(&self) -> &dyn Transport {
        &*self.io
    }

    fn io_mut(&mut self) -> &mut dyn Transport {
        &mut *self.io
    }

    /// Done before its first messages were read.
    fn configure(&mut self, _: &Limits) {}

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        match self.held.pop_front() {
            Some(inbound) => Poll::Ready(inbound),
            None => self.io.poll_inbound(cx),
        }
    }
}
