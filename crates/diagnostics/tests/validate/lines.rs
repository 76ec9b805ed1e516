//! Applies a fault between a correct server and the validator, over lines in memory.

use std::time::Duration;

use mcpjoin::{Link, Server};
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split,
};

use super::fault::{Fault, Said, Talk, fewer};

/// The size of the buffer: more than is written at once.
const ROOM: usize = 1 << 18;
/// The duration of a call that can be cancelled.
const BUSY: Duration = Duration::from_millis(250);
/// Longer than the response timeout, but short enough for the validator to wait for the late response.
const LONG: Duration = Duration::from_millis(10_500);

/// A link to that server through the fault.
pub(super) fn link(server: &Server, fault: &Fault) -> Link {
    let (ours, near) = duplex(ROOM);
    let (far, theirs) = duplex(ROOM);
    let (reader, writer) = split(theirs);
    server.connect(Link::stream(reader, writer, "memory"));
    tokio::spawn(between(near, far, fault.clone()));
    let (reader, writer) = split(ours);
    Link::stream(reader, writer, "memory")
}

async fn between(near: DuplexStream, far: DuplexStream, fault: Fault) {
    let ((mut received, mut said), (answers, mut asks)) = (split(near), split(far));
    let mut answers = BufReader::new(answers).lines();
    let (mut talk, mut rest, mut buffer) = (Talk::default(), Vec::new(), vec![0; ROOM]);
    let _ = tokio::time::timeout(fault.start, std::future::pending::<()>()).await;
    let mut open = write(&mut said, fault.first.clone()).await;
    loop {
        tokio::select! {
            biased;
            count = received.read(&mut buffer), if open => {
                let count = count.unwrap_or(0);
                open = count > 0;
                rest.extend_from_slice(&buffer[..count]);
                for line in (fault.together)(lines(&mut rest, fault.hasty)) {
                    let received = talk.record(&line);
                    if received.id.is_empty() && !write(&mut said, (fault.told)(&received)).await {
                        return;
                    }
                    let line = (fault.receive)(line) + "\n";
                    // The write fails if the server has ended.
                    let _ = asks.write_all(line.as_bytes()).await;
                }
                if !open {
                    let _ = asks.shutdown().await;
                }
            }
            line = answers.next_line() => {
                let Ok(Some(line)) = line else { return };
                let line = if fault.whole { line } else { fewer(line) };
                let received = talk.answered(&line);
                if fault.slow && received.method == "tools/list" && received.nth == 0 {
                    tokio::time::advance(LONG).await;
                }
                if fault.busy && received.method == "tools/call" && received.nth == 1 {
                    tokio::time::advance(BUSY).await;
                }
                if !write(&mut said, (fault.say)(&received, line)).await {
                    return;
                }
            }
        }
    }
}

/// Takes the complete lines out of the received bytes.
fn lines(rest: &mut Vec<u8>, hasty: bool) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = rest.drain(..=end).collect();
        lines.push(String::from_utf8_lossy(&line[..end]).into_owned());
    }
    if hasty && serde_json::from_slice::<serde_json::Value>(rest).is_ok() {
        lines.push(String::from_utf8_lossy(&std::mem::take(rest)).into_owned());
    }
    lines.retain(|line| !line.is_empty());
    lines
}

/// Writes messages. Returns whether the reader is still there.
async fn write(said: &mut (impl tokio::io::AsyncWrite + Unpin), messages: Vec<Said>) -> bool {
    for mut message in messages {
        message.push(b'\n');
        if said.write_all(&message).await.is_err() {
            return false;
        }
    }
    true
}
