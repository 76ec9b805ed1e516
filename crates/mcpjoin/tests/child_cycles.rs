//! Tests that many child processes leave nothing behind. Each test runs alone in its process, because it counts the
//! process's resources.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use mcpjoin_test_support as support;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use mcpjoin::proto::session::{ProcessExit, TransportEnd};
use mcpjoin::transport::{ChildCommand, Forced, RawLink, ShutdownReport};
use support::{READY, bare, end, note, params, poll_once, settled, sh, zombies};

/// The number of children of each kind.
const CYCLES: usize = 1000;
/// The number of children at a time.
const TOGETHER: usize = 50;
/// A step timeout for children that ignore the step: short enough for a thousand of them.
const SOON: Duration = Duration::from_millis(5);
/// A step timeout for children that obey the step, long enough for a busy machine.
const PATIENT: Duration = Duration::from_secs(60);
/// The timeout of a test: a thousand children take a few seconds.
const DEADLINE: Duration = Duration::from_secs(150);
/// The environment variable that marks every process of these tests.
const MARK: &str = "MCPJOIN_TEST_CYCLES";

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, test).await.expect("the test hangs") })
}

/// One child, from its start to the report of its end.
struct Cycle {
    end: Option<TransportEnd>,
    report: ShutdownReport,
}

async fn cycle(command: ChildCommand, live: impl AsyncFnOnce(RawLink) -> Option<TransportEnd>) -> Cycle {
    let command = command.env(MARK, std::process::id().to_string());
    let handle = command.handle();
    let end = live(bare(command.start().await.expect("a shell"))).await;
    // A closed link has sent its report already; a dropped link sends it later.
    Cycle { end, report: handle.ended().await.expect("a report") }
}

/// Closes the link at once.
async fn close(mut link: RawLink) -> Option<TransportEnd> {
    Some(link.close().await)
}

/// Closes the link after the child's first message.
async fn close_ready(mut link: RawLink) -> Option<TransportEnd> {
    params(&mut link).await;
    Some(link.close().await)
}

/// Runs a thousand children, and checks that the process's resources are as before.
#[track_caller]
fn thousand<F: Future<Output = Cycle>>(one: impl Fn() -> F, check: impl Fn(&Cycle)) {
    cycles(CYCLES, TOGETHER, one, check);
}

#[track_caller]
fn cycles<F: Future<Output = Cycle>>(
    all: usize,
    together: usize,
    one: impl Fn() -> F,
    check: impl Fn(&Cycle),
) {
    let _alone = alone();
    // The keeper's thread and its pipe start with the first child and stay. Each runtime ends with its tasks.
    run(one());
    let before = settled();
    run(async {
        let mut cycles = futures_util::stream::repeat_with(&one).take(all).buffer_unordered(together);
        let mut count = 0;
        while let Some(cycle) = cycles.next().await {
            assert_eq!(cycle.report.survivors, []);
            check(&cycle);
            count += 1;
        }
        assert_eq!(count, all);
    });
    assert_eq!(settled(), before);
    assert_eq!(marked(), Vec::<String>::new());
}

/// The processes that these tests have started and that still run.
fn marked() -> Vec<String> {
    let variable = format!("{MARK}={}", std::process::id());
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let ours = processes.filter(|path| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|known| known == variable.as_bytes())
    });
    ours.map(|path| std::fs::read_to_string(path.join("cmdline")).unwrap_or_default()).collect()
}

#[test]
fn d76_a_thousand_polite_children() {
    let polite = || cycle(ChildCommand::new("cat").shutdown(PATIENT, PATIENT), close);
    thousand(polite, |cycle| {
        assert_eq!((cycle.report.forced, cycle.report.exit), (Forced::No, Some(ProcessExit::Code(0))));
    });
}

#[test]
fn d71_d76_a_thousand_that_are_deaf_to_the_end_of_input() {
    let deaf = || cycle(ChildCommand::new("sleep").arg("1000").shutdown(SOON, PATIENT), close);
    thousand(deaf, |cycle| {
        let expected = (Forced::Terminated, Some(ProcessExit::Signal(15)));
        assert_eq!((cycle.report.forced, cycle.report.exit), expected);
    });
}

#[test]
fn d72_d76_a_thousand_that_are_deaf_to_sigterm() {
    let script = format!("trap '' TERM; {READY} exec sleep 1000");
    let deaf = || cycle(sh(&script).shutdown(SOON, SOON), close_ready);
    thousand(deaf, |cycle| {
        let expected = (Forced::Killed, Some(ProcessExit::Signal(9)));
        assert_eq!((cycle.report.forced, cycle.report.exit), expected);
    });
}

#[test]
fn d73_d76_a_thousand_wrappers_with_a_server_behind_them() {
    let script = format!("sleep 1000 & {READY} wait");
    let wrapper = || cycle(sh(&script).shutdown(SOON, PATIENT), close_ready);
    thousand(wrapper, |cycle| {
        assert_eq!(cycle.report.forced, Forced::Terminated);
        assert!(cycle.report.exit.is_some());
    });
}

#[test]
fn d74_d75_d76_a_thousand_with_a_grandchild_that_holds_the_pipes() {
    // The grandchild has its own session, so it is not in the process group.
    let script = format!("setsid sh -c '{READY} exec sleep 1000' & exec cat >/dev/null");
    let holding = || cycle(sh(&script).shutdown(PATIENT, PATIENT), close_ready);
    thousand(holding, |cycle| {
        assert_eq!((cycle.report.forced, cycle.report.exit), (Forced::No, Some(ProcessExit::Code(0))));
    });
}

#[test]
fn d75_who_is_just_being_started_when_the_child_ends_is_found() {
    // When the child ends, its grandchild is changing its state: it is in the group or out of it, changes from one
    // program to the next, and has a parent or none.
    let script = "cat >/dev/null; (setsid sh -c 'exec env exec=1 sleep 1000' &) ; exit 0";
    let leaving = || cycle(sh(script).shutdown(PATIENT, PATIENT), close);
    // Few at a time: each grandchild must be distinguished from all others that change meanwhile.
    cycles(300, 8, leaving, |cycle| {
        assert_eq!((cycle.report.forced, cycle.report.exit), (Forced::No, Some(ProcessExit::Code(0))));
        assert!(cycle.report.complete);
    });
}

#[test]
fn d68_d76_a_thousand_that_flood_their_standard_error() {
    // This is four times the size of the pipe.
    let script = format!("head -c 262144 /dev/zero >&2; {READY} exec cat >/dev/null");
    let flooding = || cycle(sh(&script).shutdown(PATIENT, PATIENT), close_ready);
    thousand(flooding, |cycle| {
        assert_eq!((cycle.report.forced, cycle.report.exit), (Forced::No, Some(ProcessExit::Code(0))));
        assert_eq!(cycle.end.as_ref().unwrap().stderr.len(), 64 * 1024);
    });
}

#[test]
fn d76_a_thousand_that_die_at_once() {
    let dying = || {
        cycle(sh("echo gone >&2; exit 7"), async |mut link| {
            let end = end(&mut link).await;
            drop(link);
            Some(end)
        })
    };
    // Few at a time: the exit status must be known within 500 ms, also on a small machine.
    cycles(CYCLES, 8, dying, |cycle| {
        let end = cycle.end.as_ref().unwrap();
        assert_eq!((end.exit, &end.stderr[..]), (Some(ProcessExit::Code(7)), &b"gone\n"[..]));
        assert_eq!((cycle.report.forced, cycle.report.exit), (Forced::No, Some(ProcessExit::Code(7))));
    });
}

#[test]
fn d76_d81_a_thousand_that_are_stopped() {
    let script = format!("{READY} kill -STOP $$; exec sleep 1000");
    let stopped = || cycle(sh(&script).shutdown(SOON, PATIENT), close_ready);
    thousand(stopped, |cycle| {
        let expected = (Forced::Terminated, Some(ProcessExit::Signal(15)));
        assert_eq!((cycle.report.forced, cycle.report.exit), expected);
    });
}

#[test]
fn d76_d79_a_thousand_that_are_dropped() {
    let dropped = || {
        cycle(ChildCommand::new("sleep").arg("1000"), async |link| {
            drop(link);
            None
        })
    };
    thousand(dropped, |cycle| {
        let expected = (Forced::Killed, Some(ProcessExit::Signal(9)));
        assert_eq!((cycle.report.forced, cycle.report.exit), expected);
    });
}

#[test]
fn d79_a_start_that_is_abandoned_leaves_no_process() {
    let _alone = alone();
    run(closed());
    let before = settled();
    run(async {
        for _ in 0..100 {
            let command = ChildCommand::new("sleep").arg("1000").env(MARK, std::process::id().to_string());
            let mut start = Box::pin(command.start());
            // One poll sends the order to start. The future is dropped then, whether the child has started or not.
            drop(poll_once(&mut start));
        }
        // Starts run in order on one thread: after this one, all earlier starts have run.
        closed().await;
    });
    // No event reports the end of these processes, so the test polls.
    let began = Instant::now();
    while !marked().is_empty() || zombies() > 0 {
        assert!(began.elapsed() < support::DEADLINE, "{:?}", marked());
        std::thread::yield_now();
    }
    assert_eq!(settled(), before);
}

/// Runs one child from start to end; afterwards the shared resources exist.
async fn closed() {
    close(bare(ChildCommand::new("cat").start().await.expect("cat"))).await;
}

#[test]
fn d68_a_gibibyte_on_standard_error_takes_no_memory() {
    let _alone = alone();
    run(async {
        let command = sh(&format!(
            "head -c 536870912 /dev/zero >&2; {READY} read -r line; head -c 536870912 /dev/zero >&2; {READY} exec cat >/dev/null"
        ));
        let mut link = bare(command.shutdown(PATIENT, PATIENT).start().await.expect("a shell"));
        let before = peak();
        params(&mut link).await;
        link.send(note("{}")).await.expect("a reader");
        params(&mut link).await;
        assert_eq!(link.close().await.stderr.len(), 64 * 1024);
        let grown = peak() - before;
        assert!(grown < 8 * 1024, "{grown} KiB");
    });
}

/// The peak memory of this process, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim_end_matches("kB").trim().parse().unwrap()
}

#[test]
fn d77_a_thousand_failures_leave_nothing() {
    let _alone = alone();
    run(closed());
    let before = settled();
    run(async {
        for _ in 0..CYCLES / 2 {
            assert!(ChildCommand::new("mcpjoin-no-such-program").start().await.is_err());
            assert!(sh("true").arg("a\0b").start().await.is_err());
        }
    });
    assert_eq!(settled(), before);
}

#[test]
fn d76_many_children_that_end_together_end_in_time() {
    let _alone = alone();
    run(async {
        let mut links = Vec::new();
        for _ in 0..100 {
            links.push(bare(sh("cat").start().await.expect("a shell")));
        }
        let start = Instant::now();
        let ends: Vec<_> =
            links.into_iter().map(|mut link| tokio::spawn(async move { link.close().await })).collect();
        for end in ends {
            assert!(end.await.expect("no panic").exit.is_some());
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    });
    assert_eq!(zombies(), 0);
}
