//! The health of one target of a joined gateway: which of its servers start and run, why the last one ended, and when
//! the next one may be started.
//!
//! Fed by the events of the target's own gateway. Read before a server is started for a client, so that one dead target
//! does not cost each client a start, and by programs that show the state of the targets. It never starts or ends a server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::capacity::Caller;
use super::end::GatewayEvent;
use super::settings::Redact;
use super::status::TargetState;
use mcpjoin::client::RunExit;

/// The delay before the first start that follows a failed one. It doubles with each failure in a row.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// The longest delay: a target that comes back is used again within this time.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Failed starts in a row after which a target counts as dead: with the delays above, after four minutes.
const DEAD_AFTER: u32 = 12;

/// How long no list and no opening waits for a target after one has waited in vain. It doubles each time in a row.
const FIRST_LATE: Duration = Duration::from_secs(10);
/// The longest such time.
const MAX_LATE: Duration = Duration::from_secs(300);
/// Callers for whom a target counts as late. Beyond it the one that has waited first waits again.
const MAX_LATE_CALLERS: usize = 256;

/// How long a request waits for a server that has exited and is started again for the first time. After it the request
/// fails, and so does each request at once while starts fail.
const RESTART_WAIT: Duration = Duration::from_secs(2);

/// The health of one target.
#[derive(Debug, Default)]
pub(super) struct TargetHealth {
    known: Mutex<Known>,
    /// Counts the events.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Known {
    /// The servers that start, by number. At most [`GatewayBuilder::upstreams`](super::GatewayBuilder::upstreams).
    starting: BTreeSet<u64>,
    /// The servers that run.
    running: BTreeSet<u64>,
    /// The servers that ran, have exited and are started again, and whether for the first time.
    restarting: BTreeMap<u64, bool>,
    /// A server has run.
    has_opened: bool,
    /// The failed starts since the last server ran.
    failures: u32,
    last: Option<RunExit>,
    next: Option<Instant>,
    /// The callers whose lists or openings have waited in vain. For each caller alone, because one that keeps a server busy must
    /// not make it late for others.
    late: VecDeque<Late>,
}

/// A caller has waited in vain.
#[derive(Debug)]
struct Late {
    caller: Caller,
    /// How often in a row.
    times: u32,
    /// Until when it does not wait.
    until: Instant,
    /// It has waited for a server that starts, and not for a list.
    start: bool,
}

/// Why a call to a target fails before anything is sent.
pub(super) struct CoolingDown {
    pub(super) last: Option<RunExit>,
    pub(super) next_attempt: Duration,
}

impl TargetHealth {
    /// Learns from an event of the gateway of the target.
    pub(super) fn note(&self, event: &GatewayEvent<'_>) {
        let mut known = self.known.lock();
        match event {
            GatewayEvent::Starting { upstream } => {
                known.starting.insert(*upstream);
            }
            GatewayEvent::Started { upstream, .. } => {
                known.starting.remove(upstream);
                known.restarting.remove(upstream);
                known.running.insert(*upstream);
                known.has_opened = true;
                (known.failures, known.next) = (0, None);
                known.late.retain(|late| !late.start);
            }
            GatewayEvent::Ended { upstream, end, next } => {
                known.starting.remove(upstream);
                let ran = known.running.remove(upstream);
                known.restarting.remove(upstream);
                if next.is_some() {
                    known.restarting.insert(*upstream, ran);
                }
                known.last = Some((*end).clone());
                let delay = next.unwrap_or_else(|| {
                    known.failures += 1;
                    FIRST_DELAY.saturating_mul(1 << (known.failures - 1).min(16)).min(MAX_DELAY)
                });
                known.next = Some(Instant::now() + delay);
            }
            GatewayEvent::Over { upstream } => {
                known.starting.remove(upstream);
                known.restarting.remove(upstream);
                known.running.remove(upstream);
            }
            GatewayEvent::Refused { .. }
            | GatewayEvent::Withheld { .. }
            | GatewayEvent::Calling { .. }
            | GatewayEvent::Called(_) => return,
        }
        drop(known);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Whether a server of this target has opened for some client.
    pub(super) fn has_opened(&self) -> bool {
        self.known.lock().has_opened
    }

    /// Is notified of each event.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns why no server runs. The text has passed `redact`. `None` while one runs, and before any has ended.
    pub(super) fn cause(&self, redact: Option<&Redact>) -> Option<Box<str>> {
        let last = self.outage()?.last?.to_string();
        Some(redact.map_or_else(|| last.clone(), |redact| redact(&last)).into())
    }

    /// Returns the state.
    pub(super) fn state(&self) -> TargetState {
        let known = self.known.lock();
        let next_attempt = remaining(known.next);
        if !known.running.is_empty() {
            TargetState::Connected
        } else if !known.starting.is_empty() {
            TargetState::Starting
        } else if next_attempt.is_zero() {
            // A readiness check must let clients come again: only they start its next server.
            TargetState::Idle
        } else if known.failures >= DEAD_AFTER {
            TargetState::Dead
        } else {
            TargetState::CoolingDown { next_attempt }
        }
    }

    /// Whether a list waits for this target: a server runs, or one may be started that is not known to fail. While one is
    /// started again, lists are sent without it, so that a server that never opens does not delay each of them.
    pub(super) fn is_ready(&self) -> bool {
        let known = self.known.lock();
        let may_start =
            remaining(known.next).is_zero() && (known.starting.is_empty() || known.next.is_none());
        !known.running.is_empty() || may_start
    }

    /// A list or an opening of this caller has waited for this target, for as long as it may.
    pub(super) fn was_late(&self, caller: &Caller) {
        let (mut known, now) = (self.known.lock(), Instant::now());
        let times = match known.late.iter().find(|late| late.caller == *caller) {
            // Two have waited at the same time.
            Some(late) if late.until > now => return,
            Some(late) => late.times,
            None => 0,
        };
        known.late.retain(|late| late.caller != *caller);
        if known.late.len() == MAX_LATE_CALLERS {
            known.late.pop_front();
        }
        let until = now + FIRST_LATE.saturating_mul(1 << times.min(16)).min(MAX_LATE);
        let start = known.running.is_empty();
        known.late.push_back(Late { caller: caller.clone(), times: times + 1, until, start });
    }

    /// This target has answered a list of this caller.
    pub(super) fn was_in_time(&self, caller: &Caller) {
        self.known.lock().late.retain(|late| late.caller != *caller);
    }

    /// Whether lists of this caller do not wait for this target, because it has waited in vain not long ago.
    pub(super) fn is_late(&self, caller: &Caller) -> bool {
        let (known, now) = (self.known.lock(), Instant::now());
        known.late.iter().any(|late| late.caller == *caller && late.until > now)
    }

    /// The same for the start of a server.
    pub(super) fn starts_late(&self, caller: &Caller) -> bool {
        let (known, now) = (self.known.lock(), Instant::now());
        known.late.iter().any(|late| late.start && late.caller == *caller && late.until > now)
    }

    /// Returns why no server of this target can be used or started at the moment. `None` if one may be.
    pub(super) fn cooling_down(&self) -> Option<CoolingDown> {
        let known = self.known.lock();
        let next_attempt = remaining(known.next);
        let is_restarting = !known.restarting.is_empty();
        (known.running.is_empty() && (is_restarting || !next_attempt.is_zero()))
            .then(|| CoolingDown { last: known.last.clone(), next_attempt })
    }

    /// Returns why no server of this target runs, also while the next one starts. `None` if one runs, or if none has
    /// failed.
    pub(super) fn outage(&self) -> Option<CoolingDown> {
        let known = self.known.lock();
        let next_attempt = remaining(known.next);
        (known.running.is_empty() && known.next.is_some())
            .then(|| CoolingDown { last: known.last.clone(), next_attempt })
    }

    /// Waits while a server that has exited is started again for the first time, for [`RESTART_WAIT`] at most. Without the
    /// number of a server: while no other one runs.
    pub(super) async fn restarted(&self, upstream: Option<u64>) {
        let is_restarting = || {
            let known = self.known.lock();
            match upstream {
                Some(upstream) => known.restarting.get(&upstream) == Some(&true),
                None => known.running.is_empty() && known.restarting.values().any(|is_first| *is_first),
            }
        };
        let mut changes = self.changes();
        let restarted = async { while is_restarting() && changes.changed().await.is_ok() {} };
        // Afterwards the request says why there is no server.
        drop(timeout(RESTART_WAIT, restarted).await);
    }

    /// Waits until a server may be started.
    pub(super) async fn ready_to_start(&self) {
        loop {
            let next = {
                let known = self.known.lock();
                known.next.filter(|next| known.running.is_empty() && *next > Instant::now())
            };
            let Some(next) = next else { return };
            let mut changes = self.changes();
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                () = sleep_until(next) => {}
            }
        }
    }
}

fn remaining(next: Option<Instant>) -> Duration {
    next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()))
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::session::CloseCause;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_target_whose_starts_fail_cools_down_for_longer_and_longer_and_then_is_dead() {
        let health = TargetHealth::default();
        assert_eq!(health.state(), TargetState::Idle);
        let end = RunExit::Ended(CloseCause::Local);
        let mut delays = Vec::new();
        for upstream in 1..=u64::from(DEAD_AFTER) {
            health.note(&GatewayEvent::Starting { upstream });
            assert_eq!(health.state(), TargetState::Starting);
            health.note(&GatewayEvent::Ended { upstream, end: &end, next: None });
            delays.push(health.cooling_down().expect("no server runs").next_attempt);
            if upstream < u64::from(DEAD_AFTER) {
                assert!(matches!(health.state(), TargetState::CoolingDown { .. }), "{upstream}");
            }
            if upstream == u64::from(DEAD_AFTER) {
                assert!(matches!(health.state(), TargetState::Dead));
            }
            health.ready_to_start().await;
            assert!(health.cooling_down().is_none());
            assert_eq!(health.state(), TargetState::Idle);
            assert_eq!(
                health.cause(None).as_deref(),
                Some("the connection was closed by this side"),
                "also when it may be started"
            );
        }
        assert_eq!((delays[0], delays[1], delays[11]), (FIRST_DELAY, FIRST_DELAY * 2, MAX_DELAY));
        health.note(&GatewayEvent::Started { upstream: 13, run: 1 });
        assert_eq!((health.state(), health.cause(None)), (TargetState::Connected, None));
        health.note(&GatewayEvent::Over { upstream: 13 });
        assert_eq!(health.state(), TargetState::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_is_late_for_longer_and_longer_for_each_caller_that_has_waited_and_callers_are_limited()
    {
        let (health, other) = (TargetHealth::default(), Caller::Local);
        let caller = |number: usize| Caller::Principal(number.to_string().into());
        let mut pauses = Vec::new();
        for _ in 0..7 {
            health.was_late(&caller(0));
            // Another list that has waited at the same time changes nothing.
            health.was_late(&caller(0));
            let began = Instant::now();
            while health.is_late(&caller(0)) {
                assert!(!health.is_late(&other));
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            pauses.push(began.elapsed());
        }
        assert_eq!((pauses[0], pauses[1], pauses[6]), (FIRST_LATE, FIRST_LATE * 2, MAX_LATE));
        (0..=MAX_LATE_CALLERS).for_each(|number| health.was_late(&caller(number)));
        assert!(
            !health.is_late(&caller(0))
                && health.is_late(&caller(1))
                && health.is_late(&caller(MAX_LATE_CALLERS))
        );
        health.was_in_time(&caller(1));
        assert!(!health.is_late(&caller(1)) && health.is_late(&caller(2)));
        health.note(&GatewayEvent::Started { upstream: 1, run: 1 });
        assert!(!health.is_late(&caller(2)), "it has answered now");
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_may_begin_as_soon_as_another_server_of_the_target_runs() {
        let health = TargetHealth::default();
        let end = RunExit::Ended(CloseCause::Local);
        health.note(&GatewayEvent::Ended { upstream: 1, end: &end, next: Some(Duration::from_secs(9)) });
        let began = Instant::now();
        let started = async {
            tokio::time::advance(Duration::from_secs(1)).await;
            health.note(&GatewayEvent::Started { upstream: 1, run: 2 });
        };
        tokio::join!(health.ready_to_start(), started);
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }
}
