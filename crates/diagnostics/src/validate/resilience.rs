//! Puts a server that reads lines under stress, in runs of their own: many requests at once, a reader that waits, a
//! large request, the end of its input at bad moments, a signal.
//!
//! Called after the other runs, where it was asked for ([`Validator::resilience`](super::Validator::resilience)). It
//! lists the tools, asks whether the server is there, and does nothing else; no tool is called. Over HTTP:
//! `http/resilience.rs`.

use std::time::Duration;

use mcpjoin_proto::{Era, Method, Raw, Version};
use mcpjoin_rules::{Channel, Probe};

use super::ValidateError;
use super::lines::Lines;
use super::runs::Runs;
use crate::engine::message::Manner;
use crate::engine::{Delivery, LineSession, Session};

/// Requests at once: as many as a busy client has in flight.
const MANY_REQUESTS: usize = 200;
/// Responses that are not read: with those of a list, more than a pipe holds.
const UNREAD_RESPONSES: usize = 100;
/// How long they are not read.
const READER_PAUSE: Duration = Duration::from_secs(2);
/// The size of a large request.
const LARGE_BYTES: usize = 1024 * 1024;
/// Requests in flight at the end of the input.
const LAST_REQUESTS: usize = 10;
/// How long a process may take to end after a signal: as long as our own clients give it, and half as long again.
#[cfg(unix)]
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(3);

impl Runs<Lines> {
    /// All of it, in the newest era that the server speaks.
    pub(super) async fn resilience(&mut self, modern: bool) -> Result<(), ValidateError> {
        if let Some(mut session) = self.stressed(modern, "many requests at once").await? {
            session.announce(Probe::Many);
            let control = session.control();
            let requests = requests(&mut session, control, MANY_REQUESTS);
            session.deliver(Probe::Many, &requests, Delivery::Separate).await;
            self.keep_stress(session).await;
        }
        if let Some(mut session) = self.stressed(modern, "a reader that waits").await? {
            session.announce(Probe::Unread);
            let requests = requests(&mut session, Method::ListTools.as_str(), UNREAD_RESPONSES);
            session.deliver(Probe::Unread, &requests, Delivery::Unread(READER_PAUSE)).await;
            self.keep_stress(session).await;
        }
        if let Some(mut session) = self.stressed(modern, "a large request").await? {
            session.announce(Probe::Large);
            let line = large(&mut session);
            session.send(Probe::Large, &line);
            let line = session.line(session.control());
            session.deliver(Probe::AfterLarge, &[line], Delivery::Separate).await;
            self.keep_stress(session).await;
        }
        if let Some(mut session) = self.stressed(modern, "the end of input in mid-request").await? {
            session.announce(Probe::LastWords);
            for line in requests(&mut session, Method::ListTools.as_str(), LAST_REQUESTS) {
                session.send(Probe::LastWords, &line);
            }
            self.keep_stress(session).await;
        }
        let era = if modern { Era::Modern } else { Era::Legacy };
        let name = "the end of input before anything else";
        let session = self.start(name, &Version::newest(era), Manner::Legacy, Channel::Stdio).await?;
        self.keep_stress(session).await;
        #[cfg(unix)]
        if let Some(session) = self.stressed(modern, "a signal").await? {
            self.trace.stress.push(session.terminate(SIGNAL_TIMEOUT).await);
        }
        Ok(())
    }

    /// A session in which the tools have been listed, whose run gets that name once it is open.
    async fn stressed(&mut self, modern: bool, name: &str) -> Result<Option<LineSession>, ValidateError> {
        let Some(mut session) = self.opened(name, modern).await? else { return Ok(None) };
        let line = session.line(Method::ListTools.as_str());
        session.deliver(Probe::List, &[line], Delivery::Separate).await;
        Ok(Some(session))
    }
}

/// A request of 1 MiB that every server of its era responds to.
pub(super) fn large(session: &mut impl Session) -> String {
    let padding = Raw::string(&"x".repeat(LARGE_BYTES));
    let line = session.line(session.control());
    match session.state().manner {
        Manner::Legacy => {
            line.replacen('}', &format!(r#","params":{{"_meta":{{"mcpjoin.dev/padding":{padding}}}}}}}"#), 1)
        }
        Manner::Modern(_) => {
            line.replacen(r#""_meta":{"#, &format!(r#""_meta":{{"mcpjoin.dev/padding":{padding},"#), 1)
        }
    }
}

/// Requests with ids of their own.
pub(super) fn requests(session: &mut impl Session, method: &str, count: usize) -> Vec<String> {
    (0..count).map(|_| session.line(method)).collect()
}
