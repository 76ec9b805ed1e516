//! What is left after many children: nothing. Alone in its process, because it counts what the process has.
#![cfg(target_os = "linux")]

mod support;

use std::time::{Duration, Instant};

use mcpjoin::link::ChildCommand;
use support::{bare, end, run, settled, sh};

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

#[test]
fn d76_many_children_that_end_together_end_in_time() {
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
        println!("{:?}", start.elapsed());
    });
    assert_eq!(support::zombies(), 0);
}
