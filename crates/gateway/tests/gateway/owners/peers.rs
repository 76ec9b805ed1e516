//! The peers of a schedule: clients that send and record text, and servers that answer the opening of a connection and
//! leave everything else to the schedule.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use mcpjoin::Link;
use mcpjoin::proto::session::{EraChoice, Inbound, Origin, Outbound, TransportCaps};
use mcpjoin::proto::{Era, RequestId, decode, encode};
use mcpjoin::transport::ChannelDriver;
use mcpjoin_gateway::{Gateway, GatewayBuilder};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Raw;

/// A message that a peer has received.
pub(super) enum Event {
    Client(usize, String),
    Server(usize, Value, String),
}

/// An action of a client.
pub(super) enum Said {
    Text(String),
    /// It leaves the exchange of a request.
    Leaves(i64),
}

/// How a client reaches the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Over a connection of its own.
    Stream,
    /// Over HTTP, from an address, perhaps with a principal.
    Http { address: &'static str, principal: Option<&'static str> },
}

/// Connects a client that sends what comes through the channel.
pub(super) fn client(
    gateway: &Gateway,
    number: usize,
    way: Way,
    events: UnboundedSender<Event>,
) -> UnboundedSender<Said> {
    let (says, said) = unbounded_channel();
    let gateway = gateway.clone();
    match way {
        Way::Stream => {
            let (link, raw) = Raw::pair_of(16 * 1024);
            tokio::spawn(async move { gateway.serve(link).await });
            tokio::spawn(on_stream(number, raw, said, events));
        }
        Way::Http { address, principal } => {
            let (link, driver) = Link::channel(TransportCaps { exchanges: true, ..TransportCaps::default() });
            tokio::spawn(async move { gateway.serve(link).await });
            let peer = Some(format!("{address}:{}", 1000 + number).into());
            let origin = Origin { peer, principal: principal.map(Into::into), ..Origin::new("http") };
            tokio::spawn(in_exchanges(number, driver, Arc::new(origin), said, events));
        }
    }
    says
}

async fn on_stream(
    number: usize,
    mut raw: Raw,
    mut said: UnboundedReceiver<Said>,
    events: UnboundedSender<Event>,
) {
    loop {
        tokio::select! {
            text = raw.receive() => match text {
                Some(text) => drop(events.send(Event::Client(number, text))),
                None => return,
            },
            said = said.recv() => match said {
                Some(Said::Text(text)) => raw.say(&text).await,
                Some(Said::Leaves(id)) => raw.say(&cancelled(&json!(id))).await,
                None => return,
            },
        }
    }
}

pub(super) fn cancelled(id: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
        .to_string()
}

async fn in_exchanges(
    number: usize,
    mut driver: ChannelDriver,
    origin: Arc<Origin>,
    mut said: UnboundedReceiver<Said>,
    events: UnboundedSender<Event>,
) {
    loop {
        tokio::select! {
            outbound = driver.recv() => match outbound {
                Some(Outbound::Message { message, .. }) => {
                    let mut text = BytesMut::new();
                    encode::message(&message, &mut text);
                    drop(events.send(Event::Client(number, String::from_utf8(text.to_vec()).unwrap())));
                }
                Some(_) => {}
                None => return,
            },
            said = said.recv() => {
                let inbound = match said {
                    Some(Said::Text(text)) => match decode::decode(&Bytes::from(text), &Default::default()) {
                        Ok(decode::Decoded::Message(message)) => Inbound::Message { message, origin: origin.clone() },
                        _ => panic!("a client of the schedule says no message"),
                    },
                    Some(Said::Leaves(id)) => Inbound::Detached { id: RequestId::from(id) },
                    None => return,
                };
                if driver.send(inbound).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// A gateway in front of servers of one era, with the senders of the lines that they send.
pub(super) struct Farm {
    pub(super) gateway: Gateway,
    says: Arc<std::sync::Mutex<Vec<UnboundedSender<String>>>>,
}

impl Farm {
    pub(super) fn new(
        era: Era,
        events: UnboundedSender<Event>,
        build: impl FnOnce(GatewayBuilder) -> GatewayBuilder,
    ) -> Self {
        let says = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (all, count) = (says.clone(), AtomicUsize::new(0));
        let builder = Gateway::builder(move || {
            let (link, raw) = Raw::pair_of(16 * 1024);
            let (says, said) = unbounded_channel();
            all.lock().unwrap().push(says);
            let number = count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(server(era, number, raw, said, events.clone()));
            std::future::ready(Ok::<_, std::io::Error>(link))
        });
        Self { gateway: build(builder.era(EraChoice::Only(era))).build(), says }
    }

    pub(super) fn say(&self, server: usize, text: String) {
        // The server may have ended.
        drop(self.says.lock().unwrap()[server].send(text));
    }
}

async fn server(
    era: Era,
    number: usize,
    mut raw: Raw,
    mut said: UnboundedReceiver<String>,
    events: UnboundedSender<Event>,
) {
    let capabilities = json!({
        "tools": { "listChanged": true }, "prompts": {}, "completions": {}, "logging": {},
        "resources": { "subscribe": true, "listChanged": true },
    });
    let info = json!({ "name": "s", "version": "1" });
    loop {
        let line = tokio::select! {
            line = raw.receive() => match line {
                Some(line) => line,
                None => return,
            },
            said = said.recv() => match said {
                Some(said) => { raw.say(&said).await; continue; }
                None => return,
            },
        };
        let received: Value = serde_json::from_str(&line).unwrap();
        let result = match received["method"].as_str() {
            Some("initialize") if era == Era::Legacy => {
                json!({ "protocolVersion": "2025-11-25", "serverInfo": info, "capabilities": capabilities })
            }
            Some("server/discover") if era == Era::Modern => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                "ttlMs": 1000, "cacheScope": "public",
                "_meta": { "io.modelcontextprotocol/serverInfo": info },
            }),
            Some("subscriptions/listen") if era == Era::Modern => {
                let tag = json!({ "io.modelcontextprotocol/subscriptionId": received["id"] });
                let params = json!({ "notifications": received["params"]["notifications"], "_meta": tag });
                let method = "notifications/subscriptions/acknowledged";
                raw.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()).await;
                drop(events.send(Event::Server(number, received, line)));
                continue;
            }
            Some("notifications/initialized") => continue,
            Some("logging/setLevel" | "resources/unsubscribe" | "ping") => json!({}),
            Some("resources/subscribe") => {
                drop(events.send(Event::Server(number, received.clone(), line)));
                json!({})
            }
            _ => {
                drop(events.send(Event::Server(number, received, line)));
                continue;
            }
        };
        raw.say(&json!({ "jsonrpc": "2.0", "id": received["id"], "result": result }).to_string()).await;
    }
}
