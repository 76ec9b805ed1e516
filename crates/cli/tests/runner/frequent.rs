//! Tests of the most frequent failures: each message says what was tried, what was received and what to do.

use super::config::Folder;
use super::http::answering;
use super::support::{Ran, line, run};

/// Asserts that the failure has this id, that its first line has this text, and that its hint begins so.
#[track_caller]
fn says(ran: Ran, id: &str, message: &str, hint: &str) {
    let (first, rest) = ran.stderr.split_once('\n').unwrap_or_else(|| panic!("{}", ran.stderr));
    let first = if first.starts_with("error: ") { first } else { rest.lines().next().unwrap_or_default() };
    assert!(first.contains(message) && first.contains(id), "{message} ({id}): {}", ran.stderr);
    assert!(ran.stderr.contains(&format!("\n  try      {hint}")), "{hint}: {}", ran.stderr);
}

#[test]
fn a_program_that_gives_up_is_answered_with_the_cure() {
    for (script, message, hint) in [
        (
            "echo 'Error: API_KEY is not set' >&2; exit 1",
            "the server needs the environment variable API_KEY, which is not set; the server exited before the session was open",
            "set API_KEY: -e API_KEY=...",
        ),
        (
            "echo \"ModuleNotFoundError: No module named 'fastmcp'\" >&2; exit 1",
            "this Python has no module fastmcp; the server exited",
            "run it with the Python of the environment in which it is installed",
        ),
        // Node prints the message before a stack that is longer than what is shown.
        (
            "echo \"Error: Cannot find module 'express'\" >&2; seq 20 >&2; exit 1",
            "the package or file express is not installed; the server exited",
            "install its dependencies in the folder of the program (npm install)",
        ),
        (
            "echo 'out of luck' >&2; exit 1",
            "the server exited before",
            "its standard error says why; mcpjoin doctor",
        ),
        ("exit 1", "the server exited before", "run the command by itself in a terminal"),
        (
            "echo Welcome",
            "the server exited before",
            "it ended without an error and did not serve: check the arguments",
        ),
    ] {
        says(run(["list", "sh", "-c", script]).exits(4), "(E_SERVER_EXITED)", message, hint);
    }
}

#[test]
fn a_program_that_serves_http_is_answered_with_its_url() {
    let script = "echo 'Server listening on port 3000'; cat >/dev/null";
    let ran = run(["list", "--connect-timeout", "1s", "sh", "-c", script]).exits(4);
    let message = "the program serves HTTP at http://127.0.0.1:3000/mcp, and not MCP over stdio";
    says(ran, "(E_NOT_MCP)", message, "start it in another terminal, and use http://127.0.0.1:3000/mcp");
}

#[test]
fn a_program_that_cannot_be_started_is_named_as_what_it_is() {
    let folder = Folder::new("frequent");
    folder.file("own.json", r#"{"mcpServers": {"a": {"command": "npx -y pkg"}}}"#);
    says(
        folder.run(&["list", "-c", "own.json", "a"]).exits(4),
        "(E_SPAWN_NOT_FOUND)",
        "cannot start 'npx -y pkg'",
        "the name of the program contains its arguments: in an entry, move all words but the first to \"args\"",
    );
    // It is in each folder of PATH, and no program.
    says(
        line("list .").exits(4),
        "(E_SPAWN_DIRECTORY)",
        "cannot start .: . is a directory",
        "use a program in",
    );
}

#[test]
fn an_http_status_is_reported_with_its_meaning() {
    let page = |status: &str, more: &str| {
        let body = "no";
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n{more}connection: close\r\n\r\n{body}",
            body.len()
        )
    };
    for (status, more, exit, id, message, hint) in [
        (
            "401 Unauthorized",
            "",
            3,
            "(E_AUTH)",
            "authorization required: ",
            "no sign of OAuth: this server probably requires an API key",
        ),
        (
            "403 Forbidden",
            "",
            3,
            "(E_AUTH)",
            "access denied: ",
            "check the URL: a proxy or a firewall may have refused",
        ),
        (
            "404 Not Found",
            "",
            4,
            "(E_NO_ENDPOINT)",
            "the URL answers, but not as an MCP server: ",
            "check the path",
        ),
        ("405 Method Not Allowed", "", 4, "(E_NO_ENDPOINT)", "the URL answers, but not as", "check the path"),
        (
            "415 Unsupported Media Type",
            "",
            4,
            "(E_NO_ENDPOINT)",
            "the URL answers, but not as",
            "check the path",
        ),
        (
            "429 Too Many Requests",
            "retry-after: 600\r\n",
            4,
            "(E_LINK)",
            "the server limits requests: ",
            "wait, then try again",
        ),
        ("500 Internal Server Error", "", 4, "(E_LINK)", "the server failed: ", "see the server's own log"),
        // A web server that does not know POST, such as Python's `http.server`.
        ("501 Not Implemented", "", 4, "(E_NO_ENDPOINT)", "the URL answers, but not as", "check the path"),
        (
            "502 Bad Gateway",
            "",
            4,
            "(E_LINK)",
            "a proxy does not reach the server: ",
            "check that the server behind",
        ),
        (
            "503 Service Unavailable",
            "",
            4,
            "(E_LINK)",
            "the server is not available: ",
            "see the server's own log",
        ),
        (
            "302 Found",
            "location: https://login.example.com/\r\n",
            4,
            "(E_LINK)",
            "the URL redirects: ",
            "use the address to which it redirects",
        ),
    ] {
        let (url, _received) = answering(page(status, more));
        let ran = line(&format!("ping {url}")).exits(exit);
        assert!(ran.stderr.contains(status), "{}", ran.stderr);
        says(ran, id, message, hint);
        // It follows no redirect, and checks how a token is requested.
        if !matches!(&status[..3], "302" | "401") {
            says(line(&format!("validate {url}")).exits(exit), id, message, hint);
        }
    }
}

#[test]
fn a_name_and_a_port_are_distinguished() {
    let name = "http://no-such-host.invalid/mcp";
    says(line(&format!("ping {name}")).exits(4), "(E_CONNECT)", "cannot be resolved", "check the host name");
    let port = super::ports::Closed::tcp().port();
    let ran = line(&format!("ping http://127.0.0.1:{port}/mcp")).exits(4);
    says(ran, "(E_CONNECT)", "nothing listens there", "start the server, or check the host and the port");
}

#[test]
fn a_call_that_is_not_right_is_answered_with_what_to_type() {
    for (words, exit, id, message, hint) in [
        (
            "call demo:",
            2,
            "(E_USAGE)",
            "the name of a tool is missing (E",
            "see the tools: mcpjoin list demo:",
        ),
        (
            "call demo: a=1",
            2,
            "(E_USAGE)",
            "a tool is missing before a=1",
            "see the tools: mcpjoin list demo:",
        ),
        (
            "call demo: nothing",
            5,
            "(E_SERVER_ERROR)",
            "unknown tool: nothing",
            "see the tools: mcpjoin list demo:\n  or       see the parameters of one: mcpjoin tool demo: NAME\n",
        ),
        (
            "call demo: echo mesage=hi",
            2,
            "(E_USAGE)",
            "`message` is required; the tool declares no `mesage`: did you mean `message`?",
            "--force sends the call anyway; see the parameters: mcpjoin tool demo: echo",
        ),
        (
            "call demo: echo other=hi",
            2,
            "(E_USAGE)",
            "`message` is required (E_USAGE)",
            "--force sends the call anyway; see the parameters: mcpjoin tool demo: echo",
        ),
        (
            "call demo: add a:=x b=1",
            2,
            "(E_USAGE)",
            "is not JSON: unexpected byte 0x78 (x) at byte 0; as a text it is a=x",
            "",
        ),
    ] {
        says(line(words).exits(exit), id, message, hint);
    }
}
