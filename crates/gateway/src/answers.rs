//! Questions of targets to a client whose session several processes serve.
//!
//! The answer may come to any of them. So the id of such a question says which target has asked, and under which id. (A modern target
//! asks in the result of a call, which waits in one process: then the id names the process, if the others can pass the answer to it.)
//! The process
//! that has sent the question gives the answer to its session; any other one sends it on to the target, in whose session the
//! question belongs. A client can make such an id itself: it then answers a question that its own session was not asked, which
//! the target ignores. Used by `pair`, which marks the questions, and by `legacy` and `joined::legacy`, whose links have the layer.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use mcpjoin::internal::TransportLayer;
use mcpjoin::transport::{Link, Replicas, Transport};
use mcpjoin_proto::session::{Inbound, Outbound};
use mcpjoin_proto::types::{CancelledParams, ProtocolType};
use mcpjoin_proto::{ErrorObject, Message, Method, Notification, Payload, Raw, Request, RequestId, Response};
use memchr::memmem;

/// How the id of a question begins that several processes can receive the answer to.
const PREFIX: &str = "mcpjoin-question";
/// How the id of a question begins whose answer only this process can use.
const HERE: &str = "mcpjoin-asked";
/// The member of `_meta` with that id, between `pair` and the layer. No client sees it.
const MARK: &str = "io.github.mcpjoin/question";
/// Bytes of such an id. The ids of known servers have at most 36.
const MAX_ID_BYTES: usize = 1024;

/// Sends the answer of a client to the target that has asked.
pub(super) trait Answers: Send + Sync {
    /// `id`: the target's own id of its question.
    fn answer(&self, target: &str, id: RequestId, outcome: Result<Payload, ErrorObject>);
}

/// Returns the parameters of a question with the mark that gives it the id for several processes. `None` if that id is too long.
pub(super) fn marked(target: &str, id: &RequestId, params: Option<Payload>) -> Option<Payload> {
    let id = format!("{PREFIX}{}", Raw::from_value(&(target, id)).ok()?);
    let params = params.unwrap_or_else(|| Payload::from_raw(Raw::empty_object()));
    (id.len() <= MAX_ID_BYTES).then(|| params.with_meta_member(MARK, &Raw::string(&id)))
}

/// Returns the parameters of a question with the mark that gives it an id for this process. The other processes pass its answer here,
/// where the call waits for it.
pub(super) fn marked_here(replicas: &Replicas, params: Option<Payload>) -> Payload {
    let params = params.unwrap_or_else(|| Payload::from_raw(Raw::empty_object()));
    // The mark is another one each time.
    params.with_meta_member(MARK, &Raw::string(&replicas.mark(HERE)))
}

/// Returns the target that has asked, and its own id of the question.
fn parse(id: &str) -> Option<(String, RequestId)> {
    let id = id.strip_prefix(PREFIX).filter(|_| id.len() <= MAX_ID_BYTES)?;
    Raw::parse(id.to_owned()).ok()?.decode().ok()
}

/// Returns the link of a client whose session several processes serve.
pub(super) fn layer(link: Link, answers: Arc<dyn Answers>) -> Link {
    Link::new(AnswerLayer { io: link.into_transport(), answers, open: HashMap::new() })
}

/// A link on which questions have ids for several processes.
struct AnswerLayer {
    io: Box<dyn Transport>,
    answers: Arc<dyn Answers>,
    /// The ids that the session uses for the open questions: at most as many as it has requests pending.
    open: HashMap<Box<str>, RequestId>,
}

impl AnswerLayer {
    fn question(&mut self, request: &mut Request) {
        let Some(params) = &request.params else { return };
        if memmem::find(params.raw().as_bytes(), MARK.as_bytes()).is_none() {
            return;
        }
        let mark = params.meta().and_then(|meta| meta.member(MARK));
        let Some(id) = mark.as_ref().and_then(Raw::to_string_value) else { return };
        request.params = Some(params.without_meta_members(|name| name == MARK));
        let own = std::mem::replace(&mut request.id, RequestId::from(&*id));
        self.open.insert((*id).into(), own);
    }

    fn cancellation(&mut self, notification: &mut Notification) {
        let Some(params) = notification.params.as_ref().filter(|_| !self.open.is_empty()) else { return };
        let own = CancelledParams::read(params.raw()).ok().and_then(|params| params.request_id);
        let open = self.open.iter().find(|(_, id)| own.as_ref() == Some(id)).map(|(id, _)| id.clone());
        if let Some(id) = open {
            notification.params = Some(params.with_member("requestId", &Raw::string(&id)));
            self.open.remove(&id);
        }
    }

    /// Returns whether the answer is for the session of this process, and gives it the id that the session uses.
    fn is_own(&mut self, response: &mut Response) -> bool {
        let Some(id) = response.id.as_ref().and_then(|id| id.as_str()) else { return true };
        if let Some(own) = self.open.remove(id) {
            response.id = Some(own);
            return true;
        }
        let Some((target, id)) = parse(id) else { return true };
        self.answers.answer(&target, id, response.outcome.clone());
        false
    }
}

impl TransportLayer for AnswerLayer {
    fn io(&self) -> &dyn Transport {
        &*self.io
    }

    fn io_mut(&mut self) -> &mut dyn Transport {
        &mut *self.io
    }

    fn push(&mut self, mut outbound: Outbound) {
        match &mut outbound {
            Outbound::Message { message: Message::Request(request), .. } => self.question(request),
            Outbound::Message { message: Message::Notification(notification), .. }
                if notification.method == Method::Cancelled =>
            {
                self.cancellation(notification);
            }
            _ => {}
        }
        self.io.push(outbound);
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        loop {
            let Poll::Ready(mut inbound) = self.io.poll_inbound(cx) else { return Poll::Pending };
            match &mut inbound {
                Inbound::Message { message: Message::Response(response), .. } => {
                    if self.is_own(response) {
                        return Poll::Ready(inbound);
                    }
                }
                Inbound::Batch { parts, .. } => {
                    parts.retain_mut(|part| match part {
                        Ok(Message::Response(response)) => self.is_own(response),
                        _ => true,
                    });
                    return Poll::Ready(inbound);
                }
                _ => return Poll::Ready(inbound),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_to_the_target_and_its_own_id_of_any_kind() {
        for own in [RequestId::from(7), RequestId::from("7"), RequestId::from("\"],/\u{e9}")] {
            let marked = marked("a/b", &own, None).expect("short");
            let id = marked.meta().and_then(|meta| meta.member(MARK)).expect("a mark");
            let id = id.to_string_value().expect("a string").into_owned();
            assert_eq!(parse(&id), Some(("a/b".to_owned(), own)));
            assert_eq!(marked.without_meta_members(|name| name == MARK).raw().as_str(), "{}");
        }
    }

    #[test]
    fn an_id_has_a_limit_in_bytes_and_others_are_none_of_ours() {
        let long = RequestId::from(&*"x".repeat(MAX_ID_BYTES));
        assert_eq!(marked("a", &long, None), None);
        for other in ["", "7", PREFIX, "mcpjoin-question[1,2]", "mcpjoin-question[\"a\"]", "mcpjoin-questio"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
        assert_eq!(parse(&format!("{PREFIX}[\"a\",\"{}\"]", "x".repeat(MAX_ID_BYTES))), None);
    }
}
