//! Tests that terminal escapes and invisible characters of a peer or a file are escaped: for every verb, every place of a
//! text, text and JSON output, and pipes and terminals. The one exception is the content of a result, which is the user's
//! data, where standard output is not a terminal.

use std::io::Write;
use std::net::TcpListener;
use std::process::Stdio;

use super::config::Folder;
use super::support::{read_request, start};
use super::terminal::seen;

/// Clipboard, screen, colour; then C1, bidirectional override, tag, zero width, return and backspace. The letters around
/// them show whether the text was printed at all.
const PLANT: &str =
    "Pl\u{1b}]52;c;aGk=\u{7}\u{1b}[2J\u{1b}[35m\u{9b}35m\u{202e}\u{e0041}\u{200b}\u{2066}\r\u{8}nt";

/// The first character that must not be printed. Tabs and line feeds are harmless.
fn obeyed(text: &str) -> Option<char> {
    text.chars().find(|character| {
        matches!(character, '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}')
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || matches!(character, '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    })
}

/// The text without the styles of mcpjoin, its progress line and the sequence that clears this line.
fn without_ours(text: &str) -> String {
    let mut text = text.replace("\r\n", "\n").replace("\r\u{1b}[K", "");
    for style in ["0", "1", "2", "4", "31", "32", "33", "36"] {
        text = text.replace(&format!("\u{1b}[{style}m"), "");
    }
    text
}

#[track_caller]
fn hold(words: &[&str], text: &str) {
    let bare = without_ours(text);
    if let Some(character) = obeyed(&bare) {
        let at = bare.find(character).unwrap();
        let around: String =
            bare[..at].chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect();
        panic!("{words:?}: {character:?} behind {around:?}");
    }
}

/// A server of the legacy era that puts [`PLANT`] into every text it sends. With `MODE` it works, its results are tool
/// errors, it responds with errors, with something that is not a result, with other text, or it exits.
const HOSTILE: &str = r##"
import json, os, sys
P, mode = os.environ["PLANT"], os.environ["MODE"]
out = open(1, "w", encoding="utf-8", newline="\n")
err = open(2, "w", encoding="utf-8", newline="\n")
def line(to, text):
    to.write(text + "\n")
    to.flush()
def say(**members):
    line(out, json.dumps({"jsonrpc": "2.0", **members}, ensure_ascii=False))
schema = {"type": "object", "description": P, "properties": {
    P: {"type": "string", "description": P, "enum": [P], "default": P}, "b": {"type": [P], "default": {P: P}}}, "required": [P]}
results = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}, "prompts": {},
        "completions": {}, "logging": {}, "experimental": {P: {}}},
        "serverInfo": {"name": P, "title": P, "version": P, "description": P, "websiteUrl": "https://h/" + P},
        "instructions": P + "\n" + P},
    "tools/list": {"tools": [
        {"name": "x", "title": P, "description": P + "\n" + P, "inputSchema": schema, "outputSchema": schema,
         "annotations": {"title": P, P: True}, "icons": [{"src": P}], "_meta": {P: P}},
        {"name": P, "inputSchema": {"type": "object"}}]},
    "resources/list": {"resources": [{"uri": "a://b", "name": P, "title": P, "description": P, "mimeType": P},
        {"uri": "a://" + P, "name": P}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "a://{" + P + "}", "name": P, "description": P}]},
    "prompts/list": {"prompts": [{"name": "p", "title": P, "description": P, "arguments": [{"name": P, "description": P}]},
        {"name": P}]},
    "tools/call": {"content": [{"type": "text", "text": P}, {"type": "resource_link", "uri": "a://" + P, "name": P},
        {"type": "image", "data": P, "mimeType": P}, {"type": P, P: P},
        {"type": "resource", "resource": {"uri": P, "mimeType": P, "text": P}}],
        "structuredContent": {P: P}, "isError": mode == "failing", P: P},
    "resources/read": {"contents": [{"uri": P, "mimeType": P, "text": P}, {"uri": P, "mimeType": P, "blob": P}]},
    "prompts/get": {"description": P, "messages": [{"role": "user", "content": {"type": "text", "text": P}},
        {"role": P, "content": {"type": P, "text": P}}]},
    "completion/complete": {"completion": {"values": [P], "hasMore": True, "total": 9}},
    "logging/setLevel": {}, "ping": {P: P},
}
line(err, P)
for text in sys.stdin:
    asked = json.loads(text)
    # Of a request of its own it receiver that nobody knows it.
    if "id" not in asked or "method" not in asked:
        continue
    method, params = asked["method"], asked.get("params", {})
    if method != "initialize" or mode == "refusing":
        line(err, P)
        line(out, P)
        say(method="notifications/message", params={"level": "error", "logger": P, "data": P})
        say(method="notifications/message", params={"level": "error", "logger": P, "data": {P: [P]}})
        say(method=P, params={P: P})
        say(id=P, method=P)
        say(id=P, result={P: P})
        token = params.get("_meta", {}).get("progressToken")
        if token is not None:
            say(method="notifications/progress", params={"progressToken": token, "progress": 1, "total": 2, "message": P})
        if mode == "ending":
            sys.exit(3)
        if mode == "refusing" or mode == "quiet" and method == "logging/setLevel":
            say(id=asked["id"], error={"code": -32000, "message": P, "data": {P: [P]}})
            continue
        if mode == "wrong":
            say(id=asked["id"], result=[P])
            continue
    if method in results:
        say(id=asked["id"], result=results[method])
    else:
        say(id=asked["id"], error={"code": -32601, "message": P})
"##;

/// Every verb that talks to a server, its operands, and whether its standard output is the user's data.
const VERBS: [(&str, &[&str], bool); 11] = [
    ("list", &[], false),
    ("list", &["--describe"], false),
    ("info", &[], false),
    ("tool", &["x"], false),
    ("call", &["x", "a=1"], true),
    ("read", &["a://b"], true),
    ("prompt", &["p"], true),
    ("complete", &["prompt:p", "a=b"], true),
    ("ping", &["-n", "1"], false),
    ("diff", &["old.json"], false),
    ("doctor", &[], false),
];

const MODES: [&str; 6] = ["working", "failing", "refusing", "quiet", "wrong", "ending"];

/// A folder with the server's script.
fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.file("hostile.py", HOSTILE);
    folder.file("old.json", r#"{"protocolVersion":"2025-11-25","tools":[]}"#);
    folder
}

/// The command line of a verb with that server.
fn words<'a>(verb: &'a str, operands: &[&'a str], options: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec![verb, "--era", "legacy", "-t", "20s"];
    words.extend(options);
    // A JSON document describes each tool anyway.
    words.extend(operands.iter().filter(|operand| **operand != "--describe" || !options.contains(&"--json")));
    words.extend(["--", "python3", "hostile.py"]);
    words
}

#[test]
fn nothing_that_a_server_says_reaches_a_pipe_as_it_is_but_results() {
    let folder = folder("escapes-pipe");
    let mut planted = 0;
    for mode in MODES {
        for (verb, operands, is_data) in VERBS {
            for options in [&["-vv", "--color", "always"][..], &["--json", "-vv"]] {
                let words = words(verb, operands, options);
                let mut command = folder.command(&words);
                command.env("MODE", mode).env("PLANT", PLANT);
                let ran = start(command).finish();
                if mode == "working" && !matches!(verb, "doctor" | "diff") {
                    assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.stderr);
                }
                hold(&words, &ran.stderr);
                if !is_data || options.contains(&"--json") {
                    hold(&words, &ran.stdout);
                }
                planted += usize::from(ran.stderr.contains("52;c;aGk=") || ran.stdout.contains("52;c;aGk="));
            }
        }
    }
    assert_eq!(planted, MODES.len() * VERBS.len() * 2, "it was there to be shown");
}

#[test]
fn nothing_that_a_server_says_reaches_a_terminal_as_it_is() {
    let folder = folder("escapes-terminal");
    let script = folder.path().join("here/hostile.py");
    let old = folder.path().join("here/old.json");
    let (script, old) = (script.to_str().unwrap(), old.to_str().unwrap());
    for (verb, operands, _) in VERBS {
        for (mode, options) in [
            ("working", &["-v"][..]),
            ("working", &[]),
            ("quiet", &["-v"]),
            ("refusing", &["--json"]),
            ("wrong", &["-vv"]),
        ] {
            let mut words = words(verb, operands, options);
            for word in &mut words {
                match *word {
                    "hostile.py" => *word = script,
                    "old.json" => *word = old,
                    _ => {}
                }
            }
            let seen = seen(&[("MODE", mode), ("PLANT", PLANT)], "", "", &words);
            hold(&words, &seen.shown);
            assert!(seen.shown.contains("52;c;aGk="), "{words:?}: {}", seen.shown);
        }
    }
}

#[test]
fn nothing_that_a_server_says_reaches_a_report_as_it_is() {
    let folder = folder("escapes-report");
    for options in [&["-v"][..], &["--json"], &["--format", "sarif"], &["--format", "junit"]] {
        for mode in ["working", "refusing"] {
            let mut words = vec!["validate", "--era", "legacy", "--rule", "only-messages"];
            words.extend(options);
            words.extend(["--", "python3", "hostile.py"]);
            let mut command = folder.command(&words);
            command.env("MODE", mode).env("PLANT", PLANT);
            let ran = start(command).finish();
            assert_ne!(ran.code, Some(0), "{words:?}");
            hold(&words, &ran.stdout);
            hold(&words, &ran.stderr);
            assert!(ran.stdout.contains("52;c;aGk=") || ran.stderr.contains("52;c;aGk="), "{words:?}");
        }
    }
}

#[test]
fn nothing_that_a_server_says_through_a_bridge_is_printed_as_it_is() {
    let folder = folder("escapes-bridge");
    for mode in ["working", "refusing", "ending"] {
        let words = ["bridge", "-vv", "--era", "legacy", "--", "python3", "hostile.py"];
        let mut command = folder.command(&words);
        command.env("MODE", mode).env("PLANT", PLANT).stdin(Stdio::piped());
        let mut running = start(command);
        let mut stdin = running.child.stdin.take().unwrap();
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c\u009b","version":"1"}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
            "\u{9b}35m",
        ] {
            // A bridge whose server refuses everything may have exited.
            let _ = writeln!(stdin, "{line}");
        }
        drop(stdin);
        let ran = running.finish();
        hold(&words, &ran.stderr);
        assert!(ran.stderr.contains("52;c;aGk="), "{mode}: {}", ran.stderr);
    }
}

/// A server over HTTP whose path selects the one response that it sends to all requests.
fn hostile_http() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        // A header cannot contain control characters.
        let text: String = PLANT.chars().filter(|character| *character >= ' ').collect();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (head, body) = read_request(&stream);
            let id = serde_json::from_slice::<serde_json::Value>(&body).unwrap_or_default()["id"].clone();
            let error = serde_json::json!({"code": -32000, "message": PLANT, "data": {PLANT: PLANT}});
            let rpc = serde_json::json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let (status, kind, body) = match path {
                "/refused" => (
                    format!(
                        "401 No\r\nwww-authenticate: Bearer realm=\"{text}\", error=\"{text}\", error_description=\"{text}\""
                    ),
                    "text/plain".to_owned(),
                    PLANT.to_owned(),
                ),
                "/moved" => (
                    format!("307 {text}\r\nlocation: https://other.invalid/{text}"),
                    text.clone(),
                    PLANT.to_owned(),
                ),
                "/page" => ("404 No".to_owned(), format!("text/html; x={text}"), format!("<html>{PLANT}")),
                "/broken" => (format!("500 {text}"), "text/plain".to_owned(), PLANT.to_owned()),
                "/rpc" => ("200 OK".to_owned(), "application/json".to_owned(), rpc),
                _ => ("200 OK".to_owned(), "application/json".to_owned(), format!("{{\"{PLANT}")),
            };
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nserver: {text}\r\nmcp-session-id: {text}\r\ncontent-length: {length}\r\n\
                 connection: close\r\n\r\n{body}"
            );
        }
    });
    address
}

#[test]
fn nothing_that_a_server_says_over_http_reaches_anybody_as_it_is() {
    let folder = Folder::new("escapes-http");
    let address = hostile_http();
    let mut planted = 0;
    for path in ["refused", "moved", "page", "broken", "rpc", "cut"] {
        let url = format!("http://{address}/{path}");
        for words in [
            &["list", "-vv", "--color", "always", &url][..],
            &["list", "--json", "-vv", &url],
            &["call", "--json", &url, "x"],
            &["doctor", "-v", "--color", "always", &url],
            &["doctor", "--json", &url],
            &["auth", "explain", "-v", &url],
        ] {
            let ran = start(folder.command(words)).finish();
            hold(words, &ran.stdout);
            hold(words, &ran.stderr);
            planted += usize::from(ran.stderr.contains("35m") || ran.stdout.contains("35m"));
        }
        let seen = seen(&[], "", "", &["list", "-vv", &url]);
        hold(&["list", &url], &seen.shown);
    }
    // Some cases print no text of the peer.
    assert!(planted > 15, "{planted}");
}

#[test]
fn nothing_that_a_configuration_says_reaches_anybody_as_it_is() {
    let folder = Folder::new("escapes-config");
    let plain: String = PLANT.chars().filter(|character| !character.is_control()).collect();
    let document = serde_json::json!({
        "mcpServers": {
            PLANT: {"command": "sh", "args": ["-c", "exit 3", PLANT], "env": {"A": PLANT, PLANT: "x"}, "cwd": PLANT},
            "program": {"command": PLANT, "args": [PLANT], "description": PLANT, PLANT: PLANT},
            "ends": {"command": "sh", "args": ["-c", "exit 3", PLANT]},
            "web": {"url": format!("http://127.0.0.1:1/{plain}"), "headers": {"X-A": plain}},
            "variable": {"command": "sh", "env": {"A": format!("${{{PLANT}}}")}},
            "file": {"command": "sh", "envFile": PLANT},
            "kind": {"type": PLANT, "command": "sh"},
            "inputs": {"command": "sh", "args": [format!("${{input:{PLANT}}}")]},
        },
        PLANT: [PLANT],
    });
    folder.file(".mcp.json", document.to_string());
    let named = folder.file(&format!("{PLANT}.json"), "{\"mcpServers\": {\"a\": 1}}");
    let named = named.to_str().unwrap();
    let mut planted = 0;
    for words in [
        &["servers", "-vv", "--color", "always"][..],
        &["servers", "--json", "-vv"],
        &["servers", "--config", named],
        &["list", "-vv", "-t", "1s", "--color", "always"],
        &["list", "--json", "-vv", "-t", "1s"],
        &["list", "-v", PLANT],
        &["list", "--json", PLANT],
        &["list", "-v", "program"],
        &["list", "--json", "program"],
        &["list", "-v", "ends"],
        &["list", "--json", "ends"],
        &["list", "-v", "web"],
        &["list", "--json", "web"],
        &["list", "variable"],
        &["list", "file"],
        &["list", "kind"],
        &["list", "--json", "inputs"],
        &["list", "--config", named, "a"],
        &["list", "--json", "--config", named, "a"],
        &["search", "-vv", "-t", "1s", PLANT],
        &["search", "--json", "-t", "1s", PLANT],
        &["doctor", "-v", "-t", "1s", "ends"],
        &["doctor", "--json", "-t", "1s", PLANT],
        &["call", PLANT, PLANT, PLANT],
        &["tool", "--json", "ends", PLANT],
        &[PLANT],
        &["list", "--json", "--timeout", PLANT],
    ] {
        let ran = start(folder.command(words)).finish();
        hold(words, &ran.stdout);
        hold(words, &ran.stderr);
        planted += usize::from(ran.stderr.contains("35m") || ran.stdout.contains("35m"));
    }
    assert!(planted > 20, "{planted}");
}
