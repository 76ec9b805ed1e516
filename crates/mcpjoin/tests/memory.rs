//! What a client holds while a child sends much, or owes much. The peak of this very process is measured, so these
//! tests are by themselves, and one after the other.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::{Mutex, PoisonError};

use mcpjoin::Client;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::Ask;
use support::{fixture, raw, run};

static ONE_BY_ONE: Mutex<()> = Mutex::new(());

/// What this process holds, or the most that it has held, in KiB.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Runs it; by how many KiB the process has grown meanwhile, at most.
fn growth(test: impl Future<Output = ()>) -> u64 {
    let _alone = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmRSS");
    run(test);
    memory("VmHWM").saturating_sub(before)
}

#[test]
fn f1_e89_ten_thousand_calls_that_a_child_reads_before_it_answers_in_reverse_get_their_own_replies() {
    let grown = growth(async {
        let link = fixture("reverse.py").arg("10000").start().await.unwrap();
        let client = Client::builder("c", "1").ask(Ask::Only(Era::Legacy)).connect(link).await.unwrap();
        let calls = (0..10_000).map(|n| {
            let arguments = raw(&format!(r#"{{"n":{n}}}"#));
            client.call_tool("number", Some(arguments)).into_future()
        });
        let results = futures_util::future::join_all(calls).await;
        for (n, result) in results.into_iter().enumerate() {
            assert_eq!(result.unwrap().content[0].as_text(), Some(n.to_string().as_str()));
        }
        assert_eq!(client.connection().in_flight(), (0, 0));
        client.close().await;
    });
    assert!(grown < 64 * 1024, "{grown} KiB");
}

#[test]
fn a1_a_gibibyte_without_a_line_feed_fills_no_memory() {
    let grown = growth(async {
        let link = fixture("bytes.py").start().await.unwrap();
        let client = Client::builder("c", "1").ask(Ask::Only(Era::Legacy)).connect(link).await.unwrap();
        let result = client.call_tool("gibibyte", None).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("fine"));
        client.ping().await.unwrap();
        client.close().await;
    });
    // The limit of a message, and 16 MiB.
    assert!(grown < 26 * 1024, "{grown} KiB");
}
