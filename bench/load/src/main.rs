//! Loads an MCP server over its standard input and output or over HTTP, with no SDK and one thread, and measures it.
//!
//! ```text
//! load stdio   [--depth N] [--seconds S] [--warm S] [--beside PROCESS] PAYLOAD -- COMMAND...   calls of the tool echo
//! load startup -- COMMAND...                                               from the start to the answer to initialize
//! load wall    -- COMMAND...                                               from the start to the end
//! load http stateful|stateless [--connections N] [--seconds S] [--warm S] PAYLOAD -- COMMAND...
//! load sessions COUNT [streams] -- COMMAND...                              the memory of idle sessions
//! load left COUNT -- COMMAND...                                            the processes of a bridge, and what is left of them
//! load payload BYTES ascii|other > PAYLOAD                                 a text for echo
//! ```
//!
//! PAYLOAD is a file with the text that is echoed; every client and every server of one cell gets the same. Each prints
//! one JSON object. A server over HTTP listens on 127.0.0.1, at the port that stands for `{port}` in its command, and
//! answers at `/mcp`: in 2025-11-25 with a session for each connection, or in 2026-07-28 without. CPU time is that of the
//! server's process over the measured time, its start not included, and of PROCESS, which works for it, with all that it
//! has started; memory is the most that the server ever had (VmHWM), without its children.

mod calls;
mod http;
mod latency;
mod messages;
mod plan;
mod server;

use std::process::ExitCode;

use serde_json::{Value, json};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (ours, command) = match words.iter().position(|word| word == "--") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (&words[..], &[][..]),
    };
    let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
    let outcome = match ours.as_slice() {
        ["stdio", options @ ..] => plan::Plan::parse(options, "--depth", 1)
            .and_then(|plan| server::Server::start(command)?.load(&plan)),
        ["http", words @ ..] => http::load(words, command),
        ["sessions", words @ ..] => http::sessions(words, command),
        ["left", words @ ..] => http::left(words, command),
        ["startup"] => server::startup(command),
        ["wall"] => server::wall(command),
        ["payload", size, kind] => return payload(size, kind),
        _ => Err("load stdio|http|sessions|left|startup|wall|payload: see the first lines of its source"
            .to_owned()),
    };
    let (printed, code): (Value, _) = match outcome {
        Ok(figures) => (figures, ExitCode::SUCCESS),
        Err(error) => (json!({ "error": error }), ExitCode::FAILURE),
    };
    println!("{printed}");
    code
}

fn payload(size: &str, kind: &str) -> ExitCode {
    match (size.parse(), kind) {
        (Ok(size), "ascii" | "other") => {
            print!("{}", messages::text(size, kind == "ascii"));
            ExitCode::SUCCESS
        }
        _ => ExitCode::FAILURE,
    }
}
