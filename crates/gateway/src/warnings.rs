//! Warnings to the operator about a target or a client that misbehaves.
//!
//! Each kind of problem of a target is logged once a minute at most ([`WarningRate`]). Used through `Settings::warn`
//! wherever the gateway bounds what a server does, and where a client is disconnected. Clients never receive these texts.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use mcpjoin_proto::Message;
use mcpjoin_proto::session::{CloseCause, Inbound, Violation};
use mcpjoin_proto::text::Line;
use tokio::time::Instant;

use super::end::GatewayEnd;
use super::settings::Settings;
use mcpjoin::internal::{TransportLayer, WarningRate};
use mcpjoin::transport::{Link, Transport};

/// Characters of a warning: a server may have chosen a part of it.
const MAX_WARNING_CHARS: usize = 300;
/// Notifications of one connection within [`FLOOD_PERIOD`] that count as a flood. The gateway forwards more; a program
/// that has something to say rarely sends a tenth of it.
const FLOOD: u32 = 1000;
/// The time in which notifications are counted.
const FLOOD_PERIOD: Duration = Duration::from_secs(1);

/// A kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Problem {
    /// A connection that sends notifications without end.
    Flood,
    /// A response that belongs to no request.
    WrongResponse,
    /// A call without an answer.
    Unanswered,
    /// A list that is sent without this target, because it took too long.
    SlowList,
    /// A list that has a name of another target.
    Collision,
    /// A list that has a name more than once.
    RepeatedName,
    /// A list that is longer than what is offered of it.
    LongList,
    /// A client that does not read.
    StalledClient,
}

/// The warnings about one target or its clients.
#[derive(Debug, Default)]
pub(super) struct Warnings(WarningRate<Problem>);

impl Warnings {
    /// Logs a warning about this target, unless there was one of its kind just now.
    pub(super) fn warn(&self, target: &str, problem: Problem, text: fmt::Arguments<'_>) {
        let Some(left_out) = self.0.due(problem) else { return };
        let text = text.to_string();
        let text = Line::of(&text).truncated(MAX_WARNING_CHARS);
        match left_out {
            0 => tracing::warn!(target: "mcpjoin", server = target, "{text}"),
            left_out => tracing::warn!(target: "mcpjoin", server = target, left_out, "{text}"),
        }
    }

    /// Logs that a client was disconnected because it does not read, unless another one was just now.
    pub(super) fn warn_of_client(&self, client: &str, end: &GatewayEnd) {
        let GatewayEnd::Client(cause @ CloseCause::Stalled { .. }) = end else { return };
        let Some(left_out) = self.0.due(Problem::StalledClient) else { return };
        let client = Line::of(client).truncated(MAX_WARNING_CHARS);
        match left_out {
            0 => tracing::warn!(target: "mcpjoin", %client, "a client was disconnected: {cause}"),
            left_out => {
                tracing::warn!(target: "mcpjoin", %client, left_out, "a client was disconnected: {cause}");
            }
        }
    }
}

/// Logs a violation that may be an attempt to answer the request of another client.
pub(super) fn wrong_response(settings: &Settings, violation: &Violation) {
    if matches!(violation, Violation::UnknownResponse { .. } | Violation::LateResponse { .. }) {
        settings.warn(Problem::WrongResponse, format_args!("a server has sent {violation}; it was dropped"));
    }
}

/// Watches the link to a server for floods.
pub(super) fn watched(link: Link, settings: Arc<Settings>) -> Link {
    Link::new(Watched { io: link.into_transport(), settings, began: Instant::now(), notifications: 0 })
}

/// A link whose notifications are counted.
struct Watched {
    io: Box<dyn Transport>,
    settings: Arc<Settings>,
    /// Since when they are counted.
    began: Instant,
    notifications: u32,
}

impl Watched {
    fn count(&mut self) {
        self.notifications += 1;
        if self.notifications < FLOOD {
            return;
        }
        let now = Instant::now();
        if now.duration_since(self.began) <= FLOOD_PERIOD {
            self.settings.warn(
                Problem::Flood,
                format_args!("a server sends more than {FLOOD} notifications in a second"),
            );
        }
        (self.began, self.notifications) = (now, 0);
    }
}

impl TransportLayer for Watched {
    fn io(&self) -> &dyn Transport {
        &*self.io
    }

    fn io_mut(&mut self) -> &mut dyn Transport {
        &mut *self.io
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        let inbound = self.io.poll_inbound(cx);
        match &inbound {
            Poll::Ready(Inbound::Message { message: Message::Notification(_), .. }) => self.count(),
            Poll::Ready(Inbound::Batch { parts, .. }) => {
                let is_notification =
                    |part: &&Result<Message, _>| matches!(part, Ok(Message::Notification(_)));
                parts.iter().filter(is_notification).for_each(|_| self.count());
            }
            _ => {}
        }
        inbound
    }
}
