//! Tests of a client with real child processes that have the habits and the faults of existing servers: the faults F1
//! to F36 of the source documents, and group C of the adversarial catalogue, as far as a child process can show them.
//!
//! `fixtures/strict.py` insists on the lifecycle; each habit is one of its tools.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use mcpjoin_test_support as support;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mcpjoin::client::{ClientBuilder, ClientError, ConnectError};
use mcpjoin::proto::json::WriteError;
use mcpjoin::proto::session::{
    CallError, CloseCause, EraChoice, Inbound, Limits, NegotiationFailure, ProcessExit, TransportEndKind,
    Violation,
};
use mcpjoin::proto::types::CallToolResult;
use mcpjoin::proto::{Era, Message, Method, Payload, Raw, Request, RequestId, code};
use mcpjoin::transport::{ChildCommand, ChildHandle, SpawnErrorKind};
use mcpjoin::{Client, Link};
use serde_json::{Value, json};
use support::{bare, fixture, raw, run, sh, takes_less_than};
use tokio::io::AsyncWriteExt as _;

/// A file in which a strict server counts its calls.
struct Calls(PathBuf);

impl Calls {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        Self(path)
    }

    fn counted(&self) -> usize {
        std::fs::read_to_string(&self.0).unwrap().lines().count()
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // A failure to remove the file does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn legacy() -> ClientBuilder {
    Client::builder("peers", "1").era(EraChoice::Only(Era::Legacy))
}

async fn strict(calls: &Calls) -> (Client, ChildHandle) {
    let command = fixture("strict.py").arg(&calls.0);
    let child = command.handle();
    (legacy().connect(command.start().await.unwrap()).await.unwrap(), child)
}

fn said(result: &CallToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

/// Calls a tool that answers, and returns the text of its result.
#[track_caller]
fn tool(name: &str) -> String {
    run(async {
        let calls = Calls::new(name);
        let (client, child) = strict(&calls).await;
        let text = said(&client.call_tool(name, ()).await.unwrap()).to_owned();
        client.ping().await.unwrap();
        client.close().await;
        assert_eq!(child.exit(), Some(ProcessExit::Code(0)), "{:?}", child.stderr());
        text
    })
}

#[test]
fn f2_what_stands_before_a_reply_does_not_break_it() {
    assert_eq!(tool("noise"), "fine");
}

#[test]
fn f3_a_request_with_the_id_of_ours_is_no_reply_to_it() {
    let answered: Value = serde_json::from_str(&tool("same_id")).unwrap();
    assert_eq!(answered["result"], json!({}), "{answered}");
    assert!(answered["id"].is_i64(), "{answered}");
}

#[test]
fn f4_f13_what_a_server_asks_is_answered_under_its_own_id() {
    let answered: Vec<Value> = serde_json::from_str(&tool("questions")).unwrap();
    let by_id = |id: Value| answered.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(by_id(json!("a string"))["result"], json!({}));
    assert_eq!(by_id(json!(-7))["result"], json!({}));
    // Capabilities that the client has not declared are not available.
    assert_eq!(by_id(json!(9_007_199_254_740_993_u64))["error"]["code"], code::METHOD_NOT_FOUND);
    assert_eq!(by_id(json!(""))["error"]["code"], code::METHOD_NOT_FOUND);
}

#[test]
fn f5_a_mebibyte_on_standard_error_before_a_reply_blocks_nothing() {
    assert_eq!(tool("stderr"), "fine");
}

#[test]
fn f6_a_reply_that_arrives_in_halves_around_its_timeout_leaves_the_next_right() {
    run(async {
        let calls = Calls::new("halves");
        let (client, _child) = strict(&calls).await;
        let error = client.call_tool("halves", ()).timeout(Duration::from_millis(300)).await.unwrap_err();
        assert!(matches!(error, ClientError::Call(CallError::TimedOut { .. })), "{error}");
        assert_eq!(said(&client.call_tool("fine", ()).await.unwrap()), "fine");
        client.ping().await.unwrap();
    });
}

#[test]
fn f7_a_timeout_is_for_the_call_and_not_for_a_line() {
    run(async {
        let calls = Calls::new("chatter");
        let (client, _child) = strict(&calls).await;
        let began = Instant::now();
        let error = client.call_tool("chatter", ()).timeout(Duration::from_millis(500)).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        let took = began.elapsed();
        assert!((500..5_000).contains(&took.as_millis()), "{took:?}");
        client.ping().await.unwrap();

        // The server stops reading while the client sends a mebibyte.
        let held = client.call_tool("hold", ()).timeout(Duration::from_millis(200)).await;
        assert!(held.is_err());
        let large = raw(&format!(r#"{{"x":"{}"}}"#, "x".repeat(1024 * 1024)));
        let began = Instant::now();
        let error =
            client.call_tool("fine", Some(large)).timeout(Duration::from_millis(500)).await.unwrap_err();
        assert!(matches!(error, ClientError::Call(CallError::TimedOut { .. })), "{error}");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    });
}

#[test]
fn f9_closing_ends_a_call_in_flight_at_once() {
    run(async {
        let calls = Calls::new("closing");
        let (client, child) = strict(&calls).await;
        let calling = tokio::spawn(client.call_tool("never", ()).into_future());
        while calls.counted() == 0 {
            tokio::task::yield_now().await;
        }
        let closer = client.clone();
        let closing = tokio::spawn(async move { closer.close().await });
        // The response never arrives, and the timeout is a minute.
        let error = calling.await.unwrap().unwrap_err();
        assert!(error.is_fatal(), "{error}");
        assert!(
            matches!(&error, ClientError::Call(CallError::Closed(cause)) if **cause == CloseCause::Local),
            "{error:?}"
        );
        closing.await.unwrap();
        assert!(!child.is_running());
    });
}

#[test]
fn f11_c61_all_calls_in_flight_fail_with_the_exit_status_and_standard_error() {
    run(async {
        let calls = Calls::new("dying");
        let (client, _child) = strict(&calls).await;
        let under_way = (0..5).map(|_| client.call_tool("never", ()).into_future());
        let waiting = tokio::spawn(join_all(under_way));
        while calls.counted() < 5 {
            tokio::task::yield_now().await;
        }
        let last = client.call_tool("die", ()).await.unwrap_err();
        let mut errors: Vec<_> = waiting.await.unwrap().into_iter().map(Result::unwrap_err).collect();
        errors.push(last);
        for error in errors {
            let text = error.to_string();
            assert!(text.contains("exit code 3") && text.contains("out of luck"), "{text}");
            assert!(error.is_fatal() && !error.is_retryable(), "{text}");
        }
        assert_eq!(client.exit(), Some(ProcessExit::Code(3)));
    });
}

#[test]
fn f20_a_strict_server_is_satisfied_in_every_version_that_it_may_choose() {
    run(async {
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            for era in [EraChoice::Only(Era::Legacy), EraChoice::Auto] {
                let calls = Calls::new("strict");
                let command = fixture("strict.py").arg(&calls.0).arg(version);
                let child = command.handle();
                let builder = Client::builder("peers", "1").era(era);
                let client = builder.connect(command.start().await.unwrap()).await.unwrap();
                assert_eq!(client.profile().version.as_str(), version);
                assert_eq!(said(&client.call_tool("fine", ()).await.unwrap()), "fine");
                client.close().await;
                assert_eq!(child.exit(), Some(ProcessExit::Code(0)), "{:?}", child.stderr());
            }
        }
    });
}

#[test]
fn f21_a_call_runs_once_whatever_becomes_of_it() {
    run(async {
        let calls = Calls::new("once");
        let (client, child) = strict(&calls).await;
        let error = client.call_tool("delete", ()).timeout(Duration::from_millis(1500)).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        client.ping().await.unwrap();
        assert_eq!(calls.counted(), 1);
        let lost = tokio::spawn(client.call_tool("delete", ()).into_future());
        while calls.counted() == 1 {
            tokio::task::yield_now().await;
        }
        let pid = child.pid().unwrap().to_string();
        assert!(std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
        assert!(lost.await.unwrap().unwrap_err().is_fatal());
        assert_eq!(calls.counted(), 2);
        assert!(client.is_closed(), "nothing connects again by itself");
        assert_eq!(child.pid().map(|now| now.to_string()), Some(pid));
    });
}

#[test]
fn f26_f33_servers_are_talked_to_at_the_same_time_and_a_broken_one_hides_no_other() {
    /// Answers the opening once all five servers were asked, and uses the same tool name as the others.
    fn server(name: &str, asked: &Path) -> ChildCommand {
        let asked = asked.display();
        sh(&format!(
            r#"read -r line; : >'{asked}/{name}'
while [ "$(ls '{asked}' | wc -l)" -lt 5 ]; do sleep 0.05; done
printf '%s\n' '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"{name}","version":"1"}}}}}}'
read -r line; read -r line
printf '%s\n' '{{"jsonrpc":"2.0","id":2,"result":{{"content":[{{"type":"text","text":"{name}"}}]}}}}'
cat >/dev/null"#
        ))
    }
    run(async {
        let names = ["a", "b", "c", "d", "e"];
        let asked = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("asked-{}", std::process::id()));
        std::fs::create_dir(&asked).unwrap();
        let asked = &asked;
        let five = names.map(|name| async move {
            let client = legacy().connect(server(name, asked).start().await.unwrap()).await.unwrap();
            said(&client.call_tool("same", ()).await.unwrap()).to_owned()
        });
        let broken = async { legacy().connect(sh("exit 4").start().await.unwrap()).await.unwrap_err() };
        let (told, broken) = tokio::join!(join_all(five), broken);
        assert_eq!(told, names);
        assert_eq!(broken.exit(), Some(ProcessExit::Code(4)));
        std::fs::remove_dir_all(asked).unwrap();
    });
}

async fn refused(builder: ClientBuilder, command: ChildCommand) -> (ConnectError, Duration) {
    let link = command.start().await.unwrap();
    let began = tokio::time::Instant::now();
    let error = builder.connect(link).await.unwrap_err();
    (error, began.elapsed())
}

/// The probe's five seconds and the thirty of `initialize` pass as soon as all tasks wait: the time is virtual, and
/// the child is real.
#[tokio::test(start_paused = true)]
async fn c57_a_silent_child_is_given_up_after_the_probe_and_initialize() {
    let (error, took) = refused(legacy(), sh("exec sleep 1000")).await;
    assert_eq!(took.as_secs(), 30);
    assert_eq!(error.to_string(), "no answer to initialize within 30 s");
    let (_, took) = refused(Client::builder("c", "1"), sh("exec sleep 1000")).await;
    assert_eq!(took.as_secs(), 35);
}

#[test]
fn c59_a_dead_child_is_reported_within_half_a_second_whatever_it_leaves_behind() {
    run(async {
        // The grandchild holds the pipes open and does not exit.
        let script = "trap '' TERM; sh -c 'while :; do sleep 1; done' & echo gone >&2; exit 7";
        // The time includes the start of the child.
        takes_less_than(Duration::from_millis(1500), async || {
            let began = Instant::now();
            let command = sh(script);
            let child = command.handle();
            let (error, _) = refused(legacy(), command).await;
            let took = began.elapsed();
            assert_eq!(error.exit(), Some(ProcessExit::Code(7)));
            assert!(error.to_string().contains("gone"), "{error}");
            let report = child.ended().await.unwrap();
            assert!(report.survivors.is_empty(), "{report:?}");
            took
        })
        .await;
    });
}

#[test]
fn c58_twenty_lines_that_are_no_messages_are_enough_and_nineteen_are_none_too_many() {
    run(async {
        let lines = |count: u32| {
            format!("i=0; while [ $i -lt {count} ]; do printf 'line %d\\033\\n' $i; i=$((i+1)); done; ")
        };
        // The child does not exit when its input closes; the client sees the close before the child has exited.
        let command = sh(&(lines(20) + "exec sleep 1000"));
        let child = command.handle();
        let (error, took) = refused(legacy(), command).await;
        assert!(child.is_running(), "{took:?}");
        child.ended().await;
        let CloseCause::Opening(NegotiationFailure::Garbage { lines: 20, first }) = &error.cause else {
            panic!("{error:?}")
        };
        assert_eq!(&first[..], b"line 0\x1b");
        assert!(error.to_string().contains(r"line 0\u{1b}"), "{error}");

        let answer = r#"read -r line; printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}}'; cat >/dev/null"#;
        let link = sh(&(lines(19) + answer)).start().await.unwrap();
        legacy().connect(link).await.unwrap().close().await;
    });
}

#[test]
fn r23_the_echo_script_of_the_source_documents_is_a_peer() {
    run(async {
        let mut link = bare(fixture("echo_jsonrpc.py").start().await.unwrap());
        for (id, params) in [(1, r#"{"a":[1,"é",null]}"#), (2, "{}")] {
            let request = Request {
                id: RequestId::from(id),
                method: Method::parse("anything"),
                params: Some(Payload::from_raw(raw(params))),
            };
            link.send(mcpjoin::proto::session::Outbound::Message {
                message: Message::Request(request),
                route: mcpjoin::proto::session::Route::Session,
            })
            .await
            .unwrap();
            let Inbound::Message { message: Message::Response(response), .. } = link.recv().await else {
                panic!("no response")
            };
            assert_eq!(response.id, Some(RequestId::from(id)));
            let result: Value = response.outcome.unwrap().raw().decode().unwrap();
            assert_eq!(result, serde_json::from_str::<Value>(params).unwrap());
        }
        link.close().await;
    });
}

#[test]
fn r23_an_error_with_the_id_null_is_read_and_is_the_reply_to_no_call() {
    run(async {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test-support/fixtures/echo_jsonrpc.py");
        let mut child = tokio::process::Command::new("python3")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"{bad\n").await.unwrap();
        let mut link = bare(Link::stream(child.stdout.take().unwrap(), stdin, "echo"));
        let Inbound::Message { message: Message::Response(response), .. } = link.recv().await else {
            panic!("no response")
        };
        assert_eq!(response.id, None);
        assert_eq!(response.outcome.unwrap_err().code, code::PARSE_ERROR);
        link.close().await;
        assert!(child.wait().await.unwrap().success());
    });
}

#[test]
fn r23_who_connects_to_the_echo_script_learns_at_once_that_it_is_no_server() {
    run(async {
        for (era, method, missing) in [
            (EraChoice::Only(Era::Legacy), Method::Initialize, "serverInfo"),
            (EraChoice::Only(Era::Modern), Method::Discover, "supportedVersions"),
            (EraChoice::Auto, Method::Initialize, "serverInfo"),
        ] {
            // These timeouts are longer than the test may take, so that no test waits for them.
            let mut limits = Limits::default();
            (limits.probe, limits.initialize) = (2 * support::DEADLINE, 2 * support::DEADLINE);
            let builder = Client::builder("c", "1").era(era).limits(limits);
            let (error, _) = refused(builder, fixture("echo_jsonrpc.py")).await;
            let CloseCause::Opening(NegotiationFailure::InvalidResponse { method: asked, problem }) =
                &error.cause
            else {
                panic!("{era:?}: {error:?}")
            };
            assert_eq!(*asked, method, "{era:?}");
            assert!(problem.to_string().contains(missing), "{era:?}: {problem}");
        }
    });
}

/// The failures that a client of a child process can meet: each has a type of its own.
#[test]
fn r6_every_kind_of_failure_has_its_own_type() {
    // The program cannot be started.
    run(async {
        let missing = ChildCommand::new("mcpjoin-no-such-program").start().await.unwrap_err();
        assert!(matches!(missing.kind, SpawnErrorKind::NotFound { .. }), "{missing:?}");
    });
    // The child's input is closed, so writing fails; its output is closed; it has exited.
    run(async {
        let ready = r#"echo '{"jsonrpc":"2.0","method":"m","params":{}}'"#;
        let mut deaf = bare(sh(&format!("exec <&-; {ready}; exec sleep 1000")).start().await.unwrap());
        support::params(&mut deaf).await;
        let written = deaf.send(support::note("{}")).await.unwrap_err();
        assert!(matches!(written.kind, TransportEndKind::Failed(_)), "{written:?}");
        let mut mute = bare(sh("exec >&-; exec sleep 1000").start().await.unwrap());
        let ended = support::end(&mut mute).await;
        assert_eq!((ended.kind, ended.exit), (TransportEndKind::EndOfStream, None));
        let mut gone = bare(sh("exit 5").start().await.unwrap());
        let ended = support::end(&mut gone).await;
        assert_eq!((ended.kind, ended.exit), (TransportEndKind::EndOfStream, Some(ProcessExit::Code(5))));
    });
    // The value to send cannot be written as JSON.
    let unwritable = std::collections::HashMap::from([(vec![1, 2], 3)]);
    let error: WriteError = Raw::from_value(&unwritable).unwrap_err();
    assert!(!error.to_string().is_empty());
    // The response is not JSON, has another id, is an error, or does not arrive; the connection is shut down.
    run(async {
        let script = r#"read -r line
printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}'
read -r line; read -r line; printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"content":[}}'
read -r line; printf '%s\n' '{"jsonrpc":"2.0","id":77,"result":{}}' '{"jsonrpc":"2.0","id":3,"error":{"code":-5,"message":"no"}}'
cat >/dev/null"#;
        let (told, receiver) = std::sync::mpsc::channel();
        let client = legacy()
            .on_violation(move |violation: &Violation| drop(told.send(violation.clone())))
            .connect(sh(script).start().await.unwrap())
            .await
            .unwrap();
        let error = client.call_tool("t", ()).await.unwrap_err();
        assert!(matches!(error, ClientError::Call(CallError::InvalidResponse { .. })), "{error:?}");
        assert!(matches!(receiver.recv().unwrap(), Violation::Malformed { .. }));
        let error = client.call_tool("t", ()).await.unwrap_err();
        assert_eq!(error.remote().map(|error| error.code), Some(-5), "{error:?}");
        let foreign = RequestId::from(77);
        assert_eq!(receiver.recv().unwrap(), Violation::UnknownResponse { id: Some(foreign) });
        let error = client.call_tool("t", ()).timeout(Duration::from_millis(50)).await.unwrap_err();
        assert!(matches!(error, ClientError::Call(CallError::TimedOut { .. })), "{error:?}");
        client.close().await;
        let error = client.call_tool("t", ()).await.unwrap_err();
        assert!(
            matches!(&error, ClientError::Call(CallError::Closed(cause)) if **cause == CloseCause::Local),
            "{error:?}"
        );
    });
}
