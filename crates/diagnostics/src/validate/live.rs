//! One run of the server while it goes on: lines out, lines in, each noted with its time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mcpjoin_proto::session::{Inbound, Limits, LinkEnd, Outbound, Route};
use mcpjoin_proto::{
    DecodeError, DecodeErrorKind, ErrorObject, Message, Method, Payload, Raw, Request, RequestId, Response,
    Version,
};
use mcpjoin_rules::{Ended, Line, Probe, Run, What};
use tokio::time::{Instant, timeout_at};

use super::ValidateError;
use super::source::Source;
use mcpjoin::link::{BareLink, ChildHandle, Crossed, Forced, Link, Way};

/// So many requests may stay without an answer until no more is asked.
const PATIENCE: usize = 2;
/// So much may come in one run until no more is asked.
const MOST_LINES: usize = 20_000;
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// How long to look for what comes late.
pub(super) const MOMENT: Duration = Duration::from_millis(100);

/// How long answers that have not come in time are still waited for at the end of a run: late is not never.
const LATE: Duration = Duration::from_secs(2);

const MARK: &[u8] = b"\xef\xbb\xbf";

/// Lines as they came, with their times.
type Lines = Arc<Mutex<VecDeque<(Instant, Bytes)>>>;

pub(super) struct Live {
    link: BareLink,
    /// Watches the process, where it is a child of ours.
    child: Option<ChildHandle>,
    lines: Lines,
    started: Instant,
    pub(super) run: Run,
    next_id: i64,
    /// How long an answer may take.
    answer: Duration,
    silences: usize,
    /// A byte order mark stands before the next line.
    mark: bool,
    /// The last line was no message.
    broken: bool,
    /// What has not been answered in time.
    missed: Vec<RequestId>,
    count: usize,
    bytes: usize,
    garbage: Option<Bytes>,
    bad_lines: usize,
    garbage_limit: usize,
    spoken: bool,
    /// The opening request, and what came of it.
    opening: Option<(RequestId, Opened)>,
    over: Option<Over>,
}

/// Why nothing more is asked.
#[derive(Clone, Debug)]
pub(super) enum Over {
    /// The server, or its output, has ended.
    Ended(LinkEnd),
    /// It does not answer.
    Silent,
    /// Too much has come, or too much that is no message before the first that is.
    Flood,
}

/// What an opening request came to.
#[derive(Debug)]
pub(super) enum Opened {
    Result(Payload),
    Error(ErrorObject),
    /// Something that is no message, for this reason.
    Broken(DecodeError),
    /// Our own request.
    Echo,
    /// Nothing, but a response with this id, which nobody has asked with.
    Other(RequestId),
    /// Nothing, in the time that there was.
    Nothing,
}

/// Whether it is what a client alone asks: a server that does sends back what it reads.
pub(super) fn is_ours(method: &Method) -> bool {
    matches!(method, Method::Initialize | Method::Discover)
}

impl Live {
    pub(super) async fn start(
        source: &mut Source,
        name: &str,
        version: Version,
        limits: &Limits,
        answer: Duration,
    ) -> Result<Self, ValidateError> {
        let started = Instant::now();
        let (link, child) = source.open().await?;
        let live = Self::on(link, name, version, limits, answer);
        Ok(Self { started, child, ..live })
    }

    /// The same over a link that is there.
    pub(super) fn on(link: Link, name: &str, version: Version, limits: &Limits, answer: Duration) -> Self {
        let lines: Lines = Arc::default();
        let noted = Arc::clone(&lines);
        let link = link.tapped(move |way, crossed| {
            if let (Way::In, Crossed::Line(line)) = (way, crossed) {
                let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                noted.push_back((Instant::now(), Bytes::copy_from_slice(line)));
            }
        });
        Self {
            link: link.bare(limits),
            child: None,
            lines,
            started: Instant::now(),
            run: Run::new(name, version),
            next_id: 0,
            answer,
            silences: 0,
            mark: false,
            broken: false,
            missed: Vec::new(),
            count: 0,
            bytes: 0,
            garbage: None,
            bad_lines: 0,
            garbage_limit: limits.opening_garbage,
            spoken: false,
            opening: None,
            over: None,
        }
    }

    /// Why nothing more is asked; `None` while something may be.
    pub(super) const fn over(&self) -> Option<&Over> {
        self.over.as_ref()
    }

    /// Whether some request has stayed without an answer.
    pub(super) const fn has_missed(&self) -> bool {
        self.silences > 0
    }

    /// The first bytes that came and were no message.
    pub(super) fn garbage(&self) -> Option<Bytes> {
        self.garbage.clone()
    }

    /// How many lines have come.
    pub(super) const fn lines(&self) -> usize {
        self.count
    }

    /// How many of them came before the first message, and were none.
    pub(super) fn bad_lines(&self) -> usize {
        self.bad_lines
    }

    /// An id that this run has not used.
    pub(super) fn id(&mut self) -> String {
        self.next_id += 1;
        self.next_id.to_string()
    }

    /// The last of them.
    pub(super) fn last_id(&self) -> String {
        self.next_id.to_string()
    }

    /// What a request of that id was answered with, so far.
    pub(super) fn reply(&self, id: &str) -> Option<Result<Payload, ErrorObject>> {
        let id = Raw::parse(id.to_owned()).ok()?.decode::<RequestId>().ok()?;
        let lines = self.run.events.iter().rev().filter_map(|event| match &event.what {
            What::Received(line) => Some(line),
            _ => None,
        });
        lines.flat_map(Line::parts).find_map(|part| match part {
            Ok(Message::Response(response)) if response.id.as_ref() == Some(&id) => {
                Some(response.outcome.clone())
            }
            _ => None,
        })
    }

    /// Opens a stream of changes, waits until something comes on it, and closes it.
    pub(super) async fn listen(&mut self, line: &str) {
        if self.over.is_some() {
            return;
        }
        let first = self.run.events.len();
        self.send(Probe::Listen, line);
        let id = Self::request_of(line).map(|request| request.id);
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
        let deadline = Instant::now() + self.answer;
        while self.over.is_none() && !is_open(&self.run) {
            let Ok(inbound) = timeout_at(deadline, self.link.recv()).await else { break };
            self.take(inbound, &mut Vec::new());
        }
        if let Some(id) = id.filter(|_| self.over.is_none()) {
            self.send(Probe::StopListening, &super::probes::cancel(Some(&id.to_string())));
        }
    }

    /// Sends a line.
    pub(super) fn send(&mut self, probe: Probe, line: &str) {
        self.send_bytes(line);
        self.sent(probe, line);
    }

    /// Sends bytes, which are noted when the line that they are part of is whole.
    fn send_bytes(&mut self, line: &str) {
        if self.link.push_bytes(Bytes::from(format!("{line}\n"))) {
            return;
        }
        // What carries messages is asked for nothing else.
        for message in Line::new(line.to_owned()).parts().filter_map(Result::ok) {
            self.link.push(Outbound::Message { message: message.clone(), route: Route::Session });
        }
    }

    fn sent(&mut self, probe: Probe, line: &str) {
        let at = self.started.elapsed();
        self.run.note(at, What::Sent(probe, Line::new(line.to_owned())));
    }

    /// Sends requests, as (id, line), each in a write of its own, and waits for their answers.
    pub(super) async fn ask_all(&mut self, probe: Probe, requests: &[(String, String)]) {
        let within = self.answer;
        self.ask(probe, requests, within).await;
    }

    pub(super) async fn ask_one(&mut self, probe: Probe, id: String, line: String) {
        self.ask_all(probe, &[(id, line)]).await;
    }

    async fn ask(&mut self, probe: Probe, requests: &[(String, String)], within: Duration) {
        if self.over.is_some() {
            return;
        }
        let first = self.run.events.len();
        for (_, line) in requests {
            self.send(probe, line);
        }
        self.answers(first, requests.iter().map(|(id, _)| id.as_str()), within).await;
    }

    /// Sends requests, and reads nothing for a while.
    pub(super) async fn ask_unread(&mut self, probe: Probe, requests: &[(String, String)], pause: Duration) {
        if self.over.is_some() {
            return;
        }
        let first = self.run.events.len();
        for (_, line) in requests {
            self.send(probe, line);
        }
        let deadline = Instant::now() + pause;
        // What it cannot take before we read again is sent then.
        let _ = timeout_at(deadline, self.link.flush()).await;
        tokio::time::sleep_until(deadline).await;
        let within = self.answer;
        self.answers(first, requests.iter().map(|(id, _)| id.as_str()), within).await;
    }

    /// Sends two lines in one write.
    pub(super) async fn ask_together(&mut self, probe: Probe, requests: &[(String, String)]) {
        if self.over.is_some() {
            return;
        }
        let first = self.run.events.len();
        let lines: Vec<&str> = requests.iter().map(|(_, line)| line.as_str()).collect();
        self.send_bytes(&lines.join("\n"));
        lines.iter().for_each(|line| self.sent(probe, line));
        let within = self.answer;
        self.answers(first, requests.iter().map(|(id, _)| id.as_str()), within).await;
    }

    /// Sends a line in two writes, and looks in between.
    pub(super) async fn ask_in_pieces(&mut self, probe: Probe, id: &str, line: &str) {
        if self.over.is_some() {
            return;
        }
        // All but the line's end: a reader that does not wait for it has everything.
        let _ = self.link.push_bytes(Bytes::from(line.to_owned()));
        self.look(MOMENT).await;
        if self.over.is_some() {
            return;
        }
        let first = self.run.events.len();
        self.send_bytes("");
        self.sent(probe, line);
        let within = self.answer;
        self.answers(first, [id], within).await;
    }

    /// Sends a line with several requests in it.
    pub(super) async fn ask_batch(&mut self, probe: Probe, ids: &[String], line: &str) {
        if self.over.is_some() {
            return;
        }
        let first = self.run.events.len();
        self.send(probe, line);
        let within = self.answer;
        self.answers(first, ids.iter().map(String::as_str), within).await;
    }

    /// Sends the request that opens everything, and waits for as long as a start may take.
    pub(super) async fn open(&mut self, probe: Probe, id: String, line: String, within: Duration) -> Opened {
        self.opening = Some((RequestId::from(id.parse::<i64>().unwrap_or_default()), Opened::Nothing));
        self.ask(probe, &[(id, line)], within).await;
        self.opening.take().map_or(Opened::Nothing, |(_, opened)| opened)
    }

    /// Waits until these are answered. `first`: the place of the first event of them.
    async fn answers<'i>(&mut self, first: usize, ids: impl IntoIterator<Item = &'i str>, within: Duration) {
        let ids = ids.into_iter().filter_map(|id| Raw::parse(id.to_owned()).ok()?.decode::<RequestId>().ok());
        let mut waiting: Vec<RequestId> = ids.collect();
        let deadline = Instant::now() + within;
        while !waiting.is_empty() && self.over.is_none() {
            let Ok(inbound) = timeout_at(deadline, self.link.recv()).await else {
                self.silences += 1;
                if self.silences >= PATIENCE || !self.spoken {
                    self.over = Some(Over::Silent);
                }
                self.missed.append(&mut waiting);
                return;
            };
            self.take(inbound, &mut waiting);
            if matches!(self.over, Some(Over::Flood)) && self.spoken {
                // What was not waited for to the end is no silence.
                self.run.events.truncate(first);
            }
        }
    }

    /// Looks at what comes for a while.
    pub(super) async fn look(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while self.over.is_none() {
            let Ok(inbound) = timeout_at(deadline, self.link.recv()).await else { return };
            self.take(inbound, &mut Vec::new());
        }
    }

    /// Notes what came, and answers what the server asks.
    fn take(&mut self, inbound: Inbound, waiting: &mut Vec<RequestId>) {
        if let Inbound::Closed { cause } = inbound {
            let at = self.started.elapsed();
            self.run.note(at, What::OutputEnded);
            if cause.exit.is_some() {
                self.run.note(at, What::Ended(Ended { exit: cause.exit, forced: false }));
            }
            self.over = Some(Over::Ended(cause));
            return;
        }
        if let Inbound::Lost { id, .. } | Inbound::Detached { id } = &inbound {
            // Its stream has ended: no answer comes any more.
            return waiting.retain(|wanted| wanted != id);
        }
        if matches!(inbound, Inbound::ByteOrderMark) {
            self.mark = true;
            return;
        }
        let noted = self.lines.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some((at, mut bytes)) = noted else { return };
        if std::mem::take(&mut self.mark) {
            bytes = [MARK, &bytes].concat().into();
        }
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes.len());
        let line = match &inbound {
            Inbound::Malformed { error, .. } if matches!(error.kind, DecodeErrorKind::TooLarge { .. }) => {
                Line::too_long(bytes, error.clone())
            }
            _ => Line::new(bytes),
        };
        // What the link makes of it: a byte order mark is a fault, and the message behind it is one all the same.
        let parts: Vec<Result<&Message, &DecodeError>> = match &inbound {
            Inbound::Message { message, .. } => vec![Ok(message)],
            Inbound::Batch { parts, .. } => parts.iter().map(Result::as_ref).collect(),
            Inbound::Malformed { error, .. } => vec![Err(error)],
            _ => Vec::new(),
        };
        self.broken = parts.iter().any(Result::is_err);
        let mut requests = Vec::new();
        for part in parts {
            let (id, opened) = match part {
                Ok(Message::Response(Response { id, outcome: Ok(result) })) => {
                    (id.as_ref(), Opened::Result(result.clone()))
                }
                Ok(Message::Response(Response { id, outcome: Err(error) })) => {
                    (id.as_ref(), Opened::Error(error.clone()))
                }
                Ok(Message::Request(request)) => {
                    requests.push((request.id.clone(), request.method.clone()));
                    if let Some((_, came)) = self.opening.as_mut().filter(|_| is_ours(&request.method)) {
                        *came = Opened::Echo;
                    }
                    (None, Opened::Nothing)
                }
                Ok(Message::Notification(_)) => (None, Opened::Nothing),
                Err(error) => (error.id.as_ref(), Opened::Broken(error.clone())),
            };
            self.spoken |= part.is_ok();
            if let Some(id) = id {
                waiting.retain(|wanted| wanted != id);
                match &mut self.opening {
                    Some((wanted, came)) if wanted == id && !matches!(came, Opened::Echo) => *came = opened,
                    Some((wanted, came @ Opened::Nothing)) if wanted != id && part.is_ok() => {
                        *came = Opened::Other(id.clone());
                    }
                    _ => {}
                }
            }
        }
        if !self.spoken {
            self.bad_lines += 1;
            self.garbage.get_or_insert_with(|| line.bytes().slice(..line.bytes().len().min(200)));
        }
        self.run.note(at.duration_since(self.started), What::Received(line));
        for (id, method) in requests {
            self.answer_request(id, &method);
        }
        let garbage = !self.spoken && self.bad_lines >= self.garbage_limit;
        if garbage || self.count >= MOST_LINES || self.bytes >= MOST_BYTES {
            self.over = Some(Over::Flood);
        }
    }

    /// We are alive, and offer nothing.
    fn answer_request(&mut self, id: RequestId, method: &Method) {
        let outcome = match method {
            Method::Ping => Ok(Payload::from_raw(Raw::empty_object())),
            other => Err(ErrorObject::method_not_found(other.as_str())),
        };
        let message = Message::from(Response { id: Some(id), outcome });
        let mut line = BytesMut::new();
        mcpjoin_proto::encode::message(&message, &mut line);
        let line = String::from_utf8_lossy(&line).into_owned();
        self.send(Probe::Answer, &line);
    }

    /// Closes the server's standard input, and waits until nothing of it is left.
    pub(super) async fn close(mut self) -> Run {
        let mut missed = std::mem::take(&mut self.missed);
        if self.broken {
            // The rest of it is on its way.
            self.look(MOMENT).await;
        }
        let deadline = Instant::now() + LATE;
        while self.spoken && !missed.is_empty() && matches!(self.over, None | Some(Over::Silent)) {
            let Ok(inbound) = timeout_at(deadline, self.link.recv()).await else { break };
            self.take(inbound, &mut missed);
        }
        let early = matches!(self.over, Some(Over::Ended(_)));
        if !early {
            let at = self.started.elapsed();
            self.run.note(at, What::InputClosed);
        }
        let _ = self.link.close().await;
        if !early && let Some(report) = self.child.and_then(|child| child.report()) {
            let forced = report.forced != Forced::No;
            let at = self.started.elapsed();
            self.run.note(at, What::Ended(Ended { exit: report.exit, forced }));
        }
        self.run
    }

    /// Sends the process SIGTERM while its input is open, and waits until it has ended, or for so long. Of a server that is
    /// no child of ours, nothing is noted.
    #[cfg(unix)]
    pub(super) async fn terminate(mut self, within: Duration) -> Run {
        use rustix::process::{Pid, Signal, kill_process};
        let running = self.child.as_ref().filter(|child| child.is_running());
        let pid = running.and_then(|child| Pid::from_raw(child.pid()?.cast_signed()));
        if pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok()) {
            let at = self.started.elapsed();
            self.run.note(at, What::Signalled(15));
            self.look(within).await;
            if self.over.is_none() {
                let at = self.started.elapsed();
                self.run.note(at, What::Ended(Ended { exit: None, forced: true }));
            }
        }
        let _ = self.link.close().await;
        self.run
    }

    /// The time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The request that one of our lines is.
    pub(super) fn request_of(line: &str) -> Option<Request> {
        Line::new(line.to_owned()).parts().find_map(|part| match part {
            Ok(Message::Request(request)) => Some(request.clone()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    const MIB: usize = 1024 * 1024;

    #[tokio::test(start_paused = true)]
    async fn what_is_noted_of_a_run_has_a_total_in_bytes() {
        let (near, mut far) = tokio::io::duplex(MIB);
        let (reader, writer) = tokio::io::split(near);
        let link = Link::stream(reader, writer, "flood");
        let newest = Version::ALL[Version::ALL.len() - 1].clone();
        let mut live = Live::on(link, "run", newest, &Limits::default(), Duration::from_secs(1));
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
            () = live.look(Duration::from_secs(60)) => {}
            () = async { flood.await; std::future::pending().await } => {}
        }
        assert!(matches!(live.over(), Some(Over::Flood)), "{:?}", live.over());
        assert_eq!(live.lines(), MOST_BYTES / MIB);
        assert_eq!(live.close().await.events.len(), MOST_BYTES / MIB + 1, "and that our side was closed");
    }
}
