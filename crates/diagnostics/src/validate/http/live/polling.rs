//! A stream of the legacy era whose connection was closed before it had brought everything: it is asked for again.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>

use std::time::Duration;

use http::Method as Verb;
use http::header::{CONTENT_TYPE, HeaderValue};
use mcpjoin_proto::RequestId;
use mcpjoin_proto::codec::sse::SseDecoder;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_rules::{BodyEnd, Probe, What};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::super::super::probes::Manner;
use super::super::wire;
use super::Live;
use super::reading::{Stopped, Stream};

/// So many times a stream is asked for again.
const MOST: usize = 5;
/// Where nothing is said of it, so long is waited before.
const PAUSE: Duration = Duration::from_secs(1);

impl Live<'_> {
    /// Asks for the rest of a stream until all that is waited for has come; the number of the last exchange, where there
    /// was one.
    pub(super) async fn rest(
        &mut self,
        number: u32,
        waiting: &mut Vec<RequestId>,
        deadline: Instant,
    ) -> Option<u32> {
        let (mut of, mut last) = (number, None);
        for _ in 0..MOST {
            if waiting.is_empty() || self.over || !matches!(self.manner, Manner::Legacy) {
                break;
            }
            let Some(after) = self.last_event(of).or_else(|| self.last_event(number)) else { break };
            let soon = Instant::now() + self.retry(of).or_else(|| self.retry(number)).unwrap_or(PAUSE);
            if soon >= deadline {
                break;
            }
            sleep_until(soon).await;
            let head = self.head(Verb::GET).with(name::LAST_EVENT_ID, &after);
            self.next_exchange += 1;
            of = self.next_exchange;
            self.note(of, What::Requested(Probe::Resume, head.noted()));
            let Ok(Ok(response)) = timeout_at(deadline, self.wire.send(&head, None)).await else {
                self.note(of, What::BodyEnded(BodyEnd::Broken("no response came".into())));
                break;
            };
            self.note(of, What::Responded(wire::noted(&response)));
            let kind = MediaType::of(response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes));
            if kind != MediaType::EventStream || !response.status().is_success() {
                self.note(of, What::BodyEnded(BodyEnd::Left));
                break;
            }
            last = Some(of);
            let mut stream = Stream { number: of, response, decoder: SseDecoder::new(self.limit) };
            let end = match self.pump(&mut stream, waiting, deadline, false).await {
                Stopped::Ended(end) => end,
                Stopped::Answered | Stopped::TimedOut => BodyEnd::Left,
            };
            self.note(of, What::BodyEnded(end));
        }
        if last.is_some() && !waiting.is_empty() {
            self.silent();
        }
        last
    }

    /// The id of the last event of an exchange that has one.
    fn last_event(&self, number: u32) -> Option<String> {
        let events = self.run.events.iter().rev().filter(|event| event.exchange == Some(number));
        let mut ids = events.filter_map(|event| match &event.what {
            What::Streamed(event) => event.id.as_ref().filter(|id| !id.is_empty()),
            _ => None,
        });
        std::str::from_utf8(ids.next()?).ok().map(str::to_owned)
    }

    /// How long an exchange has said to wait.
    fn retry(&self, number: u32) -> Option<Duration> {
        let events = self.run.events.iter().rev().filter(|event| event.exchange == Some(number));
        let mut times = events.filter_map(|event| match event.what {
            What::Retry(time) => Some(time),
            _ => None,
        });
        times.next()
    }
}
