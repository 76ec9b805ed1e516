//! Loads and measures an MCP server over stdio or over HTTP, without an SDK and on one thread.
//!
//! ```text
//! load stdio   [--work echo|mixed|tools|resource] [--depth N] [--seconds S] [--warm S] [--beside PROCESS] PAYLOAD -- COMMAND...
//!                                                                          calls of the tool echo, or other requests
//! load startup -- COMMAND...                                               from the start to the response to initialize
//! load wall    -- COMMAND...                                               from the start to the end
//! load http stateful|stateless [--connections N] [--once|--http2] [--seconds S] [--warm S] PAYLOAD -- COMMAND...
//! load replicas COUNT stateful|stateless [OPTIONS as above] PAYLOAD -- COMMAND...   the same with several processes for each session
//! load sessions COUNT [streams] -- COMMAND...                              the memory of idle sessions
//! load left COUNT -- COMMAND...                                            the processes of a bridge, and those that remain
//! load gateway [--mode stateful|stateless|events|openapi] [--path PATH] [--tool NAME] [--config FILE] [--folder FOLDER]
//!              [--backends N] MEASUREMENT -- COMMAND...                    a gateway before N servers; MEASUREMENT is one of
//!     first                                                                from the start to the list with all tools
//!     calls shared|apart [--connections N] [--seconds S] [--warm S] PAYLOAD  calls, in one session or in one for each
//!     dead                                                                 what a client sees when one server is dead
//! load payload BYTES ascii|other > PAYLOAD                                 a text for echo
//! load certificate FOLDER                                                  cert.pem and key.pem for a server over HTTPS
//! load payload COUNT tools > PAYLOAD                                       a list of tools
//! ```
//!
//! PAYLOAD is a file with the text to echo, or with the list or the resource that the server has to give; all clients and servers of one cell get the same file. Each command prints one
//! JSON object. A server over HTTP listens on 127.0.0.1, at the port that replaces `{port}` in its command, and serves
//! `/mcp`: with TLS if its command names a certificate behind `--cert`, in 2025-11-25 with a session for each connection, or in 2026-07-28 without sessions. CPU time is that of the
//! server's process during the measurement, without its start, plus that of PROCESS, which works for the server, and of all
//! processes that PROCESS has started. Memory is the server's peak (VmHWM), without its children.

mod calls;
mod gateway;
mod http;
mod latency;
mod messages;
mod plan;
mod server;
mod work;

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
        ["stdio", options @ ..] => plan::Plan::parse(options, "--depth", 1).and_then(|mut plan| {
            let work = work::Work::new(&plan.work, std::mem::take(&mut plan.text))?;
            server::Server::start(command)?.load(&plan, &work)
        }),
        ["http", words @ ..] => http::load(words, command),
        ["replicas", words @ ..] => http::replicas(words, command),
        ["sessions", words @ ..] => http::sessions(words, command),
        ["gateway", words @ ..] => gateway::measure(words, command),
        ["left", words @ ..] => http::left(words, command),
        ["startup"] => server::startup(command),
        ["wall"] => server::wall(command),
        ["certificate", folder] => http::certificate(folder),
        ["payload", size, kind] => return payload(size, kind),
        _ => Err(
            "load stdio|http|replicas|sessions|left|gateway|startup|wall|payload: see the first lines of its source"
                .to_owned(),
        ),
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
        (Ok(count), "tools") => {
            print!("{}", work::tools(count));
            ExitCode::SUCCESS
        }
        (Ok(size), "ascii" | "other") => {
            print!("{}", messages::text(size, kind == "ascii"));
            ExitCode::SUCCESS
        }
        _ => ExitCode::FAILURE,
    }
}
