//! Subscriptions: streams of change notifications.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Method, Notification, RequestId};

use crate::http::modern::notifications;
use crate::json::{is_true, member, param};
use crate::rule::{Evidence, Finding, Outcome};
use crate::server_view::{OurRequest, ServerView};
use crate::trace::{Line, Probe};

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "listen-acknowledged", [MODERN Must "basic/patterns/subscriptions#acknowledgment"],
        "The first message on a subscription stream acknowledges it, and each message has the id of the \
         request.",
        |view| listening(view, acknowledged);
    "listen-filtered", [MODERN Must "basic/patterns/subscriptions#opening-a-stream"],
        "A subscription stream acknowledges and sends only notifications that were requested.",
        |view| listening(view, filtered);
}

/// The kinds of changes that a client may subscribe to, and their notifications.
const KINDS: [(&str, Method); 3] = [
    ("toolsListChanged", Method::ToolListChanged),
    ("promptsListChanged", Method::PromptListChanged),
    ("resourcesListChanged", Method::ResourceListChanged),
];

/// An open stream with its notifications.
struct Stream<'s, 'a> {
    view: &'s ServerView<'a>,
    request: &'s OurRequest<'a>,
    notifications: Vec<(&'a Line, &'a Notification)>,
}

impl Stream<'_, '_> {
    fn finding(&self, problem: String, line: Option<&Line>) -> Finding {
        match (self.view.exchange_of(self.request), line) {
            (Some(exchange), Some(line)) => exchange.finding_in(problem, line),
            (Some(exchange), None) => exchange.finding(problem),
            (None, line) => Finding::new(problem, Some(self.request.line.bytes()), line.map(Line::bytes)),
        }
    }
}

/// Checks each open stream of changes.
fn listening(view: &ServerView<'_>, check: impl Fn(&Stream<'_, '_>) -> Option<Finding>) -> Outcome {
    let opened = view.probed(Probe::Listen).filter_map(|request| {
        if request.responses.iter().any(|response| matches!(response.outcome, Some(Err(_)))) {
            return None;
        }
        let notifications = if view.run.is_http() {
            notifications(view.exchange_of(request).filter(|exchange| exchange.is_stream())?).collect()
        } else {
            // Over stdio, notifications of changes belong to the stream, and others do not.
            let is_change = |method: &Method| {
                matches!(method, Method::SubscriptionsAcknowledged | Method::ResourceUpdated)
                    || KINDS.iter().any(|(_, kind)| kind == method)
            };
            let later = view.notifications.iter().filter(|it| it.place > request.place);
            later.filter(|it| is_change(&it.what.method)).map(|it| (it.line, it.what)).collect()
        };
        Some(Stream { view, request, notifications })
    });
    Outcome::of(opened.map(|stream| check(&stream)), "no subscription stream was opened")
}

fn acknowledged(stream: &Stream<'_, '_>) -> Option<Finding> {
    let id = stream.request.id?;
    let Some((line, first)) = stream.notifications.first() else {
        return Some(stream.finding("the stream had no messages".into(), None));
    };
    if first.method != Method::SubscriptionsAcknowledged {
        return Some(stream.finding(format!("{} came first", first.method), Some(line)));
    }
    let subscription = |notification: &Notification| {
        member(&param(&notification.params, "_meta")?, key::SUBSCRIPTION_ID)?.decode::<RequestId>().ok()
    };
    let (line, other) = stream
        .notifications
        .iter()
        .find(|(_, notification)| subscription(notification).as_ref() != Some(id))?;
    Some(stream.finding(format!("{} does not have the id {id}", other.method), Some(line)))
}

fn filtered(stream: &Stream<'_, '_>) -> Option<Finding> {
    let wanted = member(&stream.request.params()?, "notifications")?;
    stream.notifications.iter().find_map(|(line, notification)| {
        let unwanted = if notification.method == Method::SubscriptionsAcknowledged {
            let promised = param(&notification.params, "notifications")?;
            let (name, _) =
                KINDS.iter().find(|(name, _)| !is_true(&wanted, name) && is_true(&promised, name))?;
            name
        } else {
            let mut kinds = KINDS.iter();
            if kinds.any(|(name, method)| notification.method == *method && is_true(&wanted, name)) {
                return None;
            }
            notification.method.as_str()
        };
        Some(stream.finding(format!("{unwanted} was not requested"), Some(line)))
    })
}
