//! One child as the keeper sees it: which step of the ladder it is on and when the next one is due.
//!
//! ```text
//! Running ─ close ─> EndOfInput ─ 2 s ─> Terminating ─ 2 s ─> Killing ─ 0.5 s ─> given up
//!    └───────────────────┴─ the child ends ─┴────────────────────┘
//!                               │
//!                        nobody is left ────────────────────────────> reaped
//!                               │ somebody is
//!                        Sweeping (SIGTERM) ─ 0.5 s ─> Clearing (SIGKILL) ─ 0.5 s ─> reaped, survivors told
//! ```
//!
//! "Nobody is left" is said by a settled look (see `tree`); until there is one, it is looked again every few
//! milliseconds.
//!
//! The child is observed without being waited for, and is waited for last of all: as long as it is a zombie its
//! id, which is also the id of its group, cannot belong to anybody else.

use std::cell::LazyCell;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use mcpjoin_proto::session::ProcessExit;
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};

use super::tree::{Family, Relative, Sight, World, handle};
use super::{Forced, Grace, Shared, ShutdownReport, Survivor};

/// From SIGTERM to SIGKILL for what a child has left behind: it has lost its parent and its pipes already.
const SWEEP: Duration = Duration::from_millis(500);
/// How long something may take to die of SIGKILL: longer only when it hangs in the kernel.
const DEATH: Duration = Duration::from_millis(500);
/// How often to look where the system offers nothing to wait for: children without a process handle (Linux before
/// 5.3 and other systems), and relatives without one.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// How soon to look again when a look was not settled. An `execve` takes less.
pub(super) const RELOOK: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Running,
    EndOfInput,
    Terminating,
    Killing,
    Sweeping,
    Clearing,
}

/// One child and what is to be done with it.
pub(super) struct Kept {
    pub(super) shared: Arc<Shared>,
    child: Child,
    /// Becomes readable when the child ends.
    handle: Option<OwnedFd>,
    family: Family,
    step: Step,
    due: Option<Instant>,
    grace: Grace,
    forced: Forced,
    /// The child has ended, in this way if that is known.
    noticed: bool,
    exit: Option<ProcessExit>,
    /// What lives of the family after the child's end, as of the last look.
    rest: Vec<Relative>,
    /// How much was seen in the last look.
    sight: Sight,
    /// Whoever was found first once the child had ended.
    left_behind: Vec<Survivor>,
}

impl Kept {
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
            noticed: false,
            exit: None,
            rest: Vec::new(),
            sight: Sight::None,
            left_behind: Vec::new(),
        }
    }

    pub(super) const fn family(&self) -> &Family {
        &self.family
    }

    /// The shutdown ladder begins with closing standard input. Before that we look who is there: afterwards the
    /// child may be gone at once, and with it the parentage of what it has started.
    pub(super) fn close(&mut self, now: Instant, world: &World, grace: Grace, stdin: Option<OwnedFd>) {
        if self.step == Step::Running {
            self.grace = grace;
            self.family.remember(world);
            drop(stdin);
            self.go(Step::EndOfInput, now, grace.end_of_input);
        }
    }

    /// No grace any more. Not called between [`look`](Self::look) and [`advance`](Self::advance).
    pub(super) fn kill(&mut self, now: Instant, world: &World) {
        match self.step {
            Step::Running | Step::EndOfInput | Step::Terminating => self.kill_all(now, world),
            Step::Sweeping => self.clear(now),
            Step::Killing | Step::Clearing => {}
        }
    }

    /// What to wait for.
    pub(super) fn handles(&self) -> impl Iterator<Item = &OwnedFd> {
        let child = self.handle.iter().filter(|_| !self.has_ended());
        child.chain(self.rest.iter().filter_map(|relative| relative.handle.as_ref()))
    }

    /// When to look again at the latest.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let blind = if self.has_ended() {
            self.rest.iter().any(|relative| relative.handle.is_none())
        } else {
            self.handle.is_none()
        };
        let relook = (self.has_ended() && self.sight == Sight::Partial).then_some(RELOOK);
        let tick = relook.or_else(|| blind.then_some(TICK)).map(|wait| now + wait);
        match (self.due, tick) {
            (Some(due), Some(tick)) => Some(due.min(tick)),
            (due, tick) => due.or(tick),
        }
    }

    /// Looks whether the child has ended, and tells.
    pub(super) fn look(&mut self) {
        if self.noticed {
            return;
        }
        if let Some(exit) = self.observe() {
            self.noticed = true;
            self.exit = exit;
            self.shared.publish(|phase| {
                phase.ended = true;
                phase.exit = exit;
            });
        }
    }

    /// Does what is due. `world` is not older than the last [`look`](Self::look). True when the child is done with.
    pub(super) fn advance(&mut self, now: Instant, world: &LazyCell<World, impl FnOnce() -> World>) -> bool {
        if !self.has_ended() {
            if !self.noticed {
                return self.climb(now, world);
            }
            self.search(world);
            if self.shared.dropped.load(Ordering::Acquire) {
                self.forced = Forced::Killed;
                self.clear(now);
            } else if self.step == Step::Killing {
                self.clear(now);
            } else {
                self.sweep(now);
            }
            // Who is left now, a later look must tell: this one is older than the signals.
            if !self.rest.is_empty() {
                return false;
            }
        }
        self.settle(now, world)
    }

    const fn has_ended(&self) -> bool {
        matches!(self.step, Step::Sweeping | Step::Clearing)
    }

    /// Looks whether the child has ended, and leaves it a zombie.
    fn observe(&mut self) -> Option<Option<ProcessExit>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(self.shared.pid), options) {
            Ok(None) | Err(Errno::INTR) => None,
            Ok(Some(status)) => Some(match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Some(ProcessExit::Code(code)),
                (None, Some(signal)) => Some(ProcessExit::Signal(signal)),
                (None, None) => None,
            }),
            // Somebody else in this process has waited for it: it is gone, and its id is not ours any more.
            Err(_) => {
                *self.shared.reaped.lock().unwrap_or_else(PoisonError::into_inner) = true;
                self.family.lose_root();
                Some(None)
            }
        }
    }

    /// The next step of the ladder, when it is due.
    fn climb(&mut self, now: Instant, world: &LazyCell<World, impl FnOnce() -> World>) -> bool {
        if self.due.is_none_or(|due| now < due) {
            return false;
        }
        match self.step {
            Step::Running | Step::Sweeping | Step::Clearing => {}
            Step::EndOfInput => {
                self.family.remember(world);
                self.forced = Forced::Terminated;
                self.terminate();
                self.go(Step::Terminating, now, self.grace.terminate);
            }
            Step::Terminating => self.kill_all(now, world),
            // Not even SIGKILL has ended it: it hangs in the kernel. Once more, and the report says that it is
            // still there; the keeper goes on watching it, so that it is no zombie when it ends after all.
            Step::Killing => {
                self.shared.signal_group(Signal::KILL);
                self.due = None;
                self.publish_report();
            }
        }
        false
    }

    fn kill_all(&mut self, now: Instant, world: &World) {
        self.family.remember(world);
        self.forced = Forced::Killed;
        self.shared.signal_group(Signal::KILL);
        self.go(Step::Killing, now, DEATH);
    }

    /// SIGTERM, and SIGCONT for whoever is stopped and could not take it.
    fn terminate(&self) {
        self.shared.signal_group(Signal::TERM);
        self.shared.signal_group(Signal::CONT);
    }

    /// Asks what is left to go.
    fn sweep(&mut self, now: Instant) {
        if !self.rest.is_empty() {
            self.terminate();
            for relative in &self.rest {
                relative.signal(Signal::TERM);
                relative.signal(Signal::CONT);
            }
        }
        self.go(Step::Sweeping, now, SWEEP);
    }

    /// Ends what is left.
    fn clear(&mut self, now: Instant) {
        self.shared.signal_group(Signal::KILL);
        for relative in &self.rest {
            relative.signal(Signal::KILL);
        }
        self.go(Step::Clearing, now, DEATH);
    }

    /// Looks who is left. True when nobody is, or when nothing more can be done.
    fn settle(&mut self, now: Instant, world: &World) -> bool {
        self.search(world);
        let late = self.due.is_some_and(|due| now >= due);
        match self.step {
            _ if self.rest.is_empty() && self.sight != Sight::Partial => self.finish(),
            Step::Sweeping if late => {
                self.clear(now);
                false
            }
            Step::Clearing if late => self.finish(),
            Step::Clearing => {
                // Somebody may have been born between the last look and the last signal.
                for relative in &self.rest {
                    relative.signal(Signal::KILL);
                }
                false
            }
            _ => false,
        }
    }

    fn search(&mut self, world: &World) {
        let found = self.family.living(world);
        self.rest = found.living;
        self.sight = found.sight;
        // A look that is not settled may miss whom the next one finds.
        if self.left_behind.is_empty() {
            // Whoever is about to be gone by itself is not left.
            let left = self.rest.iter().filter(|relative| !relative.exiting);
            self.left_behind = left.map(Relative::survivor).collect();
        }
    }

    /// Waits for the child, which has ended, and tells everybody.
    fn finish(&mut self) -> bool {
        // Where `/proc` shows nothing (other systems, hidden by a sandbox) the group may still have members.
        self.shared.signal_group(Signal::KILL);
        let mut reaped = self.shared.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            *reaped = true;
            // It is a zombie, so this does not block.
            let _ = self.child.try_wait();
        }
        drop(reaped);
        // Whoever hears of the end may count what is left of it.
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
            complete: self.sight == Sight::Whole,
        };
        self.shared.publish(|phase| phase.report = Some(Arc::new(report)));
    }

    /// A grace that no clock can hold has no end.
    fn go(&mut self, step: Step, now: Instant, grace: Duration) {
        self.step = step;
        self.due = now.checked_add(grace);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use rustix::process::Pid;

    use super::super::mark::Mark;
    use super::super::tree::Scope;
    use super::*;

    /// A child that runs this script and has ended, when what it has left is being killed.
    fn clearing(script: &str) -> (Arc<Shared>, Kept) {
        let mut command = std::process::Command::new("sh");
        let child = command.args(["-c", script]).process_group(0).spawn().expect("a shell");
        let shared = Arc::new(Shared::new(Pid::from_child(&child)));
        let family = Family::new(shared.pid, Mark::of_a_child());
        let mut kept = Kept::new(Arc::clone(&shared), child, family);
        while !kept.noticed {
            kept.look();
            std::thread::yield_now();
        }
        kept.step = Step::Clearing;
        (shared, kept)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn who_is_killed_is_waited_for() {
        let (shared, mut kept) = clearing("sleep 1000 & exit");
        let now = Instant::now();
        kept.due = Some(now + DEATH);
        let mut looks = 0;
        while !kept.settle(now, &World::look(Scope::Everybody)) {
            looks += 1;
        }
        let report = shared.phase.borrow().report.clone().expect("a report");
        assert!(looks > 0 && report.survivors.is_empty(), "{looks} {report:?}");
    }

    /// Nothing that a test may start survives SIGKILL, so here somebody is put into the family who is out of reach.
    #[test]
    fn d75_who_cannot_be_ended_is_named() {
        let (shared, mut kept) = clearing("exit 0");
        kept.sight = Sight::Whole;
        kept.rest = vec![Relative::out_of_reach(12, "hangs")];
        assert!(kept.finish());
        let report = shared.phase.borrow().report.clone().expect("a report");
        assert_eq!(report.survivors, [Survivor { pid: 12, name: "hangs".into() }]);
        assert!(report.complete);
        assert_eq!(report.exit, Some(ProcessExit::Code(0)));
    }
}
