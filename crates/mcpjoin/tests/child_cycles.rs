//! What is left after many children: nothing. Alone in its process, because it counts what the process has.
#![cfg(target_os = "linux")]

mod support;

use std::time::Instant;

use mcpjoin::link::ChildCommand;
use support::{bare, end, run, sh};

/// The inventory once no runtime is left. The keeper may still be returning from waking us, with a waker in hand
/// that keeps the runtime's driver; that it has let go is nothing that anybody is told, so we look again.
fn settled() -> (Vec<String>, usize, usize) {
    let start = Instant::now();
    loop {
        let now = inventory();
        if !now.0.iter().any(|file| file.contains("eventpoll")) || start.elapsed() > support::DEADLINE {
            return now;
        }
        std::thread::yield_now();
    }
}

/// What a process can leak: file descriptors and what they are, threads, zombies.
fn inventory() -> (Vec<String>, usize, usize) {
    let mut files: Vec<_> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string()))
        .collect();
    files.sort();
    (files, std::fs::read_dir("/proc/self/task").unwrap().count(), support::zombies())
}

async fn closed(script: &str) {
    let mut link = bare(sh(script).start().await.expect("a shell"));
    link.close().await;
}

async fn exited(script: &str) {
    let command = sh(script);
    let handle = command.handle();
    let mut link = bare(command.start().await.expect("a shell"));
    end(&mut link).await;
    drop(link);
    handle.ended().await.expect("a report");
}

async fn dropped(script: &str) {
    let command = sh(script);
    let handle = command.handle();
    drop(command.start().await.expect("a shell"));
    handle.ended().await.expect("a report");
}

#[test]
fn d76_d77_two_hundred_children_and_as_many_failures_leave_nothing() {
    // Each runtime takes its tasks with it, so nothing of them is counted. The keeper's thread and its pipe come
    // with the first child and stay.
    run(closed("cat"));
    let before = settled();
    run(async {
        for _ in 0..50 {
            closed("cat").await;
            exited("exit 1").await;
            exited("echo text >&2; kill -9 $$").await;
            dropped("exec sleep 1000").await;
        }
        for _ in 0..100 {
            let gone = ChildCommand::new("mcpjoin-no-such-program").start().await;
            assert!(gone.is_err());
            assert!(sh("true").current_dir("/no/such/place").start().await.is_err());
        }
    });
    assert_eq!(settled(), before);
}
