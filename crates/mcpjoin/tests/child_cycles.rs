//! What is left after many children: nothing. Each test is alone in its process while it runs, because it counts what
//! the process has.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use mcpjoin_test_support as support;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use mcpjoin::proto::session::{ProcessExit, TransportEnd};
use mcpjoin::transport::{ChildCommand, Forced, RawLink, ShutdownReport};
use support::{READY, bare, end, note, params, poll_once, settled, sh, zombies};

/// So many of each kind.
const CYCLES: usize = 1000;
/// So many at a time.
const TOGETHER: usize = 50;
/// For those who do not heed what the ladder's step says: soon enough for a thousand of them.
const SOON: Duration = Duration::from_millis(5);
/// For those who do, whatever else the machine does.
const PATIENT: Duration = Duration::from_secs(60);
/// A thousand children take a few seconds.
const DEADLINE: Duration = Duration::from_secs(150);
/// What everything here carries.
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
    // A link that has been closed has reported; one that has been dropped will.
    Cycle { end, report: handle.ended().await.expect("a report") }
}

/// Closes it at once.
async fn close(mut link: RawLink) -> Option<TransportEnd> {
    Some(link.close().await)
}

/// Closes it when it has said that it is there.
async fn close_ready(mut link: RawLink) -> Option<TransportEnd> {
    params(&mut link).await;
    Some(link.close().await)
}

/// Goes through a thousand of them, and then everything must be as it was before.
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
    // The keeper's thread and its pipe come with the first child and stay. Each runtime takes its tasks with it.
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

/// The processes that we have started and that are there.
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
    // In a session of its own, so that it is not in the group.
    let script = format!("setsid sh -c '{READY} exec sleep 1000' & exec cat >/dev/null");
    let holding = || cycle(sh(&script).shutdown(PATIENT, PATIENT), close_ready);
    thousand(holding, |cycle| {
        assert_eq!((cycle.report.forced, cycle.report.exit), (Forced::No, Some(ProcessExit::Code(0))));
    });
}

#[test]
fn d75_who_is_just_being_started_when_the_child_ends_is_found() {
    // When the child ends, what it leaves behind is on its way: through the group, out of it, from one program to
    // the next, with and without a parent.
    let script = "cat >/dev/null; (setsid sh -c 'exec env exec=1 sleep 1000' &) ; exit 0";
    let leaving = || cycle(sh(script).shutdown(PATIENT, PATIENT), close);
    // Few at a time: each has to be told from all the others that are on their way.
    cycles(300, 8, leaving, |cycle| {
        assert_eq!((cycle.report.forced, cycle.report.exit), (Forced::No, Some(ProcessExit::Code(0))));
        assert!(cycle.report.complete);
    });
}

#[test]
fn d68_d76_a_thousand_that_flood_their_standard_error() {
    // Four times what the pipe holds.
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
    // Few at a time: how they end must be known within 500 ms, also on a small machine.
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
            // Polled once: the order to start has gone out. Whether it is ready so soon or not, nobody wants it.
            drop(poll_once(&mut start));
        }
        // A start comes after those before it, on the same thread: all of them have been started by now.
        closed().await;
    });
    // That they are gone is told to nobody.
    let began = Instant::now();
    while !marked().is_empty() || zombies() > 0 {
        assert!(began.elapsed() < support::DEADLINE, "{:?}", marked());
        std::thread::yield_now();
    }
    assert_eq!(settled(), before);
}

/// One child from its beginning to its end: what is needed once is there from now on.
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

/// The most memory that we ever had, in KiB.
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
