//! Tests of every rule for clients on the transcripts in `client-*.txt`: clients that keep the rule, and clients that
//! violate it.
//!
//! The format is that of the transcripts of servers, with us as the server: `<` is a message of the client, `>` our
//! message, after the name of a probe or none. In addition:
//!
//! ```text
//!   opened {"roots":{}}                      a session was opened, with these capabilities of the client or none
//!   left, gone, killed 15                    the client has closed our input; its process has ended; so did we, by a signal
//!   1 POST [name: value; ..] < {~,"id":1 ..}  an HTTP request of the client; GET and DELETE, too
//!   1 GET at URL [name: value; ..]           a request to another address than the endpoint
//!   1 json [name: value; ..] > {~,"id":1 ..}  our response: 200 and a message
//!   1 202                                    the same without a message
//!   1 event id=b retry=9 < data               an event of its stream
//!   1 ended, 1 left                          its stream has ended; the client has closed it
//!   = 2025-11-25                             another run, of that revision
//! ```
//!
//! `^` means the headers of every POST of the modern era, `&` those of a POST in the session.

use std::time::Duration;

use mcpjoin_proto::Version;
use mcpjoin_proto::codec::sse::Event;
use mcpjoin_proto::session::ProcessExit;
use mcpjoin_rules::{
    BodyEnd, Channel, Ended, HttpRequest, HttpResponse, Line, Probe, Run, Selection, Trace, What,
    check_client, client_rules,
};

use super::{Case, are_in_order, each_finds_its_fault, each_has_both, headers, opened, probe, read};

const FILES: [(&str, &str); 6] = [
    ("client-base.txt", include_str!("client-base.txt")),
    ("client-lifecycle.txt", include_str!("client-lifecycle.txt")),
    ("client-stdio.txt", include_str!("client-stdio.txt")),
    ("client-http.txt", include_str!("client-http.txt")),
    ("client-features.txt", include_str!("client-features.txt")),
    ("client-patterns.txt", include_str!("client-patterns.txt")),
];

const OFFERED: &str =
    r#"{"tools":{},"prompts":{},"resources":{},"logging":{},"tasks":{"requests":{"tools":{"call":{}}}}}"#;

fn cases() -> Vec<Case> {
    read(&FILES, add)
}

fn bytes(line: &str) -> Vec<u8> {
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}"#;
    super::bytes(&line.replace('@', meta))
}

fn now(run: &Run) -> Duration {
    run.events.last().map_or(Duration::ZERO, |event| event.at)
}

fn add(trace: &mut Trace, event: &str, place: &str) {
    if let Some(words) = event.strip_prefix("= ") {
        trace.runs.push(opened("next", words, place));
        return;
    }
    let run = trace.runs.last_mut().unwrap();
    let at = now(run);
    if let Some((number, event)) = event.split_once(' ')
        && let Ok(number) = number.parse()
    {
        exchanged(run, number, event, place);
    } else if let Some(line) = event.strip_prefix("< ") {
        run.note(at, What::Received(Line::new(bytes(line))));
    } else if let Some(line) = event.strip_prefix("> ") {
        run.note(at, What::Sent(Probe::Answer, Line::new(bytes(line))));
    } else if let Some((name, line)) = event.split_once(" > ") {
        run.note(at, What::Sent(probe(name, place), Line::new(bytes(line))));
    } else if let Some(capabilities) = event.strip_prefix("opened") {
        open(run, if capabilities.is_empty() { "{}" } else { capabilities.trim() }, place);
    } else if let Some(seconds) = event.strip_prefix("after ") {
        // Time is recorded with events, so this adds one without another effect.
        let seconds = seconds.strip_suffix('s').unwrap().parse().unwrap();
        let nothing = Line::new(r#"{"jsonrpc":"2.0","method":"notifications/message"}"#);
        run.note(at + Duration::from_secs(seconds), What::Sent(Probe::Answer, nothing));
    } else {
        run.note(
            at,
            match event {
                "left" => What::InputClosed,
                "gone" => What::Ended(Ended::default()),
                _ => {
                    let signal = event.strip_prefix("killed ").unwrap_or_else(|| panic!("{place}: {event}"));
                    let exit = Some(ProcessExit::Signal(signal.parse().unwrap()));
                    What::Ended(Ended { exit, forced: false })
                }
            },
        );
    }
}

/// Opens a session correctly.
fn open(run: &mut Run, capabilities: &str, place: &str) {
    let version = run.version.as_str().to_owned();
    let lines = [
        format!(
            r#"< {{~,"id":"open","method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{capabilities},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
        ),
        format!(
            r#"> {{~,"id":"open","result":{{"protocolVersion":"{version}","capabilities":{OFFERED},"serverInfo":{{"name":"s","version":"1"}}}}}}"#
        ),
        r#"< {~,"method":"notifications/initialized"}"#.to_owned(),
    ];
    if run.channel != Channel::StreamableHttp {
        for line in &lines {
            add_to(run, line, place);
        }
        return;
    }
    let first = "accept: application/json, text/event-stream; content-type: application/json";
    add_to(run, &format!("900 POST [{first}] {}", lines[0]), place);
    add_to(run, &format!("900 json [mcp-session-id: abc] {}", lines[1]), place);
    add_to(run, &format!("901 POST [&] {}", lines[2]), place);
    add_to(run, "901 202", place);
}

fn add_to(run: &mut Run, event: &str, place: &str) {
    let mut trace = Trace { runs: vec![run.clone()], ..Trace::default() };
    add(&mut trace, event, place);
    *run = trace.runs.remove(0);
}

fn exchanged(run: &mut Run, number: u32, event: &str, place: &str) {
    let version: Version = run.version.clone();
    let at = now(run);
    let both = "accept: application/json, text/event-stream; content-type: application/json";
    let event = event
        .replace("[&", &format!("[mcp-session-id: abc; mcp-protocol-version: {version}; {both}"))
        .replace("[^", &format!("[mcp-protocol-version: {version}; {both}"));
    let (word, rest) = event.split_once(' ').unwrap_or((&event, ""));
    let (url, rest) =
        rest.strip_prefix("at ").map_or(("http://localhost/mcp", rest), |rest| rest.split_once(' ').unwrap());
    let (headers, rest) = headers(rest);
    match word {
        "POST" | "GET" | "DELETE" => {
            let url = url.into();
            let request = HttpRequest { method: word.into(), url, headers };
            run.note_in(number, at, What::Requested(Probe::Answer, request));
            if let Some(line) = rest.strip_prefix("< ") {
                run.note_in(number, at, What::Received(Line::new(bytes(line))));
            }
        }
        "event" => {
            let (words, data) = rest.split_once("< ").unwrap_or((rest, ""));
            let field = |name: &str| words.split(' ').find_map(|word| word.strip_prefix(name));
            let id = field("id=").map(|id| id.to_owned().into());
            let name = field("name=").map(|name| name.to_owned().into());
            let retry = field("retry=").and_then(|retry| retry.parse().ok());
            run.note_in(number, at, What::Streamed(Event { name, id, data: bytes(data).into() }));
            if let Some(milliseconds) = retry {
                run.note_in(number, at, What::Retry(Duration::from_millis(milliseconds)));
            }
        }
        "ended" => run.note_in(number, at, What::BodyEnded(BodyEnd::Complete)),
        "left" => run.note_in(number, at, What::BodyEnded(BodyEnd::Left)),
        status => {
            let status = if status == "json" { 200 } else { status.parse().unwrap() };
            run.note_in(number, at, What::Responded(HttpResponse { status, headers }));
            if let Some((name, line)) = rest.split_once("> ") {
                let name = name.trim_end();
                let name = if name.is_empty() { "answer" } else { name };
                run.note_in(number, at, What::Sent(probe(name, place), Line::new(bytes(line))));
            }
        }
    }
}

#[test]
fn f27_every_rule_for_clients_finds_its_fault_and_no_other_rule_does() {
    each_finds_its_fault(&cases(), check_client);
}

#[test]
fn f27_every_rule_for_clients_has_a_transcript_that_passes_and_one_that_fails() {
    each_has_both(&cases(), client_rules());
}

#[test]
fn the_book_for_clients_is_in_order() {
    are_in_order(&client_rules().collect::<Vec<_>>());
    for rule in client_rules() {
        assert!(rule.slug.starts_with("client-"), "{}", rule.slug);
    }
}

#[test]
fn rules_for_clients_are_selected_by_name_and_by_chapter() {
    let count = |only: &[&str]| {
        let selection = Selection::for_clients(only.iter().copied(), []).unwrap();
        client_rules().filter(|rule| selection.has(rule)).count()
    };
    assert_eq!(count(&["client-request-id"]), 1);
    let chapters =
        ["base", "lifecycle", "stdio", "http", "http-sse", "utilities", "patterns", "client-features"];
    assert_eq!(count(&chapters), client_rules().count());
    assert_eq!(Selection::for_clients(["id-type"], []).unwrap_err().0, "id-type");
    assert_eq!(Selection::new(["client-request-id"], []).unwrap_err().0, "client-request-id");
}
