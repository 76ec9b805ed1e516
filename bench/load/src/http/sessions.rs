//! The cost of idle sessions.

use std::io::Write;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::connection::Connection;
use super::{Listening, Mode};
use crate::server::{cpu, memory};

/// The number of sessions that are opened before the measurement.
const WARM: usize = 20;
/// The time for a server to free memory before its memory is read.
const SETTLE: Duration = Duration::from_millis(700);

/// Opens `sessions COUNT` of them, each with an open stream if `streams` is given, and reads the server's memory.
pub(crate) fn sessions(words: &[&str], command: &[String]) -> Result<Value, String> {
    let streams = words.contains(&"streams");
    let count: usize = words.iter().find_map(|word| word.parse().ok()).ok_or("sessions COUNT [streams]")?;
    let server = Listening::start(command)?;
    let mut connection = Connection::connect(&server.endpoint(Mode::Stateful))?;
    for _ in 0..WARM {
        connection.open_session()?;
        // So that they take no places of a server that limits how many it has.
        connection.close_session()?;
    }
    sleep(SETTLE);
    let (before, spent, began) = (memory(server.pid()), cpu(server.pid()), Instant::now());
    let mut open = Vec::new();
    for _ in 0..count {
        connection.open_session()?;
        if streams {
            let mut stream = TcpStream::connect(server.address).map_err(|error| error.to_string())?;
            let get = format!(
                "GET /mcp HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n{}\r\n",
                server.address,
                connection.headers()
            );
            stream.write_all(get.as_bytes()).map_err(|error| error.to_string())?;
            open.push(stream);
        }
    }
    let took = began.elapsed().as_secs_f64();
    let spent = (cpu(server.pid()) - spent).as_secs_f64();
    sleep(SETTLE);
    let after = memory(server.pid());
    let (before, after) = before.zip(after).ok_or("the server's memory cannot be read")?;
    let sessions = count as f64;
    Ok(json!({
        "kib_per_session": (after as f64 - before as f64) / sessions,
        "per_second": sessions / took,
        "cpu_us": spent * 1e6 / sessions,
        "peak_kib": after,
    }))
}
