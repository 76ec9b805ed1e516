//! One client over a stream of lines: ours on one side, the server on the other, and what is held back in between.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use mcpjoin_check::{Ended, Line, Probe, Trace, What};
use mcpjoin_proto::session::{Inbound, Limits, ProcessExit};
use mcpjoin_proto::{DecodeError, DecodeErrorKind, Message, RequestId};
use tokio::time::{Instant, sleep_until};

use super::recorder::{Recorder, requests};
use super::{ClientValidator, HELD, Leaving, PATIENCE, probes};
use crate::link::{BareLink, Crossed, Link, Way};

/// What may be under way between us and the server.
const BUFFER: usize = 64 * 1024;
/// A client that has closed our input has so long to show that it leaves by a signal, too. Nothing more is said to it:
/// it has what it has waited for.
const FAREWELL: std::time::Duration = std::time::Duration::from_millis(300);

/// Lines as they have come.
type Lines = Arc<Mutex<VecDeque<Bytes>>>;

/// A link, and the lines that have come over it.
struct Side {
    link: BareLink,
    lines: Lines,
}

impl Side {
    fn new(link: Link, limits: &Limits) -> Self {
        let lines: Lines = Arc::default();
        let noted = Arc::clone(&lines);
        let link = link.tapped(move |way, crossed| {
            if let (Way::In, Crossed::Line(line)) = (way, crossed) {
                noted.lock().unwrap_or_else(PoisonError::into_inner).push_back(Bytes::copy_from_slice(line));
            }
        });
        Self { link: link.bare(limits), lines }
    }

    /// What has come, line by line; `None` at the end.
    async fn recv(&mut self) -> Option<Vec<Line>> {
        let inbound = self.link.recv().await;
        let mut come: Vec<Bytes> =
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
        let too_long: Option<DecodeError> = match inbound {
            Inbound::Closed { .. } if come.is_empty() => return None,
            Inbound::Malformed { error, .. } if matches!(error.kind, DecodeErrorKind::TooLarge { .. }) => {
                Some(error)
            }
            _ => None,
        };
        let last = too_long.and_then(|error| Some(Line::too_long(come.pop()?, error)));
        Some(come.into_iter().map(Line::new).chain(last).collect())
    }

    fn push(&mut self, line: &[u8]) {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        // Streams take any bytes.
        let _ = self.link.push_bytes(bytes);
    }
}

/// What goes on between a client and the server.
struct Between {
    client: Side,
    server: Side,
    recorder: Recorder,
    run: usize,
    refuse: bool,
    /// Our requests that are not answered yet.
    waiting: Vec<RequestId>,
    /// What the client has asked meanwhile.
    held: VecDeque<Bytes>,
    /// Until then.
    held_until: Option<Instant>,
    /// The answer to `initialize`, and when it goes.
    opening: Option<(Instant, Line, Probe)>,
}

pub(super) async fn serve(of: ClientValidator, link: Link, end: impl Future<Output = Leaving>) -> Trace {
    let ClientValidator { server, limits, answer, refuse } = of;
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    let stream = |io| {
        let (reader, writer) = tokio::io::split(io);
        Link::stream(reader, writer, "duplex")
    };
    let mut between = Between {
        client: Side::new(link, &limits),
        server: Side::new(stream(ours), &limits),
        recorder: Recorder::new(answer),
        run: 0,
        refuse,
        waiting: Vec::new(),
        held: VecDeque::new(),
        held_until: None,
        opening: None,
    };
    let mut serving = pin!(server.serve(stream(theirs)));
    let mut end = pin!(end);
    let leaving = {
        let mut going = pin!(between.go());
        let mut served = false;
        loop {
            tokio::select! {
                biased;
                leaving = &mut end => break Some(leaving),
                () = &mut going => break None,
                _ = &mut serving, if !served => served = true,
            }
        }
    };
    match leaving {
        None => {
            between.recorder.note_end(&What::InputClosed);
            // One that closes our input and sends a signal at once has waited for nothing; which is seen here alone.
            tokio::select! {
                biased;
                leaving = &mut end => between.leave(leaving),
                () = sleep_until(Instant::now() + FAREWELL) => {}
            }
        }
        Some(leaving) => between.leave(leaving),
    }
    between.recorder.into_trace()
}

impl Between {
    fn leave(&mut self, leaving: Leaving) {
        let exit = match leaving {
            Leaving::Over => return,
            Leaving::Signal(signal) => Some(ProcessExit::Signal(signal)),
            Leaving::Gone(_) => None,
        };
        self.recorder.note_end(&What::Ended(Ended { exit, forced: false }));
    }

    /// Passes on what either side says until the client has closed its side.
    async fn go(&mut self) {
        let mut server_is_there = true;
        loop {
            let wake = match (self.held_until, self.opening.as_ref().map(|(at, ..)| *at)) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            tokio::select! {
                biased;
                () = async { sleep_until(wake.unwrap_or_else(Instant::now)).await }, if wake.is_some() => self.woken(),
                lines = self.server.recv(), if server_is_there => match lines {
                    Some(lines) => lines.into_iter().for_each(|line| self.answered(line)),
                    None => server_is_there = false,
                },
                lines = self.client.recv() => match lines {
                    Some(lines) => lines.into_iter().for_each(|line| self.asked(line)),
                    None => return,
                },
            }
            if self.recorder.is_full() {
                return;
            }
        }
    }

    fn woken(&mut self) {
        let now = Instant::now();
        if let Some((_, line, probe)) = self.opening.take_if(|(at, ..)| *at <= now) {
            self.tell(probe, line);
        }
        if self.held_until.is_some_and(|until| until <= now) {
            self.release();
        }
    }

    /// The client has had its time.
    fn release(&mut self) {
        self.held_until = None;
        for line in std::mem::take(&mut self.held) {
            self.server.push(&line);
        }
    }

    fn tell(&mut self, probe: Probe, line: Line) {
        self.client.push(line.bytes());
        self.recorder.said(self.run, None, probe, line);
    }

    /// The client has said something.
    fn asked(&mut self, line: Line) {
        self.run = self.recorder.of_stream(&line);
        let bytes = line.bytes().clone();
        let is_request = requests(&line).next().is_some();
        let ours: Vec<RequestId> = line
            .parts()
            .filter_map(|part| match part {
                Ok(Message::Response(response)) => response.id.clone().filter(probes::is_ours),
                _ => None,
            })
            .collect();
        let probed = is_request && self.recorder.may_probe(self.run);
        self.recorder.heard(self.run, None, line);
        if !ours.is_empty() {
            self.waiting.retain(|id| !ours.contains(id));
            if self.waiting.is_empty() && self.held_until.is_some() {
                self.release();
            }
            // The server has not asked.
            return;
        }
        if probed {
            for (probe, id, line) in probes::once(self.run) {
                self.waiting.extend(id);
                self.tell(probe, Line::new(line));
            }
            self.held_until = Some(Instant::now() + PATIENCE);
        }
        if self.held_until.is_some() {
            self.held.push_back(bytes);
        } else {
            self.server.push(&bytes);
        }
    }

    /// The server has said something.
    fn answered(&mut self, line: Line) {
        if !self.recorder.opens(self.run, &line) {
            return self.tell(Probe::Answer, line);
        }
        let refused = if self.refuse { probes::refusal(line.bytes()) } else { None };
        let (line, probe) = match refused {
            Some(refused) => (Line::new(refused), Probe::UnknownVersion),
            None => (line, Probe::Answer),
        };
        self.opening = Some((Instant::now() + HELD, line, probe));
    }
}
