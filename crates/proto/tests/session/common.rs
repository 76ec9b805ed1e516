//! Support for the session tests: sessions in memory, and helpers that feed them and collect their output.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::session::{
    Call, CallError, ClientRole, EraChoice, Event, Inbound, Limits, Origin, Outbound, Reply, Role,
    ServerRole, Session, TransportCaps,
};
use mcpjoin_proto::types::Implementation;
use mcpjoin_proto::{Era, Method, Raw, RequestId, Time, Version, encode};

const CLIENT: &str = r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}"#;
const SERVER: &str = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}"#;

pub(crate) fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).unwrap()
}

pub(crate) fn at(seconds: u64) -> Time {
    Time::from_epoch(Duration::from_secs(seconds))
}

pub(crate) fn client(era: EraChoice, limits: Limits) -> Session {
    let mut role = ClientRole::new(Implementation::new("c", "1"), raw(CLIENT).decode().unwrap());
    role.era = era;
    Session::new(Role::Client(role.into()), TransportCaps::default(), limits)
}

pub(crate) fn client_of(version: &Version, limits: Limits) -> Session {
    let mut role = ClientRole::new(Implementation::new("c", "1"), raw(CLIENT).decode().unwrap());
    role.era = EraChoice::Only(version.era().unwrap());
    role.version = (version.era() == Some(Era::Legacy)).then(|| version.clone());
    Session::new(Role::Client(role.into()), TransportCaps::default(), limits)
}

pub(crate) fn server(limits: Limits) -> Session {
    server_over(TransportCaps::default(), limits)
}

fn server_over(caps: TransportCaps, limits: Limits) -> Session {
    let role = ServerRole::new(Implementation::new("s", "1"), raw(SERVER).decode().unwrap());
    Session::new(Role::Server(role.into()), caps, limits)
}

/// An open legacy server of this version; the test acts as the client.
pub(crate) fn opened_server(version: &str, limits: Limits) -> Session {
    opened_server_over(TransportCaps::default(), version, limits)
}

pub(crate) fn opened_server_over(caps: TransportCaps, version: &str, limits: Limits) -> Session {
    let mut server = server_over(caps, limits);
    server.open(Time::ZERO);
    say(
        &mut server,
        &format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{CLIENT},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
        ),
    );
    say(&mut server, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    sent(&mut server);
    events(&mut server);
    server
}

/// An open legacy client; the test acts as the server.
pub(crate) fn opened_client(limits: Limits) -> Session {
    let mut client = client(EraChoice::Only(Era::Legacy), limits);
    client.open(Time::ZERO);
    say(
        &mut client,
        &format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-11-25","capabilities":{SERVER},"serverInfo":{{"name":"s","version":"1"}}}}}}"#
        ),
    );
    sent(&mut client);
    events(&mut client);
    client
}

/// Passes bytes to a session.
pub(crate) fn say(session: &mut Session, text: &str) {
    say_at(session, Time::ZERO, &Bytes::from(text.to_owned()));
}

pub(crate) fn say_at(session: &mut Session, now: Time, line: &Bytes) {
    let origin = Arc::new(Origin::new("memory"));
    let inbound = match decode(line, &session.limits().decode.clone()) {
        Ok(Decoded::Message(message)) => Inbound::Message { message, origin },
        Ok(Decoded::Batch(parts)) => Inbound::Batch { parts, exchange: None, origin },
        Err(error) => Inbound::Malformed { error, excerpt: line.slice(..line.len().min(200)), origin },
    };
    session.handle(now, inbound);
}

/// Everything that a session sends now, as text.
pub(crate) fn sent(session: &mut Session) -> Vec<String> {
    std::iter::from_fn(|| session.poll_transmit()).map(|outbound| text(&outbound)).collect()
}

pub(crate) fn text(outbound: &Outbound) -> String {
    let mut line = BytesMut::new();
    match outbound {
        Outbound::Message { message, .. } => encode::message(message, &mut line),
        Outbound::Batch { messages, .. } => encode::batch(messages, &mut line),
        Outbound::Abort { id } | Outbound::CloseStream { id } => {
            panic!("an exchange {id} on a link that has none")
        }
    }
    String::from_utf8(line.to_vec()).unwrap()
}

pub(crate) fn events(session: &mut Session) -> Vec<Event> {
    std::iter::from_fn(|| session.poll_event()).collect()
}

/// The outcomes among the events of a session.
pub(crate) fn outcomes(session: &mut Session) -> Vec<(RequestId, Result<Reply, CallError>)> {
    events(session)
        .into_iter()
        .filter_map(|event| match event {
            Event::Outcome { id, outcome } => Some((id, outcome)),
            _ => None,
        })
        .collect()
}

pub(crate) fn violations(session: &mut Session) -> usize {
    events(session).iter().filter(|event| matches!(event, Event::Violation(_))).count()
}

pub(crate) fn call(session: &mut Session, method: Method) -> RequestId {
    session.call(Time::ZERO, &Call::new(method)).unwrap()
}

/// Two sessions of one version, joined by a link without delay.
pub(crate) struct Pair {
    pub(crate) client: Session,
    pub(crate) server: Session,
    pub(crate) now: Time,
}

impl Pair {
    pub(crate) fn new(version: &Version, client_limits: Limits, server_limits: Limits) -> Self {
        let mut pair = Self {
            client: client_of(version, client_limits),
            server: server(server_limits),
            now: Time::ZERO,
        };
        pair.client.open(pair.now);
        pair.server.open(pair.now);
        pair.exchange();
        events(&mut pair.client);
        events(&mut pair.server);
        pair
    }

    /// Delivers messages until none is left.
    pub(crate) fn exchange(&mut self) {
        let origin = Arc::new(Origin::new("memory"));
        let mut quiet = false;
        while !std::mem::replace(&mut quiet, true) {
            while let Some(outbound) = self.client.poll_transmit() {
                quiet = false;
                self.server.handle(self.now, arrives(outbound, &origin));
            }
            while let Some(outbound) = self.server.poll_transmit() {
                quiet = false;
                self.client.handle(self.now, arrives(outbound, &origin));
            }
        }
    }
}

/// The [`Inbound`] that the peer gets for an [`Outbound`].
pub(crate) fn arrives(outbound: Outbound, origin: &Arc<Origin>) -> Inbound {
    let origin = origin.clone();
    match outbound {
        Outbound::Message { message, .. } => Inbound::Message { message, origin },
        Outbound::Batch { messages, .. } => {
            Inbound::Batch { parts: messages.into_iter().map(Ok).collect(), exchange: None, origin }
        }
        Outbound::Abort { id } => Inbound::Detached { id },
        Outbound::CloseStream { id } => panic!("the stream of {id} is closed on a link that has none"),
    }
}

/// The requests among the events of a server.
pub(crate) fn requests(session: &mut Session) -> Vec<RequestId> {
    events(session)
        .into_iter()
        .filter_map(|event| match event {
            Event::Request { request, .. } => Some(request.id),
            _ => None,
        })
        .collect()
}
