//! What is done to a server under stress: much at once, connections that are lost on purpose, streams that are cut.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mcpjoin_proto::codec::sse::{SseDecoder, SseEvent};
use mcpjoin_proto::{Message, RequestId};
use mcpjoin_rules::{BodyEnd, Line, Probe, StreamEvent, What};
use tokio::time::{Instant, timeout, timeout_at};

use super::super::wire::{self, Head};
use super::pace::{Pace, Pieces};
use super::reading::Stream;
use super::{LATE, Live, PATIENCE, Reply, asked};
use mcpjoin::link::Way;

/// When we leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Leave {
    /// In the middle of the request.
    Half,
    /// When the request has been taken.
    Asked,
    /// When the head of the response has come.
    Answered,
}

impl<'w> Live<'w> {
    /// Another connection of the same session: what it does is part of this run when it [is back](Self::together).
    fn fork(&self, pace: Pace) -> Self {
        let channel = self.run.channel;
        let of = (self.answer, self.limit);
        let mut fork = Self::new(self.wire, &self.run.name, self.run.version.clone(), channel, of);
        fork.manner = self.manner.clone();
        fork.started = self.started;
        fork.session.clone_from(&self.session);
        fork.endpoint.clone_from(&self.endpoint);
        fork.agreed.clone_from(&self.agreed);
        fork.pace = pace;
        // All of them together bring no more than one alone may.
        fork.amount = Arc::clone(&self.amount);
        fork
    }

    /// Asks all of it at the same time, each over a connection of its own, and waits for what it brings: there, or on the
    /// stream of the session, which is read at the pace of this run.
    pub(in super::super) async fn together(&mut self, probe: Probe, lines: &[(String, Pace)]) {
        if self.over {
            return;
        }
        let mut forks: Vec<Self> = lines.iter().map(|(_, pace)| self.fork(pace.clone())).collect();
        let asking = forks.iter_mut().zip(lines).map(|(fork, (line, _))| async move {
            fork.ask(probe, line).await;
        });
        let asking = join_all(asking);
        match self.stream.take_if(|_| self.endpoint.is_some()) {
            Some(stream) => {
                let waiting = lines.iter().flat_map(|(line, _)| asked(&Line::new(line.clone()), false));
                // Who takes no message while its answers are not read would wait for us, and we for it.
                tokio::join!(asking, self.answers(stream, waiting.collect()));
            }
            None => drop(asking.await),
        }
        let full = self.amount.is_full();
        for fork in forks {
            let first = self.next_exchange;
            self.next_exchange += fork.next_exchange;
            self.silences += fork.silences;
            self.over |= fork.over || self.silences >= PATIENCE;
            if full && fork.over {
                // We have stopped reading: that there is no answer says nothing of the server.
                continue;
            }
            self.run.events.extend(fork.run.events.into_iter().map(|mut event| {
                event.exchange = event.exchange.map(|number| number + first);
                event
            }));
        }
        self.run.events.sort_by_key(|event| event.at);
    }

    /// Reads the stream of a session until all of that is answered.
    async fn answers(&mut self, mut stream: Stream, mut waiting: Vec<RequestId>) {
        let deadline = Instant::now() + self.answer + self.pace.longest() + LATE;
        match self.pump(&mut stream, &mut waiting, deadline, false).await {
            super::Stopped::Ended(end) => {
                self.note(stream.number, What::BodyEnded(end));
                self.over = true;
                return;
            }
            super::Stopped::TimedOut => self.silent(),
            super::Stopped::Answered => {}
        }
        self.stream = Some(stream);
    }

    /// Leaves the session: its stream is closed, whatever is still to come on it.
    pub(in super::super) fn leave_stream(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.note(stream.number, What::BodyEnded(BodyEnd::Left));
        }
    }

    /// Asks, and leaves: the connection is closed.
    pub(in super::super) async fn leave(&mut self, probe: Probe, line: &str, when: Leave) {
        if self.over {
            return;
        }
        self.next_exchange += 1;
        let number = self.next_exchange;
        let head = self.post(line);
        self.note(number, What::Requested(probe, head.noted()));
        let length = if when == Leave::Half { line.len() / 2 } else { line.len() };
        if when != Leave::Half {
            self.wire.crossed(Way::Out, line.as_bytes());
            self.note(number, What::Sent(probe, Line::new(line.to_owned())));
        }
        let (body, taken) = Pieces::begun(line, length);
        let sending = self.wire.send(&head, Some(body));
        let left = async {
            // Taken or not sent at all: then there is nothing to leave.
            let _ = taken.await;
            if when == Leave::Answered {
                std::future::pending::<()>().await;
            }
        };
        let response = timeout(self.answer, async {
            tokio::select! {
                biased;
                response = sending => response.ok(),
                () = left => None,
            }
        });
        if let Ok(Some(response)) = response.await {
            self.note(number, What::Responded(wire::noted(&response)));
        }
        self.note(number, What::BodyEnded(BodyEnd::Left));
    }

    /// Asks, and cuts the stream of the answer behind the first event that has an id, before the answer: the id, and
    /// that of the request. `None` when there was no such event.
    pub(in super::super) async fn cut(&mut self, probe: Probe, line: &str) -> Option<(String, RequestId)> {
        if self.over {
            return None;
        }
        self.next_exchange += 1;
        let number = self.next_exchange;
        let head = self.post(line);
        let sent = Line::new(line.to_owned());
        let request = asked(&sent, false).first()?.clone();
        self.wire.crossed(Way::Out, line.as_bytes());
        self.note(number, What::Requested(probe, head.noted()));
        self.note(number, What::Sent(probe, sent));
        let deadline = Instant::now() + self.answer;
        let body = Pace::default().body(line);
        let mut event = None;
        if let Ok(Ok(mut response)) = timeout_at(deadline, self.wire.send(&head, Some(body))).await {
            self.note(number, What::Responded(wire::noted(&response)));
            let mut decoder = SseDecoder::new(self.limit);
            'cut: while let Ok(Ok(Some(piece))) = timeout_at(deadline, response.chunk()).await {
                decoder.push(piece);
                while let Some(came) = decoder.poll_event() {
                    event = named(came, &request);
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

    /// Asks for the rest of a stream, until the response to that request comes.
    pub(in super::super) async fn resume(&mut self, probe: Probe, head: Head, request: RequestId) -> Reply {
        self.next_exchange += 1;
        let number = self.next_exchange;
        self.note(number, What::Requested(probe, head.noted()));
        let deadline = Instant::now() + self.answer + Duration::from_secs(2);
        let response = match timeout_at(deadline, self.wire.send(&head, None)).await {
            Ok(Ok(response)) => response,
            Ok(Err(silence)) => return self.failed(number, silence.problem),
            Err(_) => return self.failed(number, "nothing came".into()),
        };
        self.note(number, What::Responded(wire::noted(&response)));
        let mut stream = Stream { number, response, decoder: SseDecoder::new(self.limit) };
        let stopped = self.pump(&mut stream, &mut vec![request], deadline, false).await;
        let end = match stopped {
            super::Stopped::Ended(end) => end,
            super::Stopped::Answered | super::Stopped::TimedOut => BodyEnd::Left,
        };
        self.note(number, What::BodyEnded(end));
        Reply::nothing(String::new())
    }
}

/// The event, where it has an id and is not the answer; `Some(None)` where the next one may be it.
fn named(came: SseEvent, request: &RequestId) -> Option<Option<StreamEvent>> {
    let event = match came {
        SseEvent::Event(event) => event,
        SseEvent::Id(id) => return Some(Some(StreamEvent { id: Some(id), ..StreamEvent::default() })),
        SseEvent::Comment | SseEvent::Retry(_) => return Some(None),
        _ => return None,
    };
    let line = Line::new(event.data.clone());
    let answers = line
        .parts()
        .any(|part| matches!(part, Ok(Message::Response(response)) if response.id.as_ref() == Some(request)));
    if answers {
        return None;
    }
    let named = event.id.as_ref().is_some_and(|id| !id.is_empty());
    Some(named.then(|| StreamEvent { name: event.name, id: event.id, data: event.data, retry: None }))
}
