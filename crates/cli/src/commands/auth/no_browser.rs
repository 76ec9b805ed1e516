//! A login without a browser on this machine. The address is printed. Then the callback is awaited at the local port,
//! where a forwarded browser may come, and on standard input, where the user may paste the address that the browser
//! ended at. Standard input is not offered if it cannot be read.

use std::io::{BufRead, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mcpjoin_auth::{Authorizing, LocalBrowser, UserAgent, UserAgentError, Visit};
use tokio::sync::mpsc::{self, Receiver};

use super::format;
use crate::ui::Ui;

/// The maximum length of a pasted line.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Prints the address, and waits for both ways of the callback.
pub(super) struct NoBrowser {
    ui: Ui,
    browser: LocalBrowser,
    /// How long the browser is waited for.
    timeout: Duration,
    /// The lines of standard input. It is read from the first visit on.
    lines: Arc<Mutex<Option<Receiver<String>>>>,
}

impl NoBrowser {
    /// `browser`: opens no program, and waits at the port for `timeout`.
    pub(super) fn new(ui: &Ui, browser: LocalBrowser, timeout: Duration) -> Self {
        Self { ui: ui.clone(), browser, timeout, lines: Arc::default() }
    }
}

impl UserAgent for NoBrowser {
    async fn visit(&self, before: Option<&str>) -> Result<Visit, UserAgentError> {
        let visit = self.browser.visit(before).await?;
        let (ui, stored_lines, time) = (self.ui.clone(), self.lines.clone(), format::time(self.timeout));
        let here = visit.redirect_uri().to_owned();
        Ok(Visit::new(here.clone(), async move |authorizing: Authorizing| {
            let taken = stored_lines.lock().unwrap_or_else(PoisonError::into_inner).take();
            let can_answer = taken.is_some() || can_answer();
            let then = if can_answer {
                "if the browser then cannot open a page, paste the address of that page here:".to_owned()
            } else {
                let host = here.split('/').nth(2).unwrap_or_default();
                format!(
                    "the browser must reach this machine at {host}, because there is no standard input to paste an address to"
                )
            };
            ui.say(&format!(
                "open this address in a browser on any machine, and log in within {time}:\n\n  {}\n\n{then}",
                authorizing.url
            ));
            let state = authorizing.state.clone();
            let mut lines = if can_answer { taken.or_else(lines) } else { None };
            let outcome = tokio::select! {
                biased;
                outcome = visit.authorize(authorizing) => outcome,
                query = pasted(&ui, lines.as_mut(), &state) => Ok(query),
            };
            *stored_lines.lock().unwrap_or_else(PoisonError::into_inner) = lines;
            outcome
        }))
    }
}

/// Whether standard input can bring an answer: it is not at its end, and a terminal has us in the foreground.
#[cfg(unix)]
fn can_answer() -> bool {
    use std::io::IsTerminal;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        // A process in the background must not read: the system would stop it.
        let reader = rustix::termios::tcgetpgrp(&stdin);
        return reader.is_ok_and(|group| group == rustix::process::getpgrp());
    }
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_ready = {
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        poll(&mut ready, Some(&at_once)).is_ok_and(|count| count > 0)
    };
    // A ready input is read without blocking, and no bytes mean its end. What is read stays in the buffer for `lines`.
    !is_ready || stdin.lock().fill_buf().is_ok_and(|bytes| !bytes.is_empty())
}

/// Whether standard input can bring an answer.
#[cfg(not(unix))]
fn can_answer() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stdin())
}

/// Returns the query of the pasted address. Never returns if no more lines come.
async fn pasted(ui: &Ui, lines: Option<&mut Receiver<String>>, state: &str) -> String {
    if let Some(lines) = lines {
        while let Some(line) = lines.recv().await {
            match query(&line, state) {
                Ok(Some(query)) => return query,
                Ok(None) => {}
                Err(why) => ui.say(why),
            }
        }
    }
    std::future::pending().await
}

/// The query of an address, or of the part of it that was copied; `None` for an empty line. The error is a message.
fn query(line: &str, state: &str) -> Result<Option<String>, &'static str> {
    let line = line.trim().trim_matches(['"', '\'', '<', '>']);
    if line.is_empty() {
        return Ok(None);
    }
    let query = line.split_once('?').map_or(line, |(_, query)| query);
    let query = query.split_once('#').map_or(query, |(query, _)| query);
    let has = |name: &str| query.split('&').any(|pair| pair.split_once('=').is_some_and(|it| it.0 == name));
    if !has("code") && !has("error") {
        return Err("this is not the address: it contains code= and begins with http://127.0.0.1 or \
                    http://localhost. Paste it here:");
    }
    // A state contains no characters that are escaped in a query.
    if !query.split('&').any(|pair| pair.strip_prefix("state=") == Some(state)) {
        return Err(
            "this address belongs to another login: open the address above, log in, and paste the address \
                    of the last page:",
        );
    }
    Ok(Some(query.to_owned()))
}

/// Reads standard input on its own thread, which ends with the process. `None` if there cannot be a thread.
fn lines() -> Option<Receiver<String>> {
    let (sender, receiver) = mpsc::channel(1);
    let read = move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = String::new();
            match input.by_ref().take(MAX_LINE_BYTES).read_line(&mut line) {
                Ok(1..) if sender.blocking_send(line).is_ok() => {}
                _ => return,
            }
        }
    };
    thread::Builder::new().name("pasted".into()).spawn(read).ok()?;
    Some(receiver)
}

#[cfg(test)]
mod tests {
    use super::query;

    #[test]
    fn what_is_pasted_is_the_address_of_this_login() {
        for (line, found) in [
            ("http://127.0.0.1:1/callback?code=c&state=s\n", Some("code=c&state=s")),
            ("  \"http://localhost/cb?state=s&code=c&iss=x#f\" ", Some("state=s&code=c&iss=x")),
            ("?error=access_denied&state=s", Some("error=access_denied&state=s")),
            ("code=c&state=s", Some("code=c&state=s")),
            ("\n", None),
        ] {
            assert_eq!(query(line, "s"), Ok(found.map(str::to_owned)), "{line}");
        }
        for (line, word) in [
            ("https://as.example/authorize?state=s", "code="),
            ("hello", "code="),
            ("http://127.0.0.1:1/callback?code=c&state=t", "another login"),
            ("http://127.0.0.1:1/callback?code=c", "another login"),
        ] {
            assert!(query(line, "s").unwrap_err().contains(word), "{line}");
        }
    }
}
