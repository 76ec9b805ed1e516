//! Counts the processes of a bridge, and those that remain after their session.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::connection::Connection;
use super::{LOOK, Listening, MARK, Mode};
use crate::server::{heap, memory};

/// How long processes may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens `left COUNT` sessions, ends the first half of them with DELETE and leaves the others open, and then ends the
/// bridge. Returns the number of its processes after each step, without the bridge itself, how long they took to end, and the
/// memory of the bridge for each session but the first.
pub(crate) fn left(words: &[&str], command: &[String]) -> Result<Value, String> {
    let count: usize = words.iter().find_map(|word| word.parse().ok()).ok_or("left COUNT")?;
    let mark = std::process::id().to_string();
    let mut server = Listening::start_marked(command, &mark)?;
    let own = server.pid();
    let began = Instant::now();
    let mut sessions = vec![Connection::open(&server.endpoint(Mode::Stateful))?];
    let first = heap(own);
    for _ in 1..count {
        sessions.push(Connection::open(&server.endpoint(Mode::Stateful))?);
    }
    let took = began.elapsed().as_secs_f64() * 1e3 / count as f64;
    let open = processes(&mark, own);
    let memory = memory(own);
    let of_others = heap(own).zip(first).map(|(all, first)| all.saturating_sub(first));
    let session = of_others.map(|kib| kib as f64 / (count - 1) as f64);
    for session in &mut sessions[..count / 2] {
        session.close_session()?;
    }
    let (after_delete, delete_ms) = settle(&mark, own, open - open / 2);
    drop(sessions);
    let handle = Pid::from_child(&server.child);
    kill_process(handle, Signal::TERM).map_err(|error| error.to_string())?;
    let told = Instant::now();
    let mut ended = None;
    while ended.is_none() && told.elapsed() < PATIENCE {
        ended = server.child.try_wait().map_err(|error| error.to_string())?;
        sleep(LOOK);
    }
    let end_ms = told.elapsed().as_secs_f64() * 1e3;
    drop(server);
    let (left, _) = settle(&mark, own, 0);
    for process in marked(&mark) {
        let _ = Pid::from_raw(process.cast_signed()).map(|process| kill_process(process, Signal::KILL));
    }
    Ok(json!({
        "open": open,
        "open_ms": took,
        "peak_kib": memory,
        "session_kib": session,
        "after_delete": after_delete,
        "delete_ms": delete_ms,
        "end_ms": ended.map(|_| end_ms),
        "left": left,
    }))
}

/// The number of processes when it has dropped to `wanted` or [`PATIENCE`] has passed, and the time until then.
fn settle(mark: &str, own: u32, wanted: usize) -> (usize, f64) {
    let began = Instant::now();
    loop {
        let count = processes(mark, own);
        if count <= wanted || began.elapsed() > PATIENCE {
            return (count, began.elapsed().as_secs_f64() * 1e3);
        }
        sleep(LOOK);
    }
}

/// The number of processes with the mark, without this one.
fn processes(mark: &str, own: u32) -> usize {
    marked(mark).filter(|process| *process != own).count()
}

fn marked(mark: &str) -> impl Iterator<Item = u32> {
    let wanted = format!("{MARK}={mark}");
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(move |id: &u32| {
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    })
}
