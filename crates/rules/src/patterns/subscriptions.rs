//! Subscriptions: streams of change notifications.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Message, Method, Notification, RequestId};

use crate::json::member;
use crate::rule::{Finding, Outcome};
use crate::server_view::{OurRequest, ServerView};
use crate::trace::{Channel, Line, Probe};

const NONE_OPENED: &str = "no stream of changes was opened";

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "listen-acknowledged", [MODERN Must "basic/patterns/subscriptions#acknowledgment"],
        "The first message on a stream of changes acknowledges it, and each carries the id of the request that has \
         opened it.",
        |view| listening(view, acknowledged);
    "listen-filtered", [MODERN Must "basic/patterns/subscriptions#opening-a-stream"],
        "A stream of changes promises and brings nothing but what was asked for.",
        |view| listening(view, filtered);
}

/// The kinds of changes that can be asked for, and what tells of them.
const KINDS: [(&str, Method); 3] = [
    ("toolsListChanged", Method::ToolListChanged),
    ("promptsListChanged", Method::PromptListChanged),
    ("resourcesListChanged", Method::ResourceListChanged),
];

/// A stream that was opened, and what came on it.
struct Stream<'s, 'a> {
    view: &'s ServerView<'a>,
    request: &'s OurRequest<'a>,
    notifications: Vec<(&'a Line, &'a Notification)>,
}

impl Stream<'_, '_> {
    fn finding(&self, problem: impl Into<String>, line: Option<&Line>) -> Finding {
        match (self.view.exchange_of(self.request), line) {
            (Some(exchange), Some(line)) => exchange.finding_in(problem, line),
            (Some(exchange), None) => exchange.finding(problem),
            (None, line) => Finding::new(problem, Some(self.request.line.bytes()), line.map(Line::bytes)),
        }
    }
}

/// Looks at each stream of changes that was opened.
fn listening(view: &ServerView<'_>, look: impl Fn(&Stream<'_, '_>) -> Option<Finding>) -> Outcome {
    let opened = view.probed(Probe::Listen).filter_map(|request| {
        if request.responses.iter().any(|response| matches!(response.outcome, Some(Err(_)))) {
            return None;
        }
        let notifications = if view.run.channel == Channel::StreamableHttp {
            let exchange = view.exchange_of(request).filter(|exchange| exchange.is_stream())?;
            let parts =
                exchange.lines.iter().flat_map(|(line, _)| line.parts().map(move |part| (*line, part)));
            let notifications = parts.filter_map(|(line, part)| match part {
                // The end of a stream has a rule of its own.
                Ok(Message::Notification(notification)) if notification.method != Method::Cancelled => {
                    Some((line, notification))
                }
                _ => None,
            });
            notifications.collect()
        } else {
            // All share one channel: what tells of changes is of the stream, whatever else comes.
            let changes = |method: &Method| {
                matches!(method, Method::SubscriptionsAcknowledged | Method::ResourceUpdated)
                    || KINDS.iter().any(|(_, kind)| kind == method)
            };
            let notifications = view.notifications.iter().filter(|notification| {
                notification.place > request.place && changes(&notification.what.method)
            });
            notifications.map(|notification| (notification.line, notification.what)).collect()
        };
        Some(Stream { view, request, notifications })
    });
    Outcome::of(opened.map(|stream| look(&stream)), NONE_OPENED)
}

fn acknowledged(stream: &Stream<'_, '_>) -> Option<Finding> {
    let id = stream.request.id?;
    let Some((line, first)) = stream.notifications.first() else {
        return Some(stream.finding("nothing came on it", None));
    };
    if first.method != Method::SubscriptionsAcknowledged {
        return Some(stream.finding(format!("{} came first", first.method), Some(line)));
    }
    let tagged = |notification: &Notification| {
        let meta = notification.params.as_ref().and_then(|params| member(params.raw(), "_meta"))?;
        member(&meta, key::SUBSCRIPTION_ID)?.decode::<RequestId>().ok()
    };
    let (line, notification) =
        stream.notifications.iter().find(|(_, notification)| tagged(notification).as_ref() != Some(id))?;
    Some(stream.finding(format!("{} does not carry the id {id}", notification.method), Some(line)))
}

fn filtered(stream: &Stream<'_, '_>) -> Option<Finding> {
    let wanted = member(&stream.request.params()?, "notifications")?;
    let is_wanted = |name: &str| member(&wanted, name).is_some_and(|value| value.as_str() == "true");
    stream.notifications.iter().find_map(|(line, notification)| {
        if notification.method == Method::SubscriptionsAcknowledged {
            let promised = member(notification.params.as_ref()?.raw(), "notifications")?;
            let (name, _) = KINDS.iter().find(|(name, _)| {
                !is_wanted(name) && member(&promised, name).is_some_and(|value| value.as_str() == "true")
            })?;
            return Some(stream.finding(format!("{name} was not asked for"), Some(line)));
        }
        let wanted = KINDS.iter().any(|(name, method)| notification.method == *method && is_wanted(name));
        (!wanted).then(|| stream.finding(format!("{} was not asked for", notification.method), Some(line)))
    })
}
