//! Keeps one connection to the orchestrator: connects, reconnects, and detects early that the server is gone.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::super::certs::Certificates;
use super::super::{ALPN, CLIENT_NAME};
use super::OrchestratorOptions;
use super::error::{AttemptError, OrchestratorErrorKind};
use super::exchange;
use mcpjoin_quic::endpoint::{self as quic, ClientTls, Connection, QuicError, QuicErrorKind};

/// Delay between two attempts to connect: the first one and the maximum. It doubles each time, and is changed at random
/// by up to 10 % so that many clients do not connect at once.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Minimum of the time without packets after which the connection is checked.
const MIN_SILENCE: Duration = Duration::from_millis(250);
/// That time in round-trip times.
const SILENCE_ROUND_TRIPS: u32 = 8;
/// The silence is measured in this many parts. A health request gets one part to cause a packet.
const SILENCE_PARTS: u32 = 4;
/// Maximum retry delay while a call waits for the connection.
const MAX_EAGER_DELAY: Duration = Duration::from_millis(200);

/// The state of the connection.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// There is no connection. Holds the error of the last attempt; `None` before the first one has ended.
    Disconnected(Option<String>),
    /// Connected. Holds the connection's number, counted from 1.
    Open(Connection, u64),
    /// The first handshake was rejected by either side.
    Refused(QuicError),
    /// The client is closed.
    Closed,
}

/// State that the background task and the calls share.
#[derive(Debug)]
pub(super) struct Reconnector {
    address: Arc<str>,
    certificates: Certificates,
    options: OrchestratorOptions,
    state: watch::Sender<State>,
    /// The number of calls that wait for a connection.
    waiting: AtomicUsize,
    /// `waiting` was increased.
    wait_started: Notify,
    /// An exchange received no packet for too long.
    silence_reported: Notify,
    /// The number of exchanges that take longer than that, with or without packets.
    long_exchanges: AtomicUsize,
    /// `long_exchanges` was increased.
    long_exchange_started: Notify,
}

impl Reconnector {
    pub(super) fn new(address: Arc<str>, certificates: Certificates, options: OrchestratorOptions) -> Self {
        Self {
            address,
            certificates,
            options,
            state: watch::Sender::new(State::Disconnected(None)),
            waiting: AtomicUsize::new(0),
            wait_started: Notify::new(),
            silence_reported: Notify::new(),
            long_exchanges: AtomicUsize::new(0),
            long_exchange_started: Notify::new(),
        }
    }

    pub(super) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Reports that nothing was received since a request was sent.
    pub(super) fn report_silence(&self) {
        self.silence_reported.notify_one();
    }

    /// Counts a long exchange until the result is dropped. Meanwhile the connection is checked for silence.
    pub(super) fn count_long(&self) -> Counted<'_> {
        Counted::notifying(&self.long_exchanges, &self.long_exchange_started)
    }

    /// The time without packets after a request that counts as silence.
    pub(super) fn silence(&self, connection: &Connection) -> Duration {
        connection.round_trip().saturating_mul(SILENCE_ROUND_TRIPS).max(MIN_SILENCE).min(self.options.silence)
    }

    /// Why this client closed a connection.
    pub(super) fn close_reason(&self) -> String {
        match &*self.state.borrow() {
            State::Disconnected(Some(why)) => why.clone(),
            State::Open(..) => "it sent nothing more, so another connection was made".to_owned(),
            _ => QuicErrorKind::ClosedByUs.to_string(),
        }
    }

    /// Returns the connection, waiting for it within the limit.
    pub(super) async fn connection(&self) -> Result<Connection, OrchestratorErrorKind> {
        let after = self.options.wait;
        let mut state = self.state.subscribe();
        let _waiting = match &*state.borrow_and_update() {
            // A connection that has just ended is not used: the background task will notice it as well.
            State::Open(connection, _) if connection.ended().is_none() => return Ok(connection.clone()),
            State::Closed => return Err(OrchestratorErrorKind::Closed),
            State::Refused(error) => return Err(OrchestratorErrorKind::Refused(error.kind.clone())),
            _ => Counted::notifying(&self.waiting, &self.wait_started),
        };
        let until = Instant::now() + after;
        loop {
            let changed = timeout_at(until, state.changed()).await;
            match (&*state.borrow_and_update(), changed) {
                (State::Open(connection, _), _) if connection.ended().is_none() => {
                    return Ok(connection.clone());
                }
                (State::Closed, _) | (_, Ok(Err(_))) => return Err(OrchestratorErrorKind::Closed),
                (State::Refused(error), _) => {
                    return Err(OrchestratorErrorKind::Refused(error.kind.clone()));
                }
                (_, Ok(Ok(()))) => {}
                (State::Disconnected(Some(why)), Err(_)) => {
                    return Err(OrchestratorErrorKind::Unconnected { after, why: why.clone() });
                }
                (_, Err(_)) => {
                    let why = "no response from that address".to_owned();
                    return Err(OrchestratorErrorKind::Unconnected { after, why });
                }
            }
        }
    }

    /// Connects, and reconnects whenever the connection ends. Returns only if the first handshake is rejected.
    pub(super) async fn run(&self, mut first: Option<ClientTls>) {
        let mut pause = RETRY_DELAY.0;
        let mut number = 0;
        loop {
            let attempted = Instant::now();
            match self.connect(first.take()).await {
                Ok(connection) => {
                    pause = RETRY_DELAY.0;
                    number = self.hold(connection, number).await;
                }
                Err(error) if number == 0 && is_rejection(&error.kind) => {
                    self.state.send_replace(State::Refused(error));
                    return;
                }
                Err(error) => {
                    tracing::debug!(target: "mcpjoin", %error, "no connection to the orchestrator");
                    self.state.send_replace(State::Disconnected(Some(error.reason())));
                }
            }
            self.wait_before_retry(attempted, jittered(pause)).await;
            pause = (pause * 2).min(RETRY_DELAY.1);
        }
    }

    /// Waits before the next attempt, for a shorter time if a call waits for the connection.
    async fn wait_before_retry(&self, attempted: Instant, pause: Duration) {
        let earliest = attempted + pause.min(MAX_EAGER_DELAY);
        let mut full_pause = pin!(sleep_until(attempted + pause));
        while self.waiting.load(Ordering::Relaxed) == 0 {
            tokio::select! {
                () = &mut full_pause => return,
                () = self.wait_started.notified() => {}
            }
        }
        sleep_until(earliest).await;
    }

    async fn connect(&self, tls: Option<ClientTls>) -> Result<Connection, QuicError> {
        let tls = match tls {
            Some(tls) => tls,
            // Read the files for each attempt, so that a renewed certificate is used.
            None => {
                let certificates = self.certificates.clone();
                let read = tokio::task::spawn_blocking(move || certificates.client(CLIENT_NAME, ALPN)).await;
                let failed = |kind| QuicError::new(self.address.clone(), kind);
                read.map_err(|error| failed(QuicErrorKind::Transport(error.to_string())))?
                    .map_err(|error| failed(QuicErrorKind::Certificate(error)))?
            }
        };
        quic::connect(&self.address, &tls, &self.options.quic()).await
    }

    /// Publishes a connection to the calls until it has ended. Returns its number.
    async fn hold(&self, mut connection: Connection, mut number: u64) -> u64 {
        loop {
            number += 1;
            let silent = self.state.send_replace(State::Open(connection.clone(), number));
            if let State::Open(silent, _) = silent {
                silent.close(0, "client closed");
            }
            match self.wait_for_end(&connection).await {
                Ended::Replaced(replacement) => connection = replacement,
                Ended::Lost(why) => {
                    let address = &self.address;
                    tracing::warn!(
                        target: "mcpjoin",
                        "the connection to the orchestrator at {address} is lost, reconnecting: {why}"
                    );
                    self.state.send_replace(State::Disconnected(Some(why)));
                    // Calls in progress fail now, even if the connection has not ended by itself.
                    connection.close(0, "client closed");
                    return number;
                }
            }
        }
    }

    /// Waits for the end of a connection. Probes the server if it is silent.
    async fn wait_for_end(&self, connection: &Connection) -> Ended {
        let found = async {
            loop {
                tokio::select! {
                    () = self.silence_reported.notified() => {}
                    () = self.wait_for_silence(connection) => {}
                }
                if let Some(ended) = self.probe(connection).await {
                    return ended;
                }
            }
        };
        tokio::select! {
            biased;
            error = connection.closed() => Ended::Lost(error.kind.to_string()),
            ended = found => ended,
        }
    }

    /// Waits until nothing is received for the full time during a long exchange. One timer serves all exchanges.
    async fn wait_for_silence(&self, connection: &Connection) {
        let mut silent = 0;
        while silent < SILENCE_PARTS {
            while self.long_exchanges.load(Ordering::Relaxed) == 0 {
                self.long_exchange_started.notified().await;
                silent = 0;
            }
            let received = connection.received();
            sleep(self.options.silence / SILENCE_PARTS).await;
            silent = if connection.received() == received { silent + 1 } else { 0 };
        }
    }

    /// Probes the server with a health request. Without any packet in return, checks the port and tries a second
    /// connection. Returns `None` if the connection is to be kept.
    async fn probe(&self, connection: &Connection) -> Option<Ended> {
        let received = connection.received();
        let silent = || connection.received() == received;
        let part = self.silence(connection) / SILENCE_PARTS;
        // The server must acknowledge the request within this time.
        let _ = timeout(part, exchange::health(connection)).await;
        if !silent() {
            return None;
        }
        let started = Instant::now();
        let mut port_closed = pin!(connection.port_unreachable());
        let closed_port = |error| Some(Ended::Lost(format!("nothing listens there now: {error}")));
        let replacement = tokio::select! {
            biased;
            error = &mut port_closed => return closed_port(error),
            replacement = self.connect(None) => replacement,
        };
        match replacement {
            Ok(replacement) => {
                // A server that completes a handshake can acknowledge a packet in the same time. Send another request:
                // QUIC retransmits a lost one only after a while.
                let probe_timeout = started.elapsed().min(self.options.silence).max(part);
                let _ = timeout(probe_timeout, exchange::health(connection)).await;
                if silent() {
                    return Some(Ended::Replaced(replacement));
                }
                replacement.close(0, "client closed");
            }
            Err(error) => {
                // Both attempts ask the system, which may report the closed port to either one.
                if let Ok(error) = timeout(part, port_closed).await {
                    return closed_port(error);
                }
                // There is no response of any kind. The server may come back until the idle timeout.
                tracing::debug!(target: "mcpjoin", %error, "the orchestrator does not respond");
            }
        }
        None
    }

    /// Closes the connection and waits at most `limit` until the server is informed.
    pub(super) async fn close(&self, limit: Duration) {
        if let State::Open(connection, _) = self.state.send_replace(State::Closed) {
            connection.close(0, "client closed");
            connection.close_sent(limit).await;
        }
    }

    /// Closes the connection without waiting.
    pub(super) fn close_now(&self) {
        if let State::Open(connection, _) = self.state.send_replace(State::Closed) {
            connection.close(0, "client closed");
        }
    }
}

enum Ended {
    Lost(String),
    Replaced(Connection),
}

/// Whether retrying cannot help, because one side rejects the other.
const fn is_rejection(kind: &QuicErrorKind) -> bool {
    matches!(
        kind,
        QuicErrorKind::Certificate(_)
            | QuicErrorKind::Protocol { .. }
            | QuicErrorKind::Refused(_)
            | QuicErrorKind::RefusedByPeer { .. }
    )
}

/// Changes a time at random by up to 10 %.
pub(super) fn jittered(time: Duration) -> Duration {
    let mut byte = [128];
    // Without random numbers many clients may connect at once, which only loads the server.
    let _ = getrandom::fill(&mut byte);
    time * (2304 + u32::from(byte[0]) * 2) / 2560
}

/// Counts one until it is dropped.
pub(super) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    pub(super) fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }

    fn notifying(count: &'a AtomicUsize, changed: &Notify) -> Self {
        let counted = Self::new(count);
        changed.notify_one();
        counted
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The error of an exchange: that of its connection if it has ended, else `otherwise`.
pub(super) fn attempt_error(
    connection: &Connection,
    sent: bool,
    otherwise: impl FnOnce() -> AttemptError,
) -> AttemptError {
    match connection.ended() {
        Some(error) if sent => AttemptError::Lost(error.kind.to_string()),
        Some(error) => AttemptError::Unsent(error.kind.to_string()),
        None => otherwise(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::jittered;

    #[test]
    fn a_time_is_a_tenth_more_or_less_and_not_always_the_same() {
        let time = Duration::from_secs(30);
        let times: Vec<Duration> = (0..200).map(|_| jittered(time)).collect();
        assert!(times.iter().all(|drawn| (27..=33).contains(&drawn.as_secs())), "{times:?}");
        assert!(times.iter().any(|drawn| *drawn < time) && times.iter().any(|drawn| *drawn > time));
    }
}
