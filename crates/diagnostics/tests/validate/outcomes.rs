//! Tests of the outcome of a validation: a clean report, a report in spite of silence, or the reason for having none.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::Link;
use mcpjoin::proto::session::{Limits, TransportErrorReason};
use mcpjoin::proto::types::{Prompt, Resource};
use mcpjoin::proto::{Era, Version};
use mcpjoin::server::{NoArguments, Server, tool};
use mcpjoin::transport::{ChildCommand, Inspected, SocketError};
use mcpjoin_diagnostics::validate::{ValidateError, Validator};
use mcpjoin_rules::{Outcome, Probe, What};

use super::fault::Fault;
use super::front::{Front, checked, endless, failed, full, looked, outcome, server};
use super::ports::Closed;

#[tokio::test]
async fn r71_our_own_server_is_clean_over_http_in_both_eras() {
    let front = Front::new(Fault::default()).await;
    let trace = looked(front.validator()).await.unwrap();
    let report = checked(&trace);
    assert_eq!(failed(&report), [""; 0], "{:#?}", report.failed().collect::<Vec<_>>());
    assert!(report.ran() > 110, "only {} rules ran", report.ran());
    for version in Version::ALL.iter() {
        assert!(trace.runs.iter().any(|run| run.version == *version), "{version}");
    }
}

#[tokio::test]
async fn r71_a_server_of_one_era_is_clean_over_http() {
    for era in [Era::Legacy, Era::Modern] {
        let versions: Vec<Version> =
            Version::ALL.iter().filter(|version| version.era() == Some(era)).cloned().collect();
        let front = Front::of(&server(&versions), Fault::default()).await;
        let report = checked(&looked(front.validator()).await.unwrap());
        assert_eq!(failed(&report), [""; 0], "{era:?}: {:#?}", report.failed().collect::<Vec<_>>());
        if era == Era::Modern {
            for slug in ["version-header-required", "earlier-headers-ignored", "earlier-methods-refused"] {
                assert_eq!(*outcome(&report, slug), Outcome::Passed, "{slug}");
            }
        }
    }
}

#[tokio::test]
async fn r71_our_own_server_is_clean_over_http_sse() {
    let front = Front::new(Fault::default()).await;
    let url = front.url.replace("/mcp", "/sse");
    let trace = looked(Validator::http(Link::http(&url).legacy_sse())).await.unwrap();
    let report = checked(&trace);
    assert_eq!(failed(&report), [""; 0], "{:#?}", report.failed().collect::<Vec<_>>());
    assert_eq!(*outcome(&report, "sse-session-ends"), Outcome::Passed);
    // A URL of that transport is also recognised.
    let found = looked(Validator::http(Link::http(&url))).await.unwrap();
    assert_eq!(checked(&found).ran(), report.ran());
}

#[tokio::test]
async fn f28_nothing_is_called_over_http() {
    let front = Front::new(Fault::default()).await;
    looked(front.validator()).await.unwrap();
    let came = front.came.lock().unwrap();
    for method in ["tools/list", "server/discover", "initialize"] {
        assert!(came.iter().any(|body| body.contains(method)), "{method}");
    }
    for body in came.iter() {
        for method in ["tools/call", "resources/subscribe", "tasks/cancel"] {
            assert!(!body.contains(method), "{body}");
        }
        // The validator requests only resources and prompts that do not exist.
        if ["resources/read", "prompts/get"].iter().any(|method| body.contains(method)) {
            assert!(body.contains("mcpjoin-no-") || body.contains("mcpjoin: no"), "{body}");
        }
    }
}

/// A server with a resource, a prompt, a read-only tool, and a tool that must not be called. Counts the calls of each.
fn library() -> (Server, Arc<[AtomicUsize; 4]>) {
    let counts = Arc::<[AtomicUsize; 4]>::default();
    let counted = |place: usize| {
        let counts = Arc::clone(&counts);
        move || _ = counts[place].fetch_add(1, Ordering::Relaxed)
    };
    let (looked, touched, read, got) = (counted(0), counted(1), counted(2), counted(3));
    let server = Server::builder("library", "1")
        .tool(tool("look").read_only(), move |_: NoArguments, _| {
            looked();
            async { "seen" }
        })
        .tool(tool("touch"), move |_: NoArguments, _| {
            touched();
            async { "done" }
        })
        .resource(Resource::new("book:one", "one"), move |_, _| {
            read();
            async { "once upon a time" }
        })
        .prompt(Prompt::new("hello"), move |_, _| {
            got();
            async { "hello" }
        });
    (server.build().unwrap(), counts)
}

fn counts(counts: &[AtomicUsize; 4]) -> [usize; 4] {
    [0, 1, 2, 3].map(|place| counts[place].load(Ordering::Relaxed))
}

#[tokio::test]
async fn f28_a_server_that_counts_is_called_where_it_was_allowed_and_nowhere_else() {
    let (server, counted) = library();
    let front = Front::of(&server, Fault::default()).await;
    let report = checked(&looked(front.validator()).await.unwrap());
    assert_eq!(failed(&report), [""; 0], "{:#?}", report.failed().collect::<Vec<_>>());
    assert_eq!(counts(&counted), [0; 4]);
    assert!(matches!(outcome(&report, "call-has-content"), Outcome::Skipped(_)));

    // Once in each era.
    let report = checked(&looked(front.validator().call("touch", None)).await.unwrap());
    assert_eq!(failed(&report), [""; 0], "{:#?}", report.failed().collect::<Vec<_>>());
    assert_eq!(counts(&counted), [0, 2, 0, 0]);
    for rule in ["call-has-content", "content-members", "unknown-tool-refused", "unknown-tool-code"] {
        assert_eq!(*outcome(&report, rule), Outcome::Passed, "{rule}");
    }

    let report = checked(&looked(front.validator().read_only_tools()).await.unwrap());
    assert_eq!(failed(&report), [""; 0], "{:#?}", report.failed().collect::<Vec<_>>());
    // Once in each era, and once as a task, which the tool does not support.
    assert_eq!(counts(&counted), [3, 2, 2, 2]);
    for rule in [
        "call-has-content",
        "read-has-contents",
        "read-contents-complete",
        "prompt-has-messages",
        "message-role",
    ] {
        assert_eq!(*outcome(&report, rule), Outcome::Passed, "{rule}");
    }
}

#[tokio::test]
async fn headers_are_sent_with_every_request_and_stand_in_no_trace() {
    let front = Front::new(Fault::default()).await;
    let connect = Link::http(&front.url).header("X-Secret", "hunter2");
    let trace = looked(Validator::http(connect)).await.unwrap();
    assert!(!format!("{trace:?}").contains("hunter2"));
    let came = front.came.lock().unwrap();
    let secrets = came.iter().filter(|line| *line == "hunter2").count();
    // The metadata documents are public, and are fetched without the header.
    let documents = 2;
    assert_eq!(secrets * 2 + documents, came.len(), "each request has brought its body and the header");
}

#[tokio::test]
async fn a_tap_sees_every_message() {
    let front = Front::new(Fault::default()).await;
    let seen = Arc::<Mutex<usize>>::default();
    let noted = Arc::clone(&seen);
    let inspected = front.validator().inspected(move |_, crossed| {
        if let Inspected::Line(_) = crossed {
            *noted.lock().unwrap() += 1;
        }
    });
    let trace = looked(inspected).await.unwrap();
    let events = trace.runs.iter().flat_map(|run| &run.events);
    let messages = events.filter(|event| matches!(event.what, What::Sent(..) | What::Received(_)));
    assert_eq!(messages.count(), *seen.lock().unwrap());
}

#[tokio::test]
async fn what_is_no_server_is_reported_as_such() {
    let page = Front::new(Fault {
        instead: Arc::new(|_, _| Some(full(200, "text/html", "<p>hello"))),
        ..Fault::default()
    })
    .await;
    match looked(page.validator()).await {
        Err(ValidateError::NotMcp { status: 200, content_type, head }) => {
            assert_eq!((content_type.as_deref(), &head[..]), (Some("text/html"), &b"<p>hello"[..]));
        }
        other => panic!("{other:?}"),
    }
    let guarded = Front::new(Fault {
        instead: Arc::new(|_, _| Some(full(401, "text/plain", "who?"))),
        ..Fault::default()
    })
    .await;
    let outcome = looked(guarded.validator()).await;
    assert!(matches!(outcome, Err(ValidateError::Unauthorized { status: 401, .. })), "{outcome:?}");
    // The refusal ends the validation in one era. The other requests find out which authorization the server requires.
    assert!(guarded.came.lock().unwrap().len() <= 10);
    let closed = Closed::tcp();
    let outcome = looked(Validator::http(Link::http(format!("http://{closed}/mcp")))).await;
    let reason = match &outcome {
        Err(ValidateError::Unreachable(error)) => error.reason(),
        _ => None,
    };
    assert_eq!(reason, Some(TransportErrorReason::ConnectionRefused), "{outcome:?}");
    let outcome = looked(Validator::http(Link::http("http://me:hunter2@localhost/"))).await;
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("password") && !text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Front::new(Fault::default()).await;
    let front = Front::new(Fault {
        instead: Arc::new(|_, _| {
            let mut reply = full(307, "text/plain", "");
            let to = "http://me:hunter2@127.0.0.1:1/mcp?key=hunter2";
            reply.headers_mut().insert("location", to.parse().unwrap());
            Some(reply)
        }),
        ..Fault::default()
    })
    .await;
    let outcome = looked(front.validator()).await;
    let text = outcome.unwrap_err().to_string();
    assert_eq!(text, "the server redirects (status 307) to http://127.0.0.1:1/mcp?...");
    assert!(elsewhere.came.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_server_that_ends_over_http_is_reported_as_ended_and_nothing_else() {
    for (modern, last) in [
        (true, "prompts/list"),
        (false, "prompts/list"),
        (true, "\"origin"),
        (false, "initialized"),
        // In the session after the first.
        (false, "1999-01-01"),
        (false, "2024-11-05"),
    ] {
        let (asked, mut ends) = tokio::sync::mpsc::unbounded_channel();
        let front = Front::new(Fault {
            before: Arc::new(move |head, body| {
                let here = body.contains(last) || last == "\"origin" && head.headers.contains_key("origin");
                if here {
                    let _ = asked.send(());
                }
            }),
            ..Fault::default()
        })
        .await;
        let end = front.end();
        let ending = tokio::spawn(async move {
            let _ = ends.recv().await;
            end.abort();
        });
        let validator = front.validator();
        let validator = if modern { validator.without_legacy() } else { validator.without_modern() };
        let trace = looked(validator).await.unwrap();
        ending.await.unwrap();
        let report = checked(&trace);
        assert_eq!(failed(&report), ["request-answered"], "{last}");
        let Outcome::Failed(findings) = outcome(&report, "request-answered") else { panic!("{last}") };
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].problem.ends_with("got no response: the server exited"), "{findings:?}");
    }
}

/// A server that sends nothing.
fn mute() -> Link {
    let (near, far) = tokio::io::duplex(1 << 16);
    // Keeps the other end open until the test ends.
    std::mem::forget(far);
    let (reader, writer) = tokio::io::split(near);
    Link::stream(reader, writer, "mute")
}

#[tokio::test(start_paused = true)]
async fn r44_a_mute_server_is_waited_for_as_long_as_was_said() {
    let mut connecting = Limits::default();
    connecting.initialize = Duration::from_secs(1);
    connecting.probe = Duration::from_secs(1);
    let validator = || Validator::stream(|| async { Ok::<_, SocketError>(mute()) });
    for validator in
        [validator().respond_within(Duration::from_secs(1)), validator().limits(connecting.clone())]
    {
        let began = tokio::time::Instant::now();
        let outcome = looked(validator).await;
        assert!(matches!(outcome, Err(ValidateError::NoSession(_))), "{outcome:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
}

/// A server whose responses have the id of no request.
fn misdirecting() -> Link {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, split};
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        let (reader, mut writer) = split(far);
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if line.contains("\"id\"") {
                writer.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":7000,\"result\":{}}\n").await.unwrap();
            }
        }
    });
    let (reader, writer) = split(near);
    Link::stream(reader, writer, "misdirecting")
}

#[tokio::test(start_paused = true)]
async fn a_response_with_the_id_of_no_request_is_not_waited_for() {
    let began = tokio::time::Instant::now();
    let outcome = looked(Validator::stream(|| async { Ok::<_, SocketError>(misdirecting()) })).await;
    let Err(ValidateError::NoSession(failure)) = outcome else { panic!("{outcome:?}") };
    assert!(failure.to_string().contains("the unknown id 7000"), "{failure}");
    // Each of the first four requests waits 2 s more. Their timeouts are 35 s together.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// A program that reads nothing, sends nothing, and does not exit when its input ends.
#[cfg(unix)]
#[tokio::test]
async fn r44_a_mute_program_is_ended_soon() {
    let began = std::time::Instant::now();
    let sleeping = ChildCommand::new("sleep").arg("1000");
    let outcome = looked(Validator::new(sleeping).respond_within(Duration::from_millis(300))).await;
    assert!(matches!(outcome, Err(ValidateError::NoSession(_))), "{outcome:?}");
    // This takes three seconds. A busy machine may take ten times as long. The default limits (5 s for the probe, 30 s for
    // `initialize`) add up to 35 s, which is more than that.
    let unasked = Limits::default().probe + Limits::default().initialize;
    assert!(began.elapsed() < unasked, "{:?}", began.elapsed());
}

#[tokio::test]
async fn r44_silence_costs_a_bounded_time() {
    // Every response but the first is a stream without events.
    let silent = Front::new(Fault {
        instead: Arc::new(|_, body| {
            (!body.contains("server/discover")).then(|| endless("text/event-stream", ":\n\n"))
        }),
        ..Fault::default()
    })
    .await;
    let validator = silent.validator().without_legacy().respond_within(Duration::from_secs(1));
    let report = checked(&looked(validator).await.unwrap());
    assert!(failed(&report).contains(&"request-answered"), "{:?}", failed(&report));
}

#[tokio::test]
async fn a_body_above_the_limit_is_not_kept() {
    let large = Front::new(Fault {
        after: Arc::new(|_, _, _, body| {
            if body.contains("\"tools\":[") {
                *body = body.replacen("{", &format!("{{{}", " ".repeat(1 << 20)), 1);
            }
        }),
        ..Fault::default()
    })
    .await;
    let mut limits = Limits::default();
    limits.message = 64 * 1024;
    let trace = looked(large.validator().without_legacy().limits(limits)).await.unwrap();
    let size: usize = trace
        .runs
        .iter()
        .flat_map(|run| &run.events)
        .map(|event| match &event.what {
            What::Received(line) => line.bytes().len(),
            What::Body(body) => body.len(),
            _ => 0,
        })
        .sum();
    assert!(size < 128 * 1024, "{size}");
    assert_eq!(failed(&checked(&trace)), ["request-answered"]);
}

#[tokio::test]
async fn an_endpoint_elsewhere_is_not_posted_to() {
    let front = Front::new(Fault {
        instead: Arc::new(|_, _| {
            Some(endless("text/event-stream", "event: endpoint\ndata: http://elsewhere.invalid/messages\n\n"))
        }),
        ..Fault::default()
    })
    .await;
    let outcome = looked(Validator::http(Link::http(&front.url).legacy_sse())).await;
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("elsewhere.invalid") && text.contains("another origin"), "{text}");
    assert_eq!(front.came.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_asks_without_end_is_answered_a_bounded_number_of_times() {
    // Every POST gets a stream of requests as its response.
    let asking = Front::new(Fault {
        instead: Arc::new(|_, body| {
            let asked = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n".repeat(10);
            (!body.contains("initialize")).then(|| full(200, "text/event-stream", &asked))
        }),
        ..Fault::default()
    })
    .await;
    let validator = asking.validator().without_modern().respond_within(Duration::from_secs(1));
    let report = checked(&looked(validator).await.unwrap());
    assert!(failed(&report).contains(&"request-answered"), "{:?}", failed(&report));
    assert!(failed(&report).contains(&"request-id-not-reused"), "{:?}", failed(&report));
}

#[tokio::test]
async fn of_a_list_twenty_pages_are_checked() {
    let named = |server: mcpjoin::server::ServerBuilder, name: usize| {
        server.tool(tool(format!("t{name}")), |_: NoArguments, _| async { "x" })
    };
    for (tools, next) in [(20, 19), (21, 19)] {
        let server = (0..tools).fold(Server::builder("long", "1").page_size(1), named).build().unwrap();
        let front = Front::of(&server, Fault::default()).await;
        let trace = looked(front.validator().without_legacy()).await.unwrap();
        let events = trace.runs.iter().flat_map(|run| &run.events);
        let asked = events.filter(|event| matches!(event.what, What::Sent(Probe::NextPage, _))).count();
        assert_eq!(asked, next, "of {tools} pages");
    }
}
