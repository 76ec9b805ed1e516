//! Lines that the user types on the terminal, each read on a thread of its own, so that signals are handled meanwhile.
//!
//! Used by `questions`. It reads only a terminal, only while it is asked for a line, and nothing when no question waits for the line any
//! more: the shell's editor reads the same terminal.

use std::io::{BufRead, IsTerminal, PipeReader, Read};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};
use tokio::sync::oneshot;

use crate::ui::Ui;

/// The longest line. A terminal ends one at 4 KiB.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Whether a user can be asked: standard input and standard error are a terminal that has us in the foreground.
pub(crate) fn is_there() -> bool {
    let stdin = std::io::stdin();
    // A process in the background must not read: the system would stop it.
    let is_foreground = || tcgetpgrp(&stdin).is_ok_and(|group| group == rustix::process::getpgrp());
    stdin.is_terminal() && std::io::stderr().is_terminal() && is_foreground()
}

/// Discards what was typed before a question.
pub(crate) fn discard() {
    // What cannot be discarded is read.
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
}

/// Shows the prompt, and returns the line that is typed, trimmed. `None` at the end of the input (Ctrl-D), and when the
/// question is ended.
pub(crate) async fn line(ui: &Ui, prompt: &str) -> Option<String> {
    let _shown = ui.prompt(prompt);
    // Dropped with this future, which ends the thread.
    let (nobody_waits, _waiting) = std::io::pipe().ok()?;
    let (typed, line) = oneshot::channel();
    let read = move || {
        // Without a receiver no question waits any more.
        let _ = typed.send(read(&nobody_waits));
    };
    thread::Builder::new().name("keyboard".into()).spawn(read).ok()?;
    let line = tokio::select! {
        biased;
        () = ui.asking_stopped() => None,
        line = line => line.ok()?,
    };
    line.map(|line| line.trim().to_owned())
}

fn read(nobody_waits: &PipeReader) -> Option<String> {
    let stdin = std::io::stdin();
    loop {
        let mut ready = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(nobody_waits, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) if !ready[1].revents().is_empty() => return None,
            Ok(_) if !ready[0].revents().is_empty() => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    // A terminal that is ready has a whole line, or has ended.
    let mut line = String::new();
    let read = stdin.lock().take(MAX_LINE_BYTES).read_line(&mut line);
    matches!(read, Ok(1..)).then_some(line)
}
