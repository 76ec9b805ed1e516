//! Calls through a gateway.

use serde_json::{Value, json};

use super::session::Session;
use super::{Gateway, Options};
use crate::http::{Connection, Mode, measure};
use crate::plan::Plan;

/// Measures `calls shared|apart --connections N ... PAYLOAD`: calls of the tool of the first server, after the tools of all
/// servers have been listed. `shared` calls in one session, `apart` in a session for each connection.
pub(super) fn calls(options: Options, words: &[&str], command: &[String]) -> Result<Value, String> {
    let (is_shared, words) = match words {
        ["shared", words @ ..] => (true, words),
        ["apart", words @ ..] => (false, words),
        _ => return Err("calls shared|apart".into()),
    };
    let plan = Plan::parse(words, "--connections", 16)?;
    let gateway = Gateway::start(options, command)?;
    // A session that was opened before a server was ready may lack its tools.
    gateway.complete()?.0.close()?;
    let mut streams = Vec::new();
    let mut connections: Vec<Connection> = Vec::new();
    for _ in 0..plan.at_once {
        let connection = match connections.first() {
            Some(first) if is_shared || gateway.options.mode == Mode::Stateless => first.beside()?,
            _ => {
                let mut session = Session::open(&gateway)?;
                session.list(&gateway)?;
                if let Some(events) = session.events {
                    events.never_wait()?;
                    streams.push(events);
                }
                session.connection
            }
        };
        connections.push(connection);
    }
    // Read again at each use: a gateway may start a server for a session.
    let mut figures = measure(connections, streams, &plan, || gateway.processes().cpu())?;
    let processes = gateway.processes();
    figures["gateway_kib"] = json!(processes.memory());
    figures["backends"] = json!(processes.backends());
    Ok(figures)
}
