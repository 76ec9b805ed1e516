//! A session over a link that carries lines: a child process, a socket, a stream of QUIC.
//!
//! Used by the runs of `validate` over lines. It responds to the requests of the server, and checks no rule.

use std::time::Duration;

use bytes::Bytes;
use mcpjoin::transport::{ChildHandle, Forced, Link};
use mcpjoin_proto::session::{Inbound, Limits, NegotiationFailure, TransportEnd};
use mcpjoin_proto::{DecodeError, Message, Method, RequestId, Version};
use mcpjoin_rules::{Ended, Line, Probe, Run, What};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::link::{LinkEvent, RecordedLink, recorded};
use super::message::{self, Question};
use super::session::{Outcome, RunState, Session, is_of_clients, request_ids, request_in, response_to};

/// How long a message is awaited that the server should not send.
const LOOK_TIME: Duration = Duration::from_millis(100);
/// How long responses that were not received in time are awaited at the end of a run: a late one is recorded as late.
const LATE_TIMEOUT: Duration = Duration::from_secs(2);
/// How much is kept of the first line that is no message.
const MAX_GARBAGE_BYTES: usize = 200;
/// How long requests wait after as many responses with unknown ids. Some servers answer notifications with an id of their own.
const UNKNOWN_ID_GRACE: Duration = Duration::from_secs(2);

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(crate) struct LineSession {
    link: RecordedLink,
    /// The process, where the server is our child.
    child: Option<ChildHandle>,
    state: RunState,
    /// A byte order mark precedes the next line.
    marked: bool,
    /// The last line was no message.
    malformed: bool,
    /// The requests that got no response in time.
    missed: Vec<RequestId>,
    /// The ids that were sent and are not counted ones: of invalid messages and the like.
    other_ids: Vec<RequestId>,
    /// The responses with ids that were never sent, since requests wait.
    misdirected: usize,
    /// The first line that was no message, as long as there was no message.
    garbage: Option<Bytes>,
    garbage_lines: usize,
    max_garbage_lines: usize,
    /// Whether a message was received.
    spoken: bool,
    /// The first request in flight, and its outcome so far.
    in_flight: Option<(RequestId, Outcome)>,
    stopped: Option<Stop>,
}

/// Why nothing more is sent.
#[derive(Clone, Debug)]
enum Stop {
    /// The server, or its output, has ended.
    Ended(TransportEnd),
    /// The server does not respond.
    Silent,
    /// Too much was received, or too many lines that are no messages before the first message.
    Flood,
}

/// How several requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Each line in a write of its own.
    Separate,
    /// The same, and nothing is read for this time.
    Unread(Duration),
    /// All lines in one write.
    Together,
    /// Each line in two writes: its end is sent later.
    Split,
}

impl LineSession {
    pub(crate) fn new(link: Link, child: Option<ChildHandle>, state: RunState, limits: &Limits) -> Self {
        Self {
            link: RecordedLink::new(link, limits),
            child,
            state,
            marked: false,
            malformed: false,
            missed: Vec::new(),
            other_ids: Vec::new(),
            misdirected: 0,
            garbage: None,
            garbage_lines: 0,
            max_garbage_lines: limits.opening_garbage,
            spoken: false,
            in_flight: None,
            stopped: None,
        }
    }

    /// Whether a request got no response in time.
    pub(crate) const fn has_missed(&self) -> bool {
        self.state.timeouts > 0
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.state.started.elapsed()
    }

    /// Sends a line, even when the session is over.
    pub(crate) fn send(&mut self, probe: Probe, line: &str) {
        self.link.send_line(line.as_bytes());
        self.record_sent(probe, line);
    }

    fn record_sent(&mut self, probe: Probe, line: &str) {
        let line = Line::new(line.to_owned());
        let ids = line.parts().filter_map(|part| match part {
            Ok(Message::Request(request)) => Some(&request.id),
            Ok(Message::Response(response)) => response.id.as_ref(),
            Ok(Message::Notification(_)) => None,
            Err(error) => error.id.as_ref(),
        });
        self.other_ids.extend(ids.filter(|id| !self.state.has_counted(id)).cloned());
        self.state.note(What::Sent(probe, line));
    }

    /// Sends lines and waits for the responses to all requests in them.
    pub(crate) async fn deliver(&mut self, probe: Probe, lines: &[String], how: Delivery) {
        let within = self.state.response_timeout;
        self.deliver_within(probe, lines, how, within).await;
    }

    async fn deliver_within(&mut self, probe: Probe, lines: &[String], how: Delivery, within: Duration) {
        if self.is_over() {
            return;
        }
        let mut first = self.state.run.events.len();
        match how {
            Delivery::Separate => lines.iter().for_each(|line| self.send(probe, line)),
            Delivery::Unread(pause) => {
                lines.iter().for_each(|line| self.send(probe, line));
                let until = Instant::now() + pause;
                self.link.flush(pause).await;
                sleep_until(until).await;
            }
            Delivery::Together => {
                self.link.send_line(lines.join("\n").as_bytes());
                lines.iter().for_each(|line| self.record_sent(probe, line));
            }
            Delivery::Split => {
                for line in lines {
                    // A server that does not wait for the end of the line has everything now.
                    self.link.send_bytes(line);
                    self.look().await;
                    if self.is_over() {
                        return;
                    }
                    first = self.state.run.events.len();
                    self.link.send_line(b"");
                    self.record_sent(probe, line);
                }
            }
        }
        let lines = lines.iter().map(|line| Line::new(line.clone()));
        let waiting = lines.flat_map(|line| request_ids(&line, false)).collect();
        self.await_responses(first, waiting, within).await;
    }

    /// `first`: the index of the first event of these requests.
    async fn await_responses(&mut self, first: usize, mut waiting: Vec<RequestId>, within: Duration) {
        let deadline = Instant::now() + within;
        self.misdirected = 0;
        while !waiting.is_empty() && !self.is_over() {
            // A server answers each request once: then none of these will probably get another response.
            let is_misdirected = self.misdirected >= waiting.len();
            let until =
                if is_misdirected { deadline.min(Instant::now() + UNKNOWN_ID_GRACE) } else { deadline };
            let Ok(event) = timeout_at(until, self.link.recv()).await else {
                if self.state.timed_out() || !self.spoken {
                    self.stopped = Some(Stop::Silent);
                }
                self.missed.append(&mut waiting);
                return;
            };
            self.receive(event, &mut waiting);
            if matches!(self.stopped, Some(Stop::Flood)) && self.spoken {
                // A response that was not awaited to the end is not missing.
                self.state.run.events.truncate(first);
            }
        }
    }

    /// Receives for [`LOOK_TIME`].
    pub(crate) async fn look(&mut self) {
        self.look_for(LOOK_TIME).await;
    }

    /// Receives for `time`, and expects nothing.
    pub(crate) async fn look_for(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while !self.is_over() {
            let Ok(event) = timeout_at(deadline, self.link.recv()).await else { return };
            self.receive(event, &mut Vec::new());
        }
    }

    /// Records what was received, and responds to the requests of the server.
    fn receive(&mut self, event: LinkEvent, waiting: &mut Vec<RequestId>) {
        let (at, mut bytes, inbound) = match event {
            LinkEvent::Line { at, bytes, inbound } => (at, bytes, inbound),
            LinkEvent::Other(Inbound::Closed { cause }) => return self.ended(cause),
            // The stream of that request has ended: it gets no response.
            LinkEvent::Other(Inbound::Lost { id, .. } | Inbound::Detached { id }) => {
                return waiting.retain(|wanted| *wanted != id);
            }
            LinkEvent::Other(inbound) => {
                self.marked |= matches!(inbound, Inbound::ByteOrderMark);
                return;
            }
        };
        if std::mem::take(&mut self.marked) {
            bytes = [BYTE_ORDER_MARK, &bytes].concat().into();
        }
        self.state.traffic.add(1, bytes.len());
        let line = recorded(bytes, &inbound);
        // As the link reads them: a byte order mark is a violation, and the message behind it is a message all the
        // same.
        let parts: Vec<Result<&Message, &DecodeError>> = match &inbound {
            Inbound::Message { message, .. } => vec![Ok(message)],
            Inbound::Batch { parts, .. } => parts.iter().map(Result::as_ref).collect(),
            Inbound::Malformed { error, .. } => vec![Err(error)],
            _ => Vec::new(),
        };
        self.malformed = parts.iter().any(Result::is_err);
        let mut requests = Vec::new();
        for part in parts {
            self.spoken |= part.is_ok();
            let (id, outcome) = match part {
                Ok(Message::Response(response)) => (response.id.as_ref(), Outcome::of(&response.outcome)),
                Ok(Message::Request(request)) => {
                    requests.push((request.id.clone(), request.method.clone()));
                    if let Some((_, outcome)) =
                        self.in_flight.as_mut().filter(|_| is_of_clients(&request.method))
                    {
                        *outcome = Outcome::Echo;
                    }
                    continue;
                }
                Ok(Message::Notification(_)) => continue,
                Err(error) => (error.id.as_ref(), Outcome::Broken(error.clone())),
            };
            let Some(id) = id else { continue };
            let is_known = self.state.has_counted(id) || self.other_ids.contains(id);
            self.misdirected += usize::from(part.is_ok() && !is_known);
            waiting.retain(|wanted| wanted != id);
            match &mut self.in_flight {
                Some((wanted, so_far)) if wanted == id && !matches!(so_far, Outcome::Echo) => {
                    *so_far = outcome;
                }
                Some((wanted, so_far @ Outcome::Nothing)) if wanted != id && part.is_ok() => {
                    *so_far = Outcome::Other(id.clone());
                }
                _ => {}
            }
        }
        if !self.spoken {
            self.garbage_lines += 1;
            let excerpt = || line.bytes().slice(..line.bytes().len().min(MAX_GARBAGE_BYTES));
            self.garbage.get_or_insert_with(excerpt);
        }
        self.state.run.note(at.duration_since(self.state.started), What::Received(line));
        for (id, method) in requests {
            self.send(Probe::Answer, &response_to(id, &method));
        }
        let garbage = !self.spoken && self.garbage_lines >= self.max_garbage_lines;
        if garbage || self.state.traffic.is_full() {
            self.stopped = Some(Stop::Flood);
        }
    }

    fn ended(&mut self, end: TransportEnd) {
        self.state.note(What::OutputEnded);
        if end.exit.is_some() {
            self.state.note(What::Ended(Ended { exit: end.exit, forced: false }));
        }
        self.stopped = Some(Stop::Ended(end));
    }

    /// Closes the standard input of the server, and waits until the process and its children have ended.
    pub(crate) async fn close(mut self) -> Run {
        let mut missed = std::mem::take(&mut self.missed);
        if self.malformed {
            // The rest of the text is on its way.
            self.look().await;
        }
        let deadline = Instant::now() + LATE_TIMEOUT;
        while self.spoken && !missed.is_empty() && matches!(self.stopped, None | Some(Stop::Silent)) {
            let Ok(event) = timeout_at(deadline, self.link.recv()).await else { break };
            self.receive(event, &mut missed);
        }
        let ended = matches!(self.stopped, Some(Stop::Ended(_)));
        if !ended {
            self.state.note(What::InputClosed);
        }
        self.link.close().await;
        if !ended && let Some(report) = self.child.and_then(|child| child.report()) {
            let forced = report.forced != Forced::No;
            self.state.note(What::Ended(Ended { exit: report.exit, forced }));
        }
        self.state.run
    }

    /// Sends SIGTERM to the process while its input is open, and waits until it has ended, at most for `within`.
    /// Records nothing of a server that is not our child.
    #[cfg(unix)]
    pub(crate) async fn terminate(mut self, within: Duration) -> Run {
        use rustix::process::{Pid, Signal, kill_process};
        let running = self.child.as_ref().filter(|child| child.is_running());
        let pid = running.and_then(|child| Pid::from_raw(child.pid()?.cast_signed()));
        if pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok()) {
            self.state.note(What::Signalled(15));
            self.look_for(within).await;
            if !self.is_over() {
                self.state.note(What::Ended(Ended { exit: None, forced: true }));
            }
        }
        self.link.close().await;
        self.state.run
    }

    /// Why the request has opened no session. `within`: how long its response was awaited.
    pub(crate) fn opening_failure(
        &self,
        method: Method,
        outcome: Outcome,
        asked: Option<RequestId>,
        within: Duration,
    ) -> NegotiationFailure {
        if let Some(failure) = outcome.opening_failure(method.clone(), asked) {
            return failure;
        }
        let garbage = self.garbage.clone();
        match &self.stopped {
            Some(Stop::Ended(end)) => NegotiationFailure::Ended { last: end.clone(), probe: None, garbage },
            Some(Stop::Flood) => match garbage {
                Some(first) => NegotiationFailure::Garbage { lines: self.garbage_lines, first },
                None => NegotiationFailure::InvalidResponse {
                    method,
                    problem: format!(
                        "{} messages were received, but none of them is the response",
                        self.state.traffic.messages()
                    )
                    .into(),
                },
            },
            _ => NegotiationFailure::TimedOut { method, after: within, garbage },
        }
    }
}

impl Session for LineSession {
    fn state(&self) -> &RunState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut RunState {
        &mut self.state
    }

    fn is_over(&self) -> bool {
        self.stopped.is_some()
    }

    async fn request_with(
        &mut self,
        probe: Probe,
        line: String,
        _: &[(String, String)],
        within: Duration,
    ) -> Outcome {
        self.in_flight = request_in(&line).map(|request| (request.id, Outcome::Nothing));
        self.deliver_within(probe, &[line], Delivery::Separate, within).await;
        self.in_flight.take().map_or(Outcome::Nothing, |(_, outcome)| outcome)
    }

    async fn requests(&mut self, probe: Probe, lines: Vec<String>) {
        self.announce(probe);
        self.deliver(probe, &lines, Delivery::Separate).await;
    }

    async fn notify(&mut self, probe: Probe, line: &str) {
        self.send(probe, line);
    }

    async fn cancel(&mut self, question: Question<'_>) {
        if self.is_over() {
            return;
        }
        self.announce(question.probe);
        let id = self.next_id();
        self.send(question.probe, &question.line(&self.state.manner, &id));
        // Until the server has begun.
        self.look_for(LOOK_TIME / 2).await;
        self.send(Probe::Cancel, &message::cancel(Some(&id)));
        self.ask_control(Probe::AfterCancel).await;
        self.look().await;
    }

    async fn list_elsewhere(&mut self) {
        // A link is the only connection.
    }

    async fn subscribe(&mut self, line: String) {
        self.announce(Probe::Listen);
        if self.is_over() {
            return;
        }
        let first = self.state.run.events.len();
        self.send(Probe::Listen, &line);
        let id = request_in(&line).map(|request| request.id);
        let is_open = |run: &Run| {
            run.events[first..].iter().any(|event| match &event.what {
                What::Received(line) => line.parts().any(|part| match part {
                    Ok(Message::Notification(_)) => true,
                    Ok(Message::Response(response)) => response.id == id,
                    _ => false,
                }),
                _ => false,
            })
        };
        let deadline = Instant::now() + self.state.response_timeout;
        while !self.is_over() && !is_open(&self.state.run) {
            let Ok(event) = timeout_at(deadline, self.link.recv()).await else { break };
            self.receive(event, &mut Vec::new());
        }
        if let Some(id) = id.filter(|_| !self.is_over()) {
            self.send(Probe::StopListening, &message::cancel(Some(&id.to_string())));
        }
    }

    fn has_cancel(&self) -> bool {
        true
    }

    fn agree(&mut self, version: Version) {
        self.state.run.version = version;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::io::AsyncWriteExt as _;

    use super::super::message::Manner;
    use super::super::session::{MAX_BYTES, Reporter};
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[tokio::test(start_paused = true)]
    async fn what_is_noted_of_a_run_has_a_total_in_bytes() {
        let (near, mut far) = tokio::io::duplex(MIB);
        let (reader, writer) = tokio::io::split(near);
        let link = Link::stream(reader, writer, "flood");
        let run = Run::new("run", Version::ALL[Version::ALL.len() - 1].clone());
        let reporter = Reporter { number: 1, progress: Arc::new(Mutex::new(Box::new(|_| {}))) };
        let state = RunState::new(run, Manner::Legacy, Duration::from_secs(1), reporter);
        let mut session = LineSession::new(link, None, state, &Limits::default());
        let (begin, end) = (r#"{"jsonrpc":"2.0","method":""#, "\"}");
        let name = "x".repeat(MIB - begin.len() - end.len());
        let line = format!("{begin}{name}{end}\n");
        let flood = async {
            for _ in 0..70 {
                far.write_all(line.as_bytes()).await.expect("it is open");
            }
        };
        tokio::select! {
            biased;
            () = session.look_for(Duration::from_secs(60)) => {}
            () = async { flood.await; std::future::pending().await } => {}
        }
        assert!(matches!(session.stopped, Some(Stop::Flood)), "{:?}", session.stopped);
        assert_eq!(session.state.traffic.messages(), MAX_BYTES / MIB);
        assert_eq!(session.close().await.events.len(), MAX_BYTES / MIB + 1, "and that our side was closed");
    }
}
