//! Puts a server under stress, in runs of their own: many requests at once, a reader that waits, a large request, the
//! end of its input at bad moments, a signal.
//!
//! Called at the end of a look, when it was asked for ([`Validator::resilience`](super::Validator::resilience)). It asks
//! for the tools and for whether the server is there, and for nothing else; no tool is called. For servers over HTTP:
//! `http/resilience.rs`.

use std::time::Duration;

use mcpjoin_proto::{Era, Raw, Version};
use mcpjoin_rules::Probe;

use super::ValidateError;
use super::live::Live;
use super::probes::{self, Manner};
use super::runs::{Runs, control};

/// So many requests at once: as many as a busy client has under way.
const MANY: usize = 200;
/// So many answers are not read: with those of a list, more than a pipe holds.
const UNREAD: usize = 100;
/// For so long.
const PAUSE: Duration = Duration::from_secs(2);
/// So large is a large request.
const LARGE: usize = 1024 * 1024;
/// So many requests are under way at the end of the input.
const LAST: usize = 10;
/// A process has so long to end at a signal: as long as our own clients give it, and half as long again.
#[cfg(unix)]
const SIGNAL: Duration = Duration::from_secs(3);

impl Runs {
    /// All of it, in the newest era that the server speaks.
    pub(super) async fn resilience(&mut self, modern: bool) -> Result<(), ValidateError> {
        if let Some((mut live, manner)) = self.stressed(modern, "many requests at once").await? {
            let requests = requests(&mut live, &manner, control(&manner), MANY);
            self.tell(&live, Probe::Many);
            live.ask_all(Probe::Many, &requests).await;
            self.keep_stressed(live).await;
        }
        if let Some((mut live, manner)) = self.stressed(modern, "a reader that waits").await? {
            let requests = requests(&mut live, &manner, "tools/list", UNREAD);
            self.tell(&live, Probe::Unread);
            live.ask_unread(Probe::Unread, &requests, PAUSE).await;
            self.keep_stressed(live).await;
        }
        if let Some((mut live, manner)) = self.stressed(modern, "a large request").await? {
            self.tell(&live, Probe::Large);
            let line = large(&manner, &live.id());
            live.send(Probe::Large, &line);
            let id = live.id();
            let line = probes::request(&manner, &id, control(&manner));
            live.ask_one(Probe::AfterLarge, id, line).await;
            self.keep_stressed(live).await;
        }
        if let Some((mut live, manner)) = self.stressed(modern, "the end of input in mid-request").await? {
            self.tell(&live, Probe::LastWords);
            for (_, line) in requests(&mut live, &manner, "tools/list", LAST) {
                live.send(Probe::LastWords, &line);
            }
            self.keep_stressed(live).await;
        }
        let era = if modern { Era::Modern } else { Era::Legacy };
        let live = self.start("the end of input before anything else", &Version::newest(era)).await?;
        self.keep_stressed(live).await;
        #[cfg(unix)]
        if let Some((live, _)) = self.stressed(modern, "a signal").await? {
            let run = live.terminate(SIGNAL).await;
            self.trace.stress.push(run);
        }
        Ok(())
    }

    /// A session with a name of its own, in which the tools have been listed.
    async fn stressed(&mut self, modern: bool, name: &str) -> Result<Option<(Live, Manner)>, ValidateError> {
        let Some((mut live, manner)) = self.opened(modern).await? else { return Ok(None) };
        live.run.name = name.into();
        let id = live.id();
        let line = probes::request(&manner, &id, "tools/list");
        live.ask_one(Probe::List, id, line).await;
        Ok(Some((live, manner)))
    }

    async fn keep_stressed(&mut self, live: Live) {
        let run = live.close().await;
        self.trace.stress.push(run);
    }
}

/// A request of 1 MiB.
pub(super) fn large(manner: &Manner, id: &str) -> String {
    let padding = Raw::string(&"x".repeat(LARGE));
    let line = probes::request(manner, id, control(manner));
    match manner {
        Manner::Legacy => {
            line.replacen('}', &format!(r#","params":{{"_meta":{{"mcpjoin.dev/padding":{padding}}}}}}}"#), 1)
        }
        Manner::Modern(_) => {
            line.replacen(r#""_meta":{"#, &format!(r#""_meta":{{"mcpjoin.dev/padding":{padding},"#), 1)
        }
    }
}

/// Requests with ids of their own.
fn requests(live: &mut Live, manner: &Manner, method: &str, count: usize) -> Vec<(String, String)> {
    (0..count)
        .map(|_| {
            let id = live.id();
            let line = probes::request(manner, &id, method);
            (id, line)
        })
        .collect()
}
