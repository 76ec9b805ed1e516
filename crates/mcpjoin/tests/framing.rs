//! Tests of a client with group A of the adversarial catalogue: real bytes from a real child process, through real
//! pipes. `fixtures/bytes.py` writes them; each case is one of its tools. (The server is tested with the binary, in
//! `crates/cli/tests/runner/bytes.rs`.)
//!
//! After each case the same connection answers a ping.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use mcpjoin_test_support as support;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcpjoin::client::{ClientError, ToolCall};
use mcpjoin::proto::Era;
use mcpjoin::proto::session::{CallError, EraChoice, Violation};
use mcpjoin::transport::ChildHandle;
use mcpjoin::{Client, proto::types::CallToolResult};
use support::{fixture, run};

/// A timeout that no call reaches: a call that must fail for another reason fails long before.
const NEVER: Duration = Duration::from_secs(20);

struct Peer {
    client: Client,
    child: ChildHandle,
    violations: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    async fn start(words: &[&str]) -> Self {
        let command = fixture("bytes.py").args(words);
        let child = command.handle();
        let violations = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&violations);
        let client = Client::builder("framing", "1")
            .era(EraChoice::Only(Era::Legacy))
            .on_violation(move |violation: &Violation| noted.lock().unwrap().push(violation.to_string()))
            .connect(command.start().await.unwrap())
            .await
            .unwrap();
        Self { client, child, violations }
    }

    fn call(&self, case: &str) -> ToolCall {
        self.client.call_tool(case, ()).timeout(NEVER)
    }

    /// Calls the tool of a case, which answers; then checks that the connection is alive. Returns what the client has
    /// reported about the bytes before the response.
    async fn answers(&self, case: &str) -> Vec<String> {
        let result = self.call(case).await.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(said(&result), "fine", "{case}");
        self.client.ping().await.unwrap();
        std::mem::take(&mut self.violations.lock().unwrap())
    }

    /// Calls the tool of a case whose response is no message. The call fails at once with these words; nothing else fails.
    async fn fails_alone(&self, case: &str, words: &str) {
        let began = Instant::now();
        let (error, other) = tokio::join!(self.call(case), self.call("fine"));
        let error = error.unwrap_err();
        assert!(error.to_string().contains(words), "{case}: {error}");
        assert!(!error.is_fatal(), "{case}: {error}");
        assert!(began.elapsed() < NEVER / 2, "{case}: {:?}", began.elapsed());
        assert_eq!(said(&other.unwrap()), "fine");
        self.client.ping().await.unwrap();
    }
}

fn said(result: &CallToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

/// Runs one case with its own peer: exactly one line is refused, for this reason.
#[track_caller]
fn refused_once(case: &str, words: &str) {
    run(async {
        let told = Peer::start(&[]).await.answers(case).await;
        assert_eq!(told.len(), 1, "{case}: {told:?}");
        assert!(told[0].contains(words), "{case}: {told:?}");
    });
}

/// Runs one case with its own peer: every line is accepted.
fn accepted(case: &str) {
    run(async { assert_eq!(Peer::start(&[]).await.answers(case).await, [""; 0], "{case}") });
}

#[test]
fn a1_a_line_without_end_is_refused_once() {
    refused_once("without_end", "longer than the limit of 10485760 bytes");
}

#[test]
fn a2_a_reply_of_exactly_the_limit_is_taken_and_one_byte_more_is_not() {
    run(async {
        let peer = Peer::start(&[]).await;
        let exact = peer.call("exact").await.unwrap();
        assert!(said(&exact).len() > 10 * 1024 * 1024 - 100);
        peer.fails_alone("above", "10485760").await;
    });
}

#[test]
fn a4_of_three_replies_the_one_above_the_limit_fails_alone_and_at_once() {
    run(async {
        let peer = Peer::start(&[]).await;
        let (nine, eleven, small) = tokio::join!(peer.call("nine"), peer.call("eleven"), peer.call("fine"));
        assert!(said(&nine.unwrap()).len() > 9 * 1024 * 1024 - 100);
        assert_eq!(said(&small.unwrap()), "fine");
        let error = eleven.unwrap_err();
        let ClientError::Call(CallError::ResponseTooLarge { limit, .. }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(*limit, 10 * 1024 * 1024);
        assert!(error.to_string().contains("limit `message` of 10485760 bytes"), "{error}");
        peer.client.ping().await.unwrap();
    });
}

#[test]
fn a5_carriage_returns_before_line_feeds_are_taken() {
    accepted("crlf");
}

#[test]
fn a6_a_carriage_return_inside_a_line_is_white_space() {
    accepted("lone_cr");
}

#[test]
fn a7_a_byte_order_mark_before_the_first_message_is_taken() {
    run(async {
        let peer = Peer::start(&["bom"]).await;
        let told = peer.answers("fine").await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("byte order mark"), "{told:?}");
    });
}

#[test]
fn a8_utf_16_is_refused_by_its_name() {
    refused_once("utf_16", "UTF-16");
}

#[test]
fn a9_nul_bytes_between_and_inside_lines_are_refused() {
    run(async {
        let peer = Peer::start(&[]).await;
        let told = peer.answers("nul").await;
        assert_eq!(told.len(), 2, "{told:?}");
        peer.fails_alone("nul_inside", "not JSON").await;
    });
}

#[test]
fn a10_bytes_outside_strings_that_are_no_utf_8_are_refused() {
    refused_once("outside", "not JSON");
}

#[test]
fn a11_bytes_inside_a_string_that_are_no_utf_8_are_never_replaced() {
    refused_once("inside", "UTF-8");
    run(async { Peer::start(&[]).await.fails_alone("inside_reply", "UTF-8").await });
}

#[test]
fn a12_a21_a_reply_that_comes_byte_by_byte_is_the_same_reply() {
    run(async {
        let peer = Peer::start(&[]).await;
        assert_eq!(said(&peer.call("one_by_one").await.unwrap()), "aé€😀");
        peer.client.ping().await.unwrap();
    });
}

#[test]
fn a13_a_raw_line_feed_in_a_string_makes_two_lines_that_are_refused() {
    run(async {
        let told = Peer::start(&[]).await.answers("line_feed").await;
        assert_eq!(told.len(), 2, "{told:?}");
    });
}

#[test]
fn a14_a_million_blank_lines_are_nothing() {
    accepted("blank");
}

#[test]
fn a15_lines_of_white_space_are_nothing() {
    accepted("white");
}

#[test]
fn a16_log_text_between_messages_is_reported_and_the_session_works() {
    refused_once("log_text", "INFO");
}

#[test]
fn a17_log_text_glued_before_a_message_costs_that_line() {
    refused_once("glued", "INFO {");
}

#[test]
fn a18_half_a_line_at_the_end_is_reported_and_the_end_is_clean() {
    run(async {
        let peer = Peer::start(&[]).await;
        let error = peer.call("half_at_the_end").await.unwrap_err();
        assert!(!error.is_retryable(), "{error}");
        peer.client.connection().closed().await;
        assert_eq!(peer.child.exit().map(|exit| exit.to_string()).as_deref(), Some("exit code 0"));
        let told = peer.violations.lock().unwrap().join("\n");
        assert!(told.contains("end"), "{told:?}");
    });
}

#[test]
fn a19_a_whole_reply_without_a_line_feed_at_the_end_is_taken() {
    run(async {
        let peer = Peer::start(&[]).await;
        assert_eq!(said(&peer.call("whole_at_the_end").await.unwrap()), "fine");
        peer.client.connection().closed().await;
        assert_eq!(*peer.violations.lock().unwrap(), [""; 0]);
    });
}

#[test]
fn a20_two_messages_on_one_line_are_none() {
    refused_once("two", "not JSON");
}

#[test]
fn a22_messages_above_64_kib_go_both_ways_through_full_pipes() {
    run(async {
        let peer = Peer::start(&[]).await;
        let message = "x".repeat(100_000);
        let arguments = support::raw(&format!(r#"{{"message":"{message}"}}"#));
        let calls = (0..100).map(|_| peer.client.call_tool("echo", Some(arguments.clone())).into_future());
        for result in futures_util::future::join_all(calls).await {
            assert_eq!(said(&result.unwrap()).len(), message.len());
        }
    });
}

#[test]
fn a24_what_could_end_a_line_goes_there_and_back_on_one() {
    run(async {
        let peer = Peer::start(&[]).await;
        let odd = "\u{2028}\u{2029}\u{85}\n\r\u{0}\u{7f}";
        let arguments = mcpjoin::proto::Raw::from_value(&serde_json::json!({ "message": odd })).unwrap();
        let result = peer.client.call_tool("echo", Some(arguments)).await.unwrap();
        assert_eq!(said(&result), odd);
        peer.client.ping().await.unwrap();
    });
}
