//! One client over a stream of lines: ours on one side, the server on the other, and what is held back in between.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;

use bytes::Bytes;
use mcpjoin_proto::session::ProcessExit;
use mcpjoin_proto::{Message, Method};
use mcpjoin_rules::{Ended, Line, Probe, Trace, What};
use tokio::time::{Instant, sleep_until};

use super::pages::Pages;
use super::probes::Prepared;
use super::recorder::{Recorder, requests};
use super::{ClientValidator, HELD, Leaving, PATIENCE, probes};
use crate::engine::{RecordedLink, only_request};
use mcpjoin::link::Link;

/// What may be under way between us and the server.
const BUFFER: usize = 64 * 1024;
/// A client that has closed our input has so long to show that it leaves by a signal, too. Nothing more is said to it:
/// it has what it has waited for.
const FAREWELL: std::time::Duration = std::time::Duration::from_millis(300);
/// What was done in one breath has come by then.
const TOGETHER: std::time::Duration = std::time::Duration::from_millis(20);

/// What goes on between a client and the server.
struct Between {
    client: RecordedLink,
    server: RecordedLink,
    recorder: Recorder,
    run: usize,
    refuse: bool,
    pages: Pages,
    /// What the client has asked meanwhile.
    held: VecDeque<Bytes>,
    /// Until then.
    held_until: Option<Instant>,
    /// The answer to `initialize`, and when it goes.
    opening: Option<(Instant, Line, Probe)>,
}

/// Why nothing more is passed on.
enum Over {
    /// The client has closed its side.
    Closed,
    /// As much has been noted as is noted.
    Full,
}

pub(super) async fn serve(of: ClientValidator, link: Link, end: impl Future<Output = Leaving>) -> Trace {
    let ClientValidator { server, limits, answer, refuse, disturb } = of;
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    let stream = |io| {
        let (reader, writer) = tokio::io::split(io);
        Link::stream(reader, writer, "duplex")
    };
    let mut between = Between {
        client: RecordedLink::new(link, &limits),
        server: RecordedLink::new(stream(ours), &limits),
        recorder: Recorder::new(answer),
        run: 0,
        refuse,
        pages: Pages::new(disturb),
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
                over = &mut going => match over {
                    Over::Closed => break None,
                    // The client is still there: of its end nothing is known.
                    Over::Full => break Some(Leaving::Over),
                },
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
        Some(leaving) => {
            // Whether the end of input came with it shows now.
            let closed = matches!(leaving, Leaving::Signal(_)) && between.is_closed().await;
            if closed {
                between.recorder.note_end(&What::InputClosed);
            }
            between.leave(leaving);
        }
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

    /// Passes on what either side says until the client has closed its side, or no more of it is noted.
    async fn go(&mut self) -> Over {
        let mut server_is_there = true;
        loop {
            let wake = match (self.held_until, self.opening.as_ref().map(|(at, ..)| *at)) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            tokio::select! {
                biased;
                () = async { sleep_until(wake.unwrap_or_else(Instant::now)).await }, if wake.is_some() => self.woken(),
                line = self.server.next_line(), if server_is_there => match line {
                    Some(line) => self.answered(line),
                    None => server_is_there = false,
                },
                line = self.client.next_line() => match line {
                    Some(line) => self.asked(line),
                    None => return Over::Closed,
                },
            }
            if self.recorder.is_full() {
                return Over::Full;
            }
        }
    }

    fn woken(&mut self) {
        let now = Instant::now();
        if let Some((_, line, probe)) = self.opening.take_if(|(at, ..)| *at <= now) {
            self.tell(probe, line);
        }
        if self.held_until.is_some_and(|until| until <= now) {
            self.proceed();
        }
    }

    /// The client has answered, or has had its time.
    fn proceed(&mut self) {
        let next = self.recorder.second(self.run);
        if next.is_empty() {
            return self.release();
        }
        self.send(next);
        self.held_until = Some(Instant::now() + PATIENCE);
    }

    fn send(&mut self, probes: impl IntoIterator<Item = Prepared>) {
        for (probe, line) in probes {
            self.tell(probe, Line::new(line));
        }
    }

    fn release(&mut self) {
        self.held_until = None;
        for line in std::mem::take(&mut self.held) {
            self.ask(&Line::new(line));
        }
    }

    fn tell(&mut self, probe: Probe, line: Line) {
        self.client.send_line(line.bytes());
        self.recorder.said(self.run, None, probe, line);
    }

    /// The client has said something.
    fn asked(&mut self, line: Line) {
        self.run = self.recorder.of_stream(&line);
        let bytes = line.bytes().clone();
        let is_request = requests(&line).next().is_some();
        let ours = line.parts().any(|part| match part {
            Ok(Message::Response(response)) => response.id.as_ref().is_some_and(probes::is_ours),
            _ => false,
        });
        let probes = if is_request { self.recorder.first(self.run) } else { Vec::new() };
        self.recorder.heard(self.run, None, line.clone());
        if ours {
            if self.held_until.is_some() && !self.recorder.is_waiting(self.run) {
                self.proceed();
            }
            // The server has not asked.
            return;
        }
        if !probes.is_empty() {
            self.send(probes);
            self.held_until = Some(Instant::now() + PATIENCE);
        }
        if self.held_until.is_some() {
            return self.held.push_back(bytes);
        }
        let again = self.recorder.again(self.run);
        self.send(again);
        self.ask(&line);
    }

    /// What the client has asked goes to the server, if it is not ours to answer.
    fn ask(&mut self, line: &Line) {
        let modern = self.recorder.is_modern(self.run);
        let refused = only_request(line).filter(|request| self.refuse && request.method == Method::Discover);
        if let Some(refused) = refused.and_then(|request| probes::not_initialized(&request.id)) {
            return self.tell(Probe::UnknownVersion, Line::new(refused));
        }
        match self.pages.asked(self.run, modern, line) {
            Some(answer) => self.tell(Probe::Answer, Line::new(answer)),
            None => self.server.send_line(line.bytes()),
        }
    }

    /// Whether the client has closed its side by now, or does so at once.
    async fn is_closed(&mut self) -> bool {
        let closed = async { while self.client.next_line().await.is_some() {} };
        tokio::select! {
            biased;
            () = closed => true,
            () = sleep_until(Instant::now() + TOGETHER) => false,
        }
    }

    /// The server has said something.
    fn answered(&mut self, line: Line) {
        if !self.recorder.opens(self.run, &line) {
            let modern = self.recorder.is_modern(self.run);
            let cut = self.pages.answered(self.run, modern, &line);
            return self.tell(Probe::Answer, cut.map_or(line, Line::new));
        }
        let refused = if self.refuse { probes::refusal(line.bytes()) } else { None };
        let (line, probe) = match refused {
            Some(refused) => (Line::new(refused), Probe::UnknownVersion),
            None => (line, Probe::Answer),
        };
        self.opening = Some((Instant::now() + HELD, line, probe));
    }
}
