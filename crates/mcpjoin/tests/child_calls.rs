//! Tests of calls to a child process that ends: what the caller learns and how soon, and that no process is left, however
//! the caller ends. They cover the cases D of the adversarial catalogue as a client meets them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use mcpjoin_test_support as support;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mcpjoin::Client;
use mcpjoin::client::{ClientBuilder, ClientError};
use mcpjoin::proto::session::{CallError, CloseCause, EraChoice, Limits, ProcessExit};
use mcpjoin::proto::{Era, Raw};
use mcpjoin::transport::{ChildCommand, ChildHandle, Forced};
use support::{lives, poll_once, run, sh, takes_less_than};

/// The time in which every pending call fails after the child's death: 0.5 s, and some time to wake the callers.
const TOLD: Duration = Duration::from_millis(1500);
/// A short timeout for a shutdown step, so that the tests do not wait for it.
const SOON: Duration = Duration::from_millis(20);

/// A server of the legacy era: it answers the opening, and then `body` runs. The first call has the id 2.
fn server(body: &str) -> ChildCommand {
    sh(&format!(
        r#"read -r line
printf '%s\n' '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"sh","version":"1"}}}}}}'
read -r line
{body}"#
    ))
}

fn builder() -> ClientBuilder {
    Client::builder("c", "1").era(EraChoice::Only(Era::Legacy))
}

/// Limits with a short timeout for calls.
fn impatient() -> Limits {
    let mut limits = Limits::default();
    limits.request = Duration::from_millis(300);
    limits
}

async fn connected(command: ChildCommand) -> Client {
    builder().connect(command.start().await.unwrap()).await.unwrap()
}

fn closed(error: &ClientError) -> &CloseCause {
    error.close_cause().unwrap_or_else(|| panic!("it is not closed: {error}"))
}

/// Waits for the report of the end, and checks that no process is left.
fn gone(handle: &ChildHandle) -> Forced {
    let report = run(handle.ended()).expect("it was started");
    assert_eq!(report.survivors, []);
    assert!(report.complete);
    assert!(!std::fs::exists(format!("/proc/{}", handle.pid().unwrap())).unwrap());
    report.forced
}

#[test]
fn r11_f11_an_exit_fails_every_call_after_the_last_reply_that_could_be_read() {
    // The child answers the second call just before it exits; in one case another process holds the pipes open.
    for holder in ["", "sleep 1000 &"] {
        let script = format!(
            r#"read -r a; read -r b; read -r c; {holder}
echo 'out of memory' >&2; printf '%s\n' '{{"jsonrpc":"2.0","id":3,"result":{{"content":[]}}}}'; exit 3"#
        );
        run(takes_less_than(TOLD, async || {
            let client = connected(server(&script)).await;
            let calls = (2..5).map(async |id| {
                let result = client.call_tool("t", ()).await;
                (id, result, Instant::now())
            });
            let results = join_all(calls).await;
            let (replied, mut longest) = (results[1].2, Duration::ZERO);
            for (id, result, told) in results {
                if id == 3 {
                    assert_eq!(result.unwrap().content, []);
                    continue;
                }
                longest = longest.max(told.saturating_duration_since(replied));
                let error = result.unwrap_err();
                let CloseCause::Link(end) = closed(&error) else { panic!("{error}") };
                assert_eq!(end.exit, Some(ProcessExit::Code(3)));
                assert_eq!(&end.stderr[..], b"out of memory\n");
            }
            assert_eq!(client.exit(), Some(ProcessExit::Code(3)));
            client.closed().await;
            let report = client.child().and_then(|child| child.report()).expect("a report");
            assert_eq!(report.survivors, []);
            longest
        }));
    }
}

#[test]
fn r11_f11_a_killed_server_is_reported_with_its_signal() {
    run(async {
        let client = connected(server("read -r a; kill -9 $$")).await;
        let error = client.call_tool("t", ()).await.unwrap_err();
        let CloseCause::Link(end) = closed(&error) else { panic!("{error}") };
        assert_eq!(end.exit, Some(ProcessExit::Signal(9)));
    });
}

#[test]
fn r20_f9_closing_ends_a_pending_call_at_once_however_long_the_server_takes() {
    run(async {
        let command = server("read -r a; echo asked >&2; exec sleep 1000");
        // For this long, the closed input is the only signal to the child.
        const PATIENCE: Duration = Duration::from_secs(3);
        let client = connected(command.shutdown(PATIENCE, Duration::from_secs(60))).await;
        let child = client.child().expect("a child");
        let mut call = Box::pin(async {
            let error = client.call_tool("t", ()).await.unwrap_err();
            (error, Instant::now())
        });
        assert!(poll_once(&mut call).is_pending());
        let began = Instant::now();
        let (_, (error, told)) = tokio::join!(client.close(), call);
        assert!(matches!(closed(&error), CloseCause::Local), "{error}");
        assert!(told - began < PATIENCE, "{:?}", told - began);
        assert!(began.elapsed() >= PATIENCE);
        // The client keeps the exit status after it is closed.
        assert_eq!(client.exit(), Some(ProcessExit::Signal(15)));
        assert_eq!(child.report().expect("a report").forced, Forced::Terminated);
        assert!(client.is_closed() && !child.is_running());
    });
}

#[test]
fn d70_calls_of_a_server_that_reads_nothing_time_out_and_it_can_be_closed() {
    run(async {
        let command = server("exec sleep 1000").shutdown(SOON, Duration::from_secs(60));
        let client = builder().limits(impatient()).connect(command.start().await.unwrap()).await.unwrap();
        // The calls are 100 MiB in total.
        let arguments = Raw::parse(format!("{{\"x\":\"{}\"}}", "x".repeat(5 << 20))).unwrap();
        let calls = (0..20).map(|_| IntoFuture::into_future(client.call_tool("t", Some(arguments.clone()))));
        for result in join_all(calls).await {
            let error = result.unwrap_err();
            assert!(matches!(error, ClientError::Call(CallError::TimedOut { .. })), "{error}");
        }
        let began = Instant::now();
        client.close().await;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert_eq!(client.exit(), Some(ProcessExit::Signal(15)));
    });
}

#[test]
fn d81_calls_of_a_stopped_server_time_out_and_it_can_be_closed() {
    run(async {
        // The signal that continues the child also ends it, however long that takes on a busy machine.
        let command = server("kill -STOP $$; exec sleep 1000").shutdown(SOON, support::DEADLINE);
        let client = builder().limits(impatient()).connect(command.start().await.unwrap()).await.unwrap();
        let error = client.call_tool("t", ()).await.unwrap_err();
        assert!(matches!(error, ClientError::Call(CallError::TimedOut { .. })), "{error}");
        let began = Instant::now();
        client.close().await;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert!(client.exit().is_some());
        assert_eq!(gone_here(&client).await, Forced::Terminated);
    });
}

/// The same as [`gone`], inside a running runtime.
async fn gone_here(client: &Client) -> Forced {
    let report = client.child().expect("a child").ended().await.expect("a report");
    assert_eq!(report.survivors, []);
    report.forced
}

#[test]
fn d82_a_call_that_cannot_be_written_fails_with_the_exit_status() {
    run(async {
        // The child reports that its input is closed, and exits on a signal.
        let gate = std::env::temp_dir().join(format!("mcpjoin-gate-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
        let script = format!("exec <&-; echo closed >&2; read -r line <{}; exit 7", gate.display());
        let (said, mut received) = tokio::sync::mpsc::unbounded_channel();
        let command = server(&script).stderr(move |line| said.send(line.to_vec()).unwrap());
        let client = connected(command).await;
        assert_eq!(received.recv().await.as_deref(), Some(&b"closed"[..]));
        let mut call = Box::pin(IntoFuture::into_future(client.call_tool("t", ())));
        assert!(poll_once(&mut call).is_pending());
        let opened = std::fs::File::options().write(true).open(&gate).unwrap();
        drop(opened);
        let error = call.await.unwrap_err();
        std::fs::remove_file(&gate).unwrap();
        assert!(closed(&error).to_string().contains("exit code 7"), "{error}");
        assert_eq!(client.exit(), Some(ProcessExit::Code(7)));
    });
}

#[test]
fn r75_f10_a_connection_that_is_abandoned_while_it_opens_leaves_nothing() {
    let command = sh("sleep 1000 & echo started >&2; exec sleep 1000");
    let handle = command.handle();
    run(async {
        let link = command.start().await.unwrap();
        let mut connecting = Box::pin(builder().connect(link));
        assert!(poll_once(&mut connecting).is_pending());
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut connecting).await.is_err());
        drop(connecting);
    });
    gone(&handle);
}

#[test]
fn r75_f10_an_abandoned_call_leaves_the_server_and_an_abandoned_client_does_not() {
    run(async {
        // The child exits when its input closes.
        let client = connected(server("cat >/dev/null")).await;
        let child = client.child().expect("a child");
        let mut call = Box::pin(IntoFuture::into_future(client.call_tool("t", ())));
        assert!(poll_once(&mut call).is_pending());
        drop(call);
        assert!(child.is_running());
        drop(client);
        let report = child.ended().await.expect("a report");
        assert_eq!((report.forced, report.exit), (Forced::No, Some(ProcessExit::Code(0))));
    });
}

/// A child that answers nothing, with a grandchild that ignores signals in its own session.
const FAMILY: &str = r#"setsid sh -c 'trap "" TERM HUP; exec sleep 1000' & exec sleep 1000"#;

#[test]
fn r75_d79_f10_runtimes_that_go_away_in_mid_call_leave_nothing() {
    type Build = fn() -> tokio::runtime::Runtime;
    type End = fn(tokio::runtime::Runtime);
    let many: Build =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let one: Build = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ends: [End; 3] =
        [drop, tokio::runtime::Runtime::shutdown_background, |runtime| runtime.shutdown_timeout(SOON)];
    for build in [many, one] {
        for end in ends {
            let runtime = build();
            let client = runtime.block_on(connected(server(FAMILY)));
            let handle = client.child().expect("a child");
            // During a call: a task of the runtime owns the call.
            let task = runtime.spawn(IntoFuture::into_future(client.call_tool("t", ())));
            end(runtime);
            // No task panics or waits for the runtime that has ended.
            assert_eq!(gone(&handle), Forced::Killed);
            drop((client, task));
        }
    }
}

#[test]
fn r75_f10_a_panic_in_mid_call_leaves_nothing() {
    let command = server(FAMILY);
    let handle = command.handle();
    let panicked = std::thread::spawn(move || {
        run(async {
            let client = connected(command).await;
            let mut call = Box::pin(IntoFuture::into_future(client.call_tool("t", ())));
            assert!(poll_once(&mut call).is_pending());
            panic!("on purpose");
        })
    });
    assert!(panicked.join().is_err());
    assert_eq!(gone(&handle), Forced::Killed);
}

#[test]
fn the_owner_of_a_client_learns_what_closing_came_to() {
    run(async {
        let client = connected(server("cat >/dev/null; exit 4")).await;
        let child = client.child().expect("a child");
        assert!(child.is_running() && client.exit().is_none() && lives(child.pid().unwrap()));
        assert!(matches!(client.close().await, CloseCause::Local));
        let report = child.report().expect("closing waits for it");
        assert_eq!((report.forced, report.exit), (Forced::No, Some(ProcessExit::Code(4))));
        assert!(report.survivors.is_empty() && report.complete);
        assert_eq!(client.exit(), Some(ProcessExit::Code(4)));
    });
}
