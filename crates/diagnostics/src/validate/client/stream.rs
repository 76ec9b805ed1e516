//! Serves one client over a stream of lines: forwards between the client and the server, and delays some messages.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::session::ProcessExit;
use mcpjoin_proto::{Message, Method};
use mcpjoin_rules::{Ended, Line, Probe, Trace, What};
use tokio::time::{Instant, sleep_until};

use super::pages::Pages;
use super::probes::Prepared;
use super::recorder::{Recorder, requests};
use super::{ClientValidator, INITIALIZE_DELAY, PROBE_TIMEOUT, StopReason, probes};
use crate::engine::{RecordedLink, only_request};
use mcpjoin::transport::Link;

/// The bytes that are in flight between us and the server.
const BUFFER_BYTES: usize = 64 * 1024;
/// How long a signal is awaited from a client that has closed our input. Nothing more is sent to it.
const SIGNAL_TIMEOUT: Duration = Duration::from_millis(300);
/// How long the end of input is awaited from a client that has sent a signal.
const END_TIMEOUT: Duration = Duration::from_millis(20);

/// A client, the server, and the messages that are delayed between them.
struct Proxy {
    client: RecordedLink,
    server: RecordedLink,
    recorder: Recorder,
    run: usize,
    refuse: bool,
    pages: Pages,
    /// Requests of the client that wait until our probes have responses.
    delayed: VecDeque<Bytes>,
    /// When they are forwarded at the latest.
    delayed_until: Option<Instant>,
    /// The response to `initialize`, and when it is forwarded.
    opening: Option<(Instant, Line, Probe)>,
}

/// Why nothing more is forwarded.
enum Stop {
    /// The client has closed its side.
    Closed,
    /// A limit of the recording is reached.
    Full,
}

pub(super) async fn serve(of: ClientValidator, link: Link, end: impl Future<Output = StopReason>) -> Trace {
    let ClientValidator { server, limits, answer, refuse, disturb } = of;
    let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
    let stream = |io| {
        let (reader, writer) = tokio::io::split(io);
        Link::stream(reader, writer, "duplex")
    };
    let mut proxy = Proxy {
        client: RecordedLink::new(link, &limits),
        server: RecordedLink::new(stream(ours), &limits),
        recorder: Recorder::new(answer),
        run: 0,
        refuse,
        pages: Pages::new(disturb),
        delayed: VecDeque::new(),
        delayed_until: None,
        opening: None,
    };
    let mut serving = pin!(server.serve(stream(theirs)));
    let mut end = pin!(end);
    let leaving = {
        let mut running = pin!(proxy.run());
        let mut served = false;
        loop {
            tokio::select! {
                biased;
                leaving = &mut end => break Some(leaving),
                stop = &mut running => match stop {
                    Stop::Closed => break None,
                    // The client is still connected, and its end is not known.
                    Stop::Full => break Some(StopReason::Over),
                },
                _ = &mut serving, if !served => served = true,
            }
        }
    };
    match leaving {
        None => {
            proxy.recorder.note_end(&What::InputClosed);
            // A client that sends a signal right after it has closed our input does not wait for our end.
            tokio::select! {
                biased;
                leaving = &mut end => proxy.record_end(leaving),
                () = sleep_until(Instant::now() + SIGNAL_TIMEOUT) => {}
            }
        }
        Some(leaving) => {
            // Whether it has closed our input before the signal.
            let closed = matches!(leaving, StopReason::Signal(_)) && proxy.is_closed().await;
            if closed {
                proxy.recorder.note_end(&What::InputClosed);
            }
            proxy.record_end(leaving);
        }
    }
    proxy.recorder.into_trace()
}

impl Proxy {
    fn record_end(&mut self, leaving: StopReason) {
        let exit = match leaving {
            StopReason::Over => return,
            StopReason::Signal(signal) => Some(ProcessExit::Signal(signal)),
            StopReason::Gone(_) => None,
        };
        self.recorder.note_end(&What::Ended(Ended { exit, forced: false }));
    }

    /// Forwards messages until the client has closed its side, or a limit is reached.
    async fn run(&mut self) -> Stop {
        let mut server_is_open = true;
        loop {
            let wake = match (self.delayed_until, self.opening.as_ref().map(|(at, ..)| *at)) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            tokio::select! {
                biased;
                () = async { sleep_until(wake.unwrap_or_else(Instant::now)).await }, if wake.is_some() => self.forward_delayed(),
                line = self.server.next_line(), if server_is_open => match line {
                    Some(line) => self.handle_server_line(line),
                    None => server_is_open = false,
                },
                line = self.client.next_line() => match line {
                    Some(line) => self.handle_client_line(line),
                    None => return Stop::Closed,
                },
            }
            if self.recorder.is_full() {
                return Stop::Full;
            }
        }
    }

    /// Forwards what was delayed until now.
    fn forward_delayed(&mut self) {
        let now = Instant::now();
        if let Some((_, line, probe)) = self.opening.take_if(|(at, ..)| *at <= now) {
            self.send_to_client(probe, line);
        }
        if self.delayed_until.is_some_and(|until| until <= now) {
            self.proceed();
        }
    }

    /// Called when the client has responded to our probes, or its time is over.
    fn proceed(&mut self) {
        let next = self.recorder.second(self.run);
        if next.is_empty() {
            return self.release();
        }
        self.send(next);
        self.delayed_until = Some(Instant::now() + PROBE_TIMEOUT);
    }

    fn send(&mut self, probes: impl IntoIterator<Item = Prepared>) {
        for (probe, line) in probes {
            self.send_to_client(probe, Line::new(line));
        }
    }

    fn release(&mut self) {
        self.delayed_until = None;
        for line in std::mem::take(&mut self.delayed) {
            self.forward(&Line::new(line));
        }
    }

    fn send_to_client(&mut self, probe: Probe, line: Line) {
        self.client.send_line(line.bytes());
        self.recorder.sent(self.run, None, probe, line);
    }

    /// Handles a line of the client.
    fn handle_client_line(&mut self, line: Line) {
        self.run = self.recorder.of_stream(&line);
        let bytes = line.bytes().clone();
        let is_request = requests(&line).next().is_some();
        let ours = line.parts().any(|part| match part {
            Ok(Message::Response(response)) => response.id.as_ref().is_some_and(probes::is_ours),
            _ => false,
        });
        let probes = if is_request { self.recorder.first(self.run) } else { Vec::new() };
        self.recorder.received(self.run, None, line.clone());
        if ours {
            if self.delayed_until.is_some() && !self.recorder.is_waiting(self.run) {
                self.proceed();
            }
            // The response is ours: the server has sent no such request.
            return;
        }
        if !probes.is_empty() {
            self.send(probes);
            self.delayed_until = Some(Instant::now() + PROBE_TIMEOUT);
        }
        if self.delayed_until.is_some() {
            return self.delayed.push_back(bytes);
        }
        let again = self.recorder.roots(self.run);
        self.send(again);
        self.forward(&line);
    }

    /// Forwards a line of the client to the server, or responds to it.
    fn forward(&mut self, line: &Line) {
        let modern = self.recorder.is_modern(self.run);
        let refused = only_request(line).filter(|request| self.refuse && request.method == Method::Discover);
        if let Some(refused) = refused.and_then(|request| probes::not_initialized(&request.id)) {
            return self.send_to_client(Probe::UnknownVersion, Line::new(refused));
        }
        match self.pages.response_to(self.run, modern, line) {
            Some(answer) => self.send_to_client(Probe::Answer, Line::new(answer)),
            None => self.server.send_line(line.bytes()),
        }
    }

    /// Whether the client has closed its side, or does so within [`END_TIMEOUT`].
    async fn is_closed(&mut self) -> bool {
        let closed = async { while self.client.next_line().await.is_some() {} };
        tokio::select! {
            biased;
            () = closed => true,
            () = sleep_until(Instant::now() + END_TIMEOUT) => false,
        }
    }

    /// Handles a line of the server.
    fn handle_server_line(&mut self, line: Line) {
        if !self.recorder.opens(self.run, &line) {
            let modern = self.recorder.is_modern(self.run);
            let cut = self.pages.split(self.run, modern, &line);
            return self.send_to_client(Probe::Answer, cut.map_or(line, Line::new));
        }
        let refused = if self.refuse { probes::refusal(line.bytes()) } else { None };
        let (line, probe) = match refused {
            Some(refused) => (Line::new(refused), Probe::UnknownVersion),
            None => (line, Probe::Answer),
        };
        self.opening = Some((Instant::now() + INITIALIZE_DELAY, line, probe));
    }
}
