//! The sessions of the legacy era in recorded HTTP exchanges: the messages of each, and whether the client ended it.
//!
//! Used by [`crate::overheard`], for sessions of foreign clients, and by [`crate::listening`], for ours.

use crate::client::Way;
use crate::exchange::{Answer, Exchange};
use crate::witness::Wire;

pub(crate) const SESSION: &str = "mcp-session-id";

/// One session, from beginning to end.
pub(crate) struct Session {
    /// Its identifier: with HTTP+SSE, the endpoint to which its messages are sent.
    pub(crate) id: String,
    pub(crate) wire: Wire,
    /// Whether the client has ended it in the specified way.
    pub(crate) ended: bool,
}

impl Session {
    /// All sessions, in the order in which they were opened.
    pub(crate) fn all(exchanges: &[Exchange], way: Way) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for exchange in exchanges {
            let answer = exchange.answer.as_ref();
            let (opened, named) = match way {
                Way::Sse => {
                    let events = answer.map(Answer::events).unwrap_or_default();
                    let endpoint = events.into_iter().find(|(name, _)| name == "endpoint");
                    (endpoint.map(|(_, path)| path), Some(exchange.path.as_str()))
                }
                _ if asks(exchange, "initialize") => {
                    (answer.and_then(|answer| answer.header(SESSION)).map(str::to_owned), None)
                }
                _ => (None, exchange.header(SESSION)),
            };
            if let Some(id) = &opened {
                let wire = Wire { asked: Vec::new(), answered: Vec::new() };
                all.push(Self { id: id.clone(), wire, ended: false });
            }
            let id = opened.as_deref().or(named);
            let Some(session) = all.iter_mut().find(|session| Some(session.id.as_str()) == id) else {
                continue;
            };
            session.wire.asked.extend(exchange.asked());
            let Some(answer) = answer else { continue };
            session.wire.answered.extend(answer.messages());
            session.ended |= match way {
                Way::Sse => exchange.method == "GET" && exchange.left,
                _ => exchange.method == "DELETE" && (200..300).contains(&answer.status),
            };
        }
        all
    }
}

/// Whether one of the messages in its body has this method.
pub(crate) fn asks(exchange: &Exchange, method: &str) -> bool {
    exchange.asked().iter().any(|message| message["method"] == method)
}
