//! The cost of several processes that serve the same sessions.

use std::time::Duration;

use serde_json::Value;

use super::connection::Connection;
use super::{Listening, Mode, measure};
use crate::plan::Plan;
use crate::server::cpu;

/// Starts `replicas COUNT` processes, each with a port of its own, and calls the tool echo in sessions that are each used on two
/// connections. The two lead to different processes if there are several. `--connections` is the number for each process, so that each
/// has as much to do at once. The costs are those of all processes together.
pub(crate) fn replicas(words: &[&str], command: &[String]) -> Result<Value, String> {
    const FORM: &str = "load replicas COUNT stateful|stateless";
    let [count, mode, words @ ..] = words else { return Err(FORM.into()) };
    let count: usize = count.parse().map_err(|_| FORM)?;
    let mode = match *mode {
        "stateful" => Mode::Stateful,
        "stateless" => Mode::Stateless,
        _ => return Err(FORM.into()),
    };
    let plan = Plan::parse(words, "--connections", 16)?;
    let processes = (0..count).map(|_| Listening::start(command)).collect::<Result<Vec<_>, _>>()?;
    let endpoint = |at: usize| processes[at % count].endpoint(mode);
    let mut connections = Vec::new();
    for session in 0..(plan.at_once * count).div_ceil(2) {
        let first = Connection::open(&endpoint(session))?;
        let second = first.beside_at(&endpoint(session + 1))?;
        connections.extend([first, second]);
    }
    let spent = || processes.iter().map(|process| cpu(process.pid())).sum::<Duration>();
    measure(connections, Vec::new(), &plan, spent)
}
