//! `mcpjoin list` and `mcpjoin call` on servers over HTTP: the published `server-everything`, and servers of ours on the
//! TypeScript SDK, old and new, on the Python SDK and on rmcp, written as their users write them. Checks results and exit
//! codes in each era, that every session is ended, and that no process is left.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what is not as it should be fails the test")]

mod login;

use interop::{LEGACY, Listening, MODERN, Peer, URL, Way, first_text};

fn everything(mode: &str, way: Way, path: &str) -> Listening {
    Listening::on_a_port(&Peer::installed("node_modules/.bin/mcp-server-everything").arg(mode), way, path)
}

fn sdk_1(mode: &str) -> Listening {
    Listening::new(&Peer::installed("servers/sdk-1.mjs").arg(mode), Way::Http)
}

fn sdk_2(mode: &str) -> Listening {
    Listening::new(&Peer::installed("servers/sdk-2.mjs").arg(mode), Way::Http)
}

fn python(mode: &str, way: Way) -> Listening {
    let script = interop::server("servers/python-sdk.py").unwrap();
    Listening::new(&Peer::installed("venv/bin/python").arg(script).arg(mode), way)
}

fn rmcp(mode: &str) -> Listening {
    Listening::new(&Peer::installed("rmcp/target/debug/rmcp-current").arg(mode), Way::Http)
}

/// Checks that the tools `echo` and `fail` work, with these options, in that version.
fn echoes(server: &Listening, options: &[&str], version: &str) {
    let words = |verb: &[&'static str], rest: &[&'static str]| -> Vec<String> {
        verb.iter().chain(options).chain(&[URL]).chain(rest).map(|word| (*word).to_owned()).collect()
    };
    let run = |verb: &[&'static str], rest: &[&'static str]| {
        let words = words(verb, rest);
        server.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let (spoken, tools) = run(&["list", "--json"], &[]).listed();
    assert_eq!(spoken, version, "{options:?}");
    assert!(tools.contains("echo") && tools.contains("fail"), "{tools:?}");
    let result = run(&["call", "--json"], &["echo", "message=\u{e9} \u{1f600}\n2"]).json();
    assert_eq!(first_text(&result), "\u{e9} \u{1f600}\n2", "{options:?}");
    run(&["call"], &["fail", "message=not today"]).refused_with("not today");
    assert_eq!(run(&["ping", "-n", "2", "-i", "1ms"], &[]).text().lines().count(), 3);
    let absent = run(&["call"], &["absent", "message=x"]);
    assert_eq!(absent.code, Some(5), "{}{}", absent.stdout, absent.stderr);
}

/// Checks that the call of a tool that reports progress, on a stream if the server has one, gets its result.
fn steps(server: &Listening, era: &str) {
    let ran = server.run(&["call", "--era", era, URL, "steps", "message=done"]);
    assert_eq!(ran.text(), "done\n");
}

/// Checks that the binary reports that the server does not support that era.
fn refuses(server: &Listening, era: &str, why: &str) {
    ends(server, era, 4, why);
}

fn ends(server: &Listening, era: &str, code: i32, why: &str) {
    let ran = server.run(&["list", "--era", era, URL]);
    assert_eq!(ran.code, Some(code), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains(why), "`{why}` is not in {}", ran.stderr);
}

#[test]
fn everything_over_streamable_http() {
    let server = everything("streamableHttp", Way::Http, "/mcp");
    does_everything(&server, &|words| server.run(words));
    assert_eq!(server.session_count(), 8);
}

#[test]
fn everything_over_http_sse() {
    let server = everything("sse", Way::Sse, "/sse");
    does_everything(&server, &|words| server.run(words));
    assert_eq!(server.session_count(), 8);
}

#[test]
fn everything_over_http_sse_is_found_out_by_itself() {
    let server = everything("sse", Way::Sse, "/sse");
    does_everything(&server, &|words| server.run_unknown(words));
    assert_eq!(server.session_count(), 8);
}

/// Runs the binary eight times, for eight sessions.
fn does_everything(server: &Listening, run: &dyn Fn(&[&str]) -> interop::Ran) {
    assert_eq!(server.session_count(), 0);
    let (version, tools) = run(&["list", "--json", URL]).listed();
    assert_eq!(version, LEGACY);
    assert!(tools.contains("get-sum") && tools.contains("trigger-long-running-operation"), "{tools:?}");
    let ran = run(&["call", URL, "get-sum", "a=2", "b=40"]);
    assert_eq!(ran.text(), "The sum of 2 and 40 is 42.\n");
    let result = run(&["call", "--json", URL, "echo", "message=\u{e9}\u{1f600}\n2"]).json();
    assert_eq!(first_text(&result), "Echo: \u{e9}\u{1f600}\n2");
    let picture = run(&["call", "--json", URL, "get-tiny-image"]).json();
    let contents = picture["content"].as_array().unwrap();
    assert!(contents.iter().any(|content| content["mimeType"] == "image/png"), "{picture}");
    // The tool reports progress three times.
    let ran = run(&["call", URL, "trigger-long-running-operation", "duration=0.3", "steps=3"]);
    assert_eq!(ran.text(), "Long running operation completed. Duration: 0.3 seconds, Steps: 3.\n");
    run(&["call", URL, "no-such-tool"]).refused_with("no-such-tool");
    let prompt = run(&["prompt", URL, "args-prompt", "city=Paris"]);
    assert!(prompt.text().contains("Paris"), "{}", prompt.stdout);
    let resource = run(&["read", URL, "demo://resource/dynamic/text/1"]);
    assert!(resource.text().contains("Resource 1"), "{}", resource.stdout);
}

#[test]
fn an_address_without_a_server_fails_with_the_reason() {
    for (way, path, why) in [
        (Way::Http, "/nope", ["POST http://", "404 Not Found", "HTTP+SSE"]),
        (Way::Sse, "/nope", ["GET http://", "404 Not Found", "HTTP+SSE"]),
        (Way::Sse, "/mcp", ["GET http://", "400 Bad Request", "No valid session ID provided"]),
    ] {
        let server = everything("streamableHttp", way, path);
        let ran = server.run(&["list", URL]);
        assert_eq!(ran.code, Some(4), "{}{}", ran.stdout, ran.stderr);
        for why in why {
            assert!(ran.stderr.contains(why), "`{why}` is not in {}", ran.stderr);
        }
        assert_eq!(server.session_count(), 0);
    }
}

#[test]
fn a_call_that_is_interrupted_is_cancelled_and_its_session_ended() {
    for (mode, way, path) in [("streamableHttp", Way::Http, "/mcp"), ("sse", Way::Sse, "/sse")] {
        let server = everything(mode, way, path);
        let long = ["call", URL, "trigger-long-running-operation", "duration=600", "steps=1000"];
        let ran = server.interrupt(&long, "tools/call");
        assert_eq!(ran.code, Some(130), "{mode}: {}", ran.stderr);
        assert!(server.was_told("notifications/cancelled"), "{mode}");
        assert_eq!(server.session_count(), 1, "{mode}");
    }
}

#[test]
fn a_call_that_is_interrupted_in_the_modern_era_is_left() {
    let server = sdk_2("both");
    let ran = server.interrupt(&["call", URL, "waits", "message=x"], "tools/call");
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    assert!(server.was_left("tools/call") && !server.was_told("notifications/cancelled"));
    // The server has received the cancellation: the tool ends when its client cancels, and the server counts that.
    assert_eq!(server.run(&["call", URL, "left", "message=x"]).text(), "1\n");
}

#[test]
fn typescript_sdk_1() {
    for (mode, sessions) in [("sessions", true), ("json", true), ("stateless", false)] {
        let server = sdk_1(mode);
        echoes(&server, &[], LEGACY);
        steps(&server, "legacy");
        assert_eq!(server.session_count(), if sessions { 6 } else { 0 }, "{mode}");
        refuses(&server, "modern", "server/discover");
    }
}

#[test]
fn typescript_sdk_1_closes_its_stream_before_the_result() {
    leaves(&sdk_1("resumes"));
}

/// Checks that the client fetches a result that arrives only after the end of its stream.
fn leaves(server: &Listening) {
    let ran = server.run(&["call", URL, "leaves", "message=and is back"]);
    assert_eq!(ran.text(), "and is back\n");
    assert_eq!((server.session_count(), server.returns()), (1, 1));
}

#[test]
fn typescript_sdk_2_in_both_eras() {
    for mode in ["both", "sse"] {
        let server = sdk_2(mode);
        for (options, version) in
            [(&[][..], MODERN), (&["--era", "modern"], MODERN), (&["--era", "legacy"], LEGACY)]
        {
            echoes(&server, options, version);
        }
        steps(&server, "modern");
        steps(&server, "legacy");
        // This server has no sessions in the legacy era either.
        assert_eq!(server.session_count(), 0);
    }
}

#[test]
fn typescript_sdk_2_in_one_era() {
    let server = sdk_2("modern");
    echoes(&server, &[], MODERN);
    refuses(&server, "legacy", "Unsupported protocol version");

    let server = sdk_2("sessions");
    echoes(&server, &[], LEGACY);
    steps(&server, "legacy");
    assert_eq!(server.session_count(), 6);
    refuses(&server, "modern", "server/discover");
}

#[test]
fn typescript_sdk_2_closes_its_stream_before_the_result() {
    leaves(&sdk_2("resumes"));
}

#[test]
fn python_sdk_in_both_eras() {
    for (mode, sessions) in [("both", 6), ("json", 6), ("stateless", 0)] {
        let server = python(mode, Way::Http);
        echoes(&server, &[], MODERN);
        echoes(&server, &["--era", "modern"], MODERN);
        steps(&server, "modern");
        assert_eq!(server.session_count(), 0, "{mode}");
        echoes(&server, &["--era", "legacy"], LEGACY);
        steps(&server, "legacy");
        assert_eq!(server.session_count(), sessions, "{mode}");
    }
}

#[test]
fn python_sdk_over_http_sse() {
    let server = python("sse", Way::Sse);
    echoes(&server, &[], LEGACY);
    steps(&server, "legacy");
    let found_out = server.run_unknown(&["call", URL, "echo", "message=hi"]);
    assert_eq!(found_out.text(), "hi\n");
    assert_eq!(server.session_count(), 7);
    // The error is detected before a request is sent.
    ends(&server, "modern", 2, "HTTP+SSE");
}

#[test]
fn rmcp_in_both_eras() {
    for (mode, sessions) in [("http", 5), ("http-stateless", 0)] {
        let server = rmcp(mode);
        echoes(&server, &[], MODERN);
        echoes(&server, &["--era", "modern"], MODERN);
        assert_eq!(server.session_count(), 0, "{mode}");
        echoes(&server, &["--era", "legacy"], LEGACY);
        assert_eq!(server.session_count(), sessions, "{mode}");
    }
}
