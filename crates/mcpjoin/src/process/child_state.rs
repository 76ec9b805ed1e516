//! The state of one child during its shutdown: which step it is at, and when the next one is due.
//!
//! Driven by `supervisor`.
//!
//! ```text
//! Running ─ close ─> EndOfInput ─ 2 s ─> Terminating ─ 2 s ─> Killing ─ 0.5 s ─> gives up
//!    └───────────────────┴─ the child exits ┴────────────────────┘
//!                               │
//!                        no member is left ─────────────────────────> reaped
//!                               │ members are left
//!                        Sweeping (SIGTERM) ─ 0.5 s ─> Clearing (SIGKILL) ─ 0.5 s ─> reaped, survivors reported
//! ```
//!
//! Only a complete scan (see `tree`) shows that no member is left. Until there is one, the scan is repeated every few
//! milliseconds.
//!
//! The exit of the child is observed without reaping it, and it is reaped last: as long as it is a zombie, its id, which is
//! also the id of its group, cannot be reused.

use std::cell::LazyCell;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mcpjoin_proto::session::ProcessExit;
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};

use super::tree::{Completeness, Family, Processes, Relative, handle};
use super::{Forced, Grace, Shared, ShutdownReport, Survivor};

/// From SIGTERM to SIGKILL for the processes that a child has left behind: they have lost their parent and their pipes.
const SIGTERM_GRACE: Duration = Duration::from_millis(500);
/// How long a process may take to die of SIGKILL: longer only when it hangs in the kernel.
const SIGKILL_TIMEOUT: Duration = Duration::from_millis(500);
/// The polling interval where the system offers no event: children without a process handle (Linux before 5.3 and other
/// systems), and members without one.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// When an incomplete scan is repeated. An `execve` takes less.
pub(super) const RESCAN_INTERVAL: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Running,
    EndOfInput,
    Terminating,
    Killing,
    Sweeping,
    Clearing,
}

/// One child and its shutdown.
pub(super) struct ChildState {
    pub(super) shared: Arc<Shared>,
    child: Child,
    /// Becomes readable when the child exits.
    handle: Option<OwnedFd>,
    family: Family,
    step: Step,
    due: Option<Instant>,
    grace: Grace,
    forced: Forced,
    /// The exit of the child was observed, with its status if that is known.
    exit_observed: bool,
    exit: Option<ProcessExit>,
    /// The members that were alive after the exit of the child, by the last scan.
    rest: Vec<Relative>,
    /// How complete the last scan was.
    completeness: Completeness,
    /// The members that the first scan after the exit of the child has found.
    left_behind: Vec<Survivor>,
}

impl ChildState {
    pub(super) fn new(shared: Arc<Shared>, child: Child, family: Family) -> Self {
        let handle = handle(shared.pid);
        Self {
            shared,
            child,
            handle,
            family,
            step: Step::Running,
            due: None,
            grace: Grace::default(),
            forced: Forced::No,
            exit_observed: false,
            exit: None,
            rest: Vec::new(),
            completeness: Completeness::None,
            left_behind: Vec::new(),
        }
    }

    pub(super) const fn family(&self) -> &Family {
        &self.family
    }

    /// Begins the shutdown by closing standard input. The processes are scanned before that: afterwards the child may exit
    /// at once, and its descendants lose their parent.
    pub(super) fn close(
        &mut self,
        now: Instant,
        processes: &Processes,
        grace: Grace,
        stdin: Option<OwnedFd>,
    ) {
        if self.step == Step::Running {
            self.grace = grace;
            self.family.remember(processes);
            drop(stdin);
            self.go(Step::EndOfInput, now, grace.end_of_input);
        }
    }

    /// Kills the child without further grace. Not called between [`look`](Self::look) and [`advance`](Self::advance).
    pub(super) fn kill(&mut self, now: Instant, processes: &Processes) {
        match self.step {
            Step::Running | Step::EndOfInput | Step::Terminating => self.kill_all(now, processes),
            Step::Sweeping => self.kill_members(now),
            Step::Killing | Step::Clearing => {}
        }
    }

    /// The handles whose events advance the shutdown.
    pub(super) fn handles(&self) -> impl Iterator<Item = &OwnedFd> {
        let child = self.handle.iter().filter(|_| !self.has_ended());
        child.chain(self.rest.iter().filter_map(|relative| relative.handle.as_ref()))
    }

    /// When [`advance`](Self::advance) must be called at the latest.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let blind = if self.has_ended() {
            self.rest.iter().any(|relative| relative.handle.is_none())
        } else {
            self.handle.is_none()
        };
        let relook =
            (self.has_ended() && self.completeness == Completeness::Partial).then_some(RESCAN_INTERVAL);
        let tick = relook.or_else(|| blind.then_some(POLL_INTERVAL)).map(|wait| now + wait);
        match (self.due, tick) {
            (Some(due), Some(tick)) => Some(due.min(tick)),
            (due, tick) => due.or(tick),
        }
    }

    /// Checks whether the child has exited, and notifies waiters.
    pub(super) fn look(&mut self) {
        if self.exit_observed {
            return;
        }
        if let Some(exit) = self.observe() {
            self.exit_observed = true;
            self.exit = exit;
            self.shared.publish(|phase| {
                phase.ended = true;
                phase.exit = exit;
            });
        }
    }

    /// Does what is due. `world` is not older than the last [`look`](Self::look). Returns true when the child is finished.
    pub(super) fn advance(
        &mut self,
        now: Instant,
        processes: &LazyCell<Processes, impl FnOnce() -> Processes>,
    ) -> bool {
        if !self.has_ended() {
            if !self.exit_observed {
                return self.take_step(now, processes);
            }
            self.search(processes);
            if self.shared.dropped.load(Ordering::Acquire) {
                self.forced = Forced::Killed;
                self.kill_members(now);
            } else if self.step == Step::Killing {
                self.kill_members(now);
            } else {
                self.terminate_members(now);
            }
            // This scan is older than the signals: a later one shows which members are left.
            if !self.rest.is_empty() {
                return false;
            }
        }
        self.settle(now, processes)
    }

    const fn has_ended(&self) -> bool {
        matches!(self.step, Step::Sweeping | Step::Clearing)
    }

    /// Checks whether the child has exited, without reaping it.
    fn observe(&mut self) -> Option<Option<ProcessExit>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(self.shared.pid), options) {
            Ok(None) | Err(Errno::INTR) => None,
            Ok(Some(status)) => Some(match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Some(ProcessExit::Code(code)),
                (None, Some(signal)) => Some(ProcessExit::Signal(signal)),
                (None, None) => None,
            }),
            // Another part of this process has reaped it: its id may be reused now.
            Err(_) => {
                *self.shared.reaped.lock() = true;
                self.family.lose_root();
                Some(None)
            }
        }
    }

    /// Takes the next step of the shutdown if it is due.
    fn take_step(
        &mut self,
        now: Instant,
        processes: &LazyCell<Processes, impl FnOnce() -> Processes>,
    ) -> bool {
        if self.due.is_none_or(|due| now < due) {
            return false;
        }
        match self.step {
            Step::Running | Step::Sweeping | Step::Clearing => {}
            Step::EndOfInput => {
                self.family.remember(processes);
                self.forced = Forced::Terminated;
                self.terminate();
                self.go(Step::Terminating, now, self.grace.terminate);
            }
            Step::Terminating => self.kill_all(now, processes),
            // SIGKILL has not ended it: it hangs in the kernel. Signal once more and report it as a survivor. The
            // supervisor keeps watching it, so that it leaves no zombie if it exits after all.
            Step::Killing => {
                self.shared.signal_group(Signal::KILL);
                self.due = None;
                self.publish_report();
            }
        }
        false
    }

    fn kill_all(&mut self, now: Instant, processes: &Processes) {
        self.family.remember(processes);
        self.forced = Forced::Killed;
        self.shared.signal_group(Signal::KILL);
        self.go(Step::Killing, now, SIGKILL_TIMEOUT);
    }

    /// Sends SIGTERM, and SIGCONT because a stopped process could not handle it.
    fn terminate(&self) {
        self.shared.signal_group(Signal::TERM);
        self.shared.signal_group(Signal::CONT);
    }

    /// Asks the members that are left to exit.
    fn terminate_members(&mut self, now: Instant) {
        if !self.rest.is_empty() {
            self.terminate();
            for relative in &self.rest {
                relative.signal(Signal::TERM);
                relative.signal(Signal::CONT);
            }
        }
        self.go(Step::Sweeping, now, SIGTERM_GRACE);
    }

    /// Kills the members that are left.
    fn kill_members(&mut self, now: Instant) {
        self.shared.signal_group(Signal::KILL);
        for relative in &self.rest {
            relative.signal(Signal::KILL);
        }
        self.go(Step::Clearing, now, SIGKILL_TIMEOUT);
    }

    /// Checks which members are left. Returns true when none is, or when nothing more can be done.
    fn settle(&mut self, now: Instant, processes: &Processes) -> bool {
        self.search(processes);
        let late = self.due.is_some_and(|due| now >= due);
        match self.step {
            _ if self.rest.is_empty() && self.completeness != Completeness::Partial => self.finish(),
            Step::Sweeping if late => {
                self.kill_members(now);
                false
            }
            Step::Clearing if late => self.finish(),
            Step::Clearing => {
                // A process may have been started between the last scan and the last signal.
                for relative in &self.rest {
                    relative.signal(Signal::KILL);
                }
                false
            }
            _ => false,
        }
    }

    fn search(&mut self, processes: &Processes) {
        let found = self.family.living(processes);
        self.rest = found.living;
        self.completeness = found.completeness;
        // An incomplete scan may miss members that the next one finds.
        if self.left_behind.is_empty() {
            // A process that is exiting is not left behind.
            let left = self.rest.iter().filter(|relative| !relative.exiting);
            self.left_behind = left.map(Relative::survivor).collect();
        }
    }

    /// Reaps the child, which has exited, and notifies waiters.
    fn finish(&mut self) -> bool {
        // Where `/proc` shows nothing (other systems, hidden by a sandbox) the group may still have members.
        self.shared.signal_group(Signal::KILL);
        let mut reaped = self.shared.reaped.lock();
        if !*reaped {
            *reaped = true;
            // It is a zombie, so this does not block.
            let _ = self.child.try_wait();
        }
        drop(reaped);
        // A waiter may count the open handles once it is notified.
        self.handle = None;
        self.publish_report();
        true
    }

    fn publish_report(&self) {
        let mut survivors: Vec<_> = self.rest.iter().map(Relative::survivor).collect();
        if !self.shared.ended.load(Ordering::Acquire) {
            survivors.push(Survivor { pid: self.child.id(), name: "(the child itself)".into() });
        }
        let report = ShutdownReport {
            exit: self.exit,
            forced: self.forced,
            left_behind: self.left_behind.clone(),
            survivors,
            complete: self.completeness == Completeness::Whole,
        };
        self.shared.publish(|phase| phase.report = Some(Arc::new(report)));
    }

    /// Enters a step. A grace that overflows the clock never ends.
    fn go(&mut self, step: Step, now: Instant, grace: Duration) {
        self.step = step;
        self.due = now.checked_add(grace);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use rustix::process::Pid;

    use super::super::env_tag::EnvTag;
    use super::super::tree::Scope;
    use super::*;

    /// A child that runs this script and has exited, in the step that kills its remaining members.
    fn clearing(script: &str) -> (Arc<Shared>, ChildState) {
        let mut command = std::process::Command::new("sh");
        let child = command.args(["-c", script]).process_group(0).spawn().expect("a shell");
        let shared = Arc::new(Shared::new(Pid::from_child(&child)));
        let family = Family::new(shared.pid, EnvTag::of_a_child());
        let mut child = ChildState::new(Arc::clone(&shared), child, family);
        while !child.exit_observed {
            child.look();
            std::thread::yield_now();
        }
        child.step = Step::Clearing;
        (shared, child)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn who_is_killed_is_waited_for() {
        let (shared, mut child) = clearing("sleep 1000 & exit");
        let now = Instant::now();
        child.due = Some(now + SIGKILL_TIMEOUT);
        let mut looks = 0;
        while !child.settle(now, &Processes::look(Scope::All)) {
            looks += 1;
        }
        let report = shared.phase.borrow().report.clone().expect("a report");
        assert!(looks > 0 && report.survivors.is_empty(), "{looks} {report:?}");
    }

    /// Every process that a test can start dies of SIGKILL, so this family gets a member that cannot receive signals.
    #[test]
    fn d75_who_cannot_be_ended_is_named() {
        let (shared, mut child) = clearing("exit 0");
        child.completeness = Completeness::Whole;
        child.rest = vec![Relative::out_of_reach(12, "hangs")];
        assert!(child.finish());
        let report = shared.phase.borrow().report.clone().expect("a report");
        assert_eq!(report.survivors, [Survivor { pid: 12, name: "hangs".into() }]);
        assert!(report.complete);
        assert_eq!(report.exit, Some(ProcessExit::Code(0)));
    }
}
