//! What is done to a server under stress: many requests at once, connections that are closed early, streams that are
//! cut. Called by `validate` for its runs under stress, and never by another examination.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mcpjoin_proto::codec::sse::{Event, SseDecoder, SseEvent};
use mcpjoin_proto::{Message, RequestId};
use mcpjoin_rules::{BodyEnd, Line, Probe, What};
use tokio::time::{Instant, timeout, timeout_at};

use super::super::session::{Session as _, request_ids};
use super::pace::{Pace, Pieces};
use super::read::Stream;
use super::target::{Head, recorded};
use super::{HttpSession, LATE_TIMEOUT};

/// How long the rest of a stream may take, beyond the time of a response.
const RESUME_TIMEOUT: Duration = Duration::from_secs(2);

/// When a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abort {
    /// In the middle of the request.
    InRequest,
    /// When the request is sent.
    Sent,
    /// When the head of the response is received.
    Answered,
}

impl HttpSession {
    /// Another connection of the same session. Its events become part of this run in [`together`](Self::together).
    fn fork(&self, pace: Pace) -> Self {
        Self {
            session_id: self.session_id.clone(),
            endpoint: self.endpoint.clone(),
            agreed: self.agreed.clone(),
            pace,
            ..Self::new(Arc::clone(&self.target), self.state.fork(), self.max_message)
        }
    }

    /// Sends all requests at the same time, each over a connection of its own, and awaits their responses: there, or on
    /// the stream of the session, which is read at the pace of this run.
    pub(crate) async fn together(&mut self, probe: Probe, lines: &[(String, Pace)]) {
        if self.over {
            return;
        }
        let mut forks: Vec<Self> = lines.iter().map(|(_, pace)| self.fork(pace.clone())).collect();
        let sending = join_all(forks.iter_mut().zip(lines).map(|(fork, (line, _))| async move {
            fork.post_message(probe, line).await;
        }));
        match self.stream.take_if(|_| self.endpoint.is_some()) {
            Some(stream) => {
                let waiting = lines.iter().flat_map(|(line, _)| request_ids(&Line::new(line.clone()), false));
                let waiting = waiting.collect();
                let deadline =
                    Instant::now() + self.state.response_timeout + self.pace.longest() + LATE_TIMEOUT;
                // A server that takes no request while its responses are not read would wait for us, and we for it.
                tokio::join!(sending, self.read_session_stream(stream, waiting, deadline));
            }
            None => drop(sending.await),
        }
        let full = self.state.traffic.is_full();
        for fork in forks {
            let first = self.exchanges;
            self.exchanges += fork.exchanges;
            self.state.timeouts += fork.state.timeouts;
            self.over |= fork.over || self.state.has_given_up();
            if full && fork.over {
                // We have stopped reading: a missing response says nothing about the server.
                continue;
            }
            self.state.run.events.extend(fork.state.run.events.into_iter().map(|mut event| {
                event.exchange = event.exchange.map(|number| number + first);
                event
            }));
        }
        self.state.run.events.sort_by_key(|event| event.at);
    }

    /// Closes the stream of the session, whatever is still to be received on it.
    pub(crate) fn abort_stream(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.note(stream.number, What::BodyEnded(BodyEnd::Left));
        }
    }

    /// Sends a request, and closes the connection early.
    pub(crate) async fn abort(&mut self, probe: Probe, line: &str, when: Abort) {
        if self.over {
            return;
        }
        let head = self.post(line);
        let sent = Line::new(line.to_owned());
        let (length, sent) = match when {
            Abort::InRequest => (line.len() / 2, None),
            Abort::Sent | Abort::Answered => (line.len(), Some(&sent)),
        };
        let number = self.begin(probe, &head, sent);
        let (body, taken) = Pieces::begun(line, length);
        let sending = self.target.send(&head, Some(body));
        let left = async {
            // An error: the request was not sent at all, and there is nothing to abort.
            let _ = taken.await;
            if when == Abort::Answered {
                std::future::pending::<()>().await;
            }
        };
        let response = timeout(self.state.response_timeout, async {
            tokio::select! {
                biased;
                response = sending => response.ok(),
                () = left => None,
            }
        });
        if let Ok(Some(response)) = response.await {
            self.note(number, What::Responded(recorded(&response)));
        }
        self.note(number, What::BodyEnded(BodyEnd::Left));
    }

    /// Sends a request, and closes the stream of its response behind the first event that has an id, before the
    /// response itself. Returns the id of that event and of the request; `None` when there was no such event.
    pub(crate) async fn cut(&mut self, probe: Probe, line: &str) -> Option<(String, RequestId)> {
        if self.over {
            return None;
        }
        let head = self.post(line);
        let sent = Line::new(line.to_owned());
        let request = request_ids(&sent, false).first()?.clone();
        let number = self.begin(probe, &head, Some(&sent));
        let deadline = Instant::now() + self.state.response_timeout;
        let body = Pace::default().body(line);
        let mut event = None;
        if let Ok(Ok(mut response)) = timeout_at(deadline, self.target.send(&head, Some(body))).await {
            self.note(number, What::Responded(recorded(&response)));
            let mut decoder = SseDecoder::new(self.max_message);
            'cut: while let Ok(Ok(Some(piece))) = timeout_at(deadline, response.chunk()).await {
                decoder.push(piece);
                while let Some(received) = decoder.poll_event() {
                    event = with_id(received, &request);
                    if !matches!(event, Some(None)) {
                        break 'cut;
                    }
                }
            }
        }
        let event = event.flatten();
        let id = event.as_ref().and_then(|event| event.id.as_ref());
        let id = id.and_then(|id| String::from_utf8(id.to_vec()).ok());
        if let (Some(event), Some(_)) = (event, &id) {
            self.note(number, What::Streamed(event));
        }
        self.note(number, What::BodyEnded(BodyEnd::Left));
        Some((id?, request))
    }

    /// Asks for the rest of a stream, until the response to `request` is received.
    pub(crate) async fn resume(&mut self, probe: Probe, head: Head, request: RequestId) {
        self.announce(probe);
        let deadline = Instant::now() + self.state.response_timeout + RESUME_TIMEOUT;
        let (number, response) = self.open_stream(probe, &head, deadline).await;
        let end = match response {
            Ok(response) => {
                let mut stream = Stream::new(number, response, self.max_message);
                self.pump(&mut stream, &mut vec![request], deadline, false).await.end()
            }
            Err(problem) => BodyEnd::Broken(problem.unwrap_or_else(|| "received nothing".into()).into()),
        };
        self.note(number, What::BodyEnded(end));
    }
}

/// The event, if it has an id and is not the response; `Some(None)` when the next event may be it.
fn with_id(event: SseEvent, request: &RequestId) -> Option<Option<Event>> {
    let event = match event {
        SseEvent::Event(event) => event,
        SseEvent::Id(id) => return Some(Some(Event { id: Some(id), ..Event::default() })),
        SseEvent::Comment | SseEvent::Retry(_) => return Some(None),
        _ => return None,
    };
    let line = Line::new(event.data.clone());
    let is_response = line
        .parts()
        .any(|part| matches!(part, Ok(Message::Response(response)) if response.id.as_ref() == Some(request)));
    if is_response {
        return None;
    }
    let has_id = event.id.as_ref().is_some_and(|id| !id.is_empty());
    Some(has_id.then_some(event))
}
