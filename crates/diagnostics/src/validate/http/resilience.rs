//! Puts a server over HTTP under stress, in runs of their own: many requests at once, answers that are read late and
//! slowly, large requests, requests in pieces, connections that are lost, many sessions, a stream that is cut. Over HTTP+SSE
//! all answers of a session come on its one stream, which no client can take up again.
//!
//! Called at the end of a look, when it was asked for ([`Validator::resilience`](super::super::Validator::resilience)).
//! It asks for the tools and for whether the server is there, opens sessions and ends them, and does nothing else: no
//! tool is called, but for one that was named. A server at a URL is not ours: it is neither ended nor started again.

use std::time::Duration;

use http::Method as Verb;
use http::header::HeaderValue;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::{Method, Raw};
use mcpjoin_rules::Probe;

use super::super::live::Opened;
use super::super::probes::{self, Manner};
use super::super::resilience::large;
use super::super::runs::control;
use super::live::{Leave, Live, MOMENT, Pace};
use super::runs::Runs;
use super::wire::Wire;

/// So many requests at once: as many as a few busy clients have under way.
const MANY: usize = 50;
/// So many answers are read late, and as many slowly.
const UNREAD: usize = 8;
/// They wait so long to be read.
const LATE: Duration = Duration::from_secs(2);
/// Between the parts of one that is read slowly.
const SLOW: Duration = Duration::from_millis(100);
/// So many times.
const PAUSES: usize = 20;
/// Between the pieces of a request.
const PIECE: Duration = Duration::from_millis(300);
/// So many times a connection is lost, in each of the ways.
const LOST: usize = 5;
/// So many sessions at once.
const SESSIONS: usize = 20;

/// A session that the server has given out: its id, where it has one.
type Session = Option<HeaderValue>;

impl Runs {
    /// All of it, in the newest era that the server speaks; sessions and their streams in the legacy era.
    pub(super) async fn resilience(&mut self, modern: bool, legacy: bool) {
        let wire = self.wire.clone();
        if let Some((mut live, manner)) = self.opened(&wire, "many requests at once", modern).await {
            self.tell(&live, Probe::Many);
            let many = lines(&mut live, &manner, control(&manner), MANY);
            let many: Vec<(String, Pace)> = many.into_iter().map(|line| (line, Pace::default())).collect();
            live.together(Probe::Many, &many).await;
            self.keep_stressed(live).await;
        }
        if let Some((mut live, manner)) = self.opened(&wire, "readers that wait", modern).await {
            self.tell(&live, Probe::Unread);
            let lists = lines(&mut live, &manner, Method::ListTools.as_str(), UNREAD * 2);
            let (late, slow) = ([LATE], [SLOW; PAUSES]);
            let paces = if self.sse {
                // There is one reader.
                live.pace.reading = late.into_iter().chain(slow).collect();
                [Pace::default(), Pace::default()]
            } else {
                [late.to_vec(), slow.to_vec()].map(|reading| Pace { reading: reading.into(), writing: None })
            };
            let paces = paces.into_iter().cycle();
            live.together(Probe::Unread, &lists.into_iter().zip(paces).collect::<Vec<_>>()).await;
            self.keep_stressed(live).await;
        }
        if let Some((mut live, manner)) = self.opened(&wire, "a large request", modern).await {
            self.tell(&live, Probe::Large);
            let line = large(&manner, &live.id());
            live.ask(Probe::Large, &line).await;
            self.ask(&mut live, &manner, Probe::AfterLarge, control(&manner)).await;
            self.keep_stressed(live).await;
        }
        if let Some((mut live, manner)) = self.opened(&wire, "a request in pieces", modern).await {
            live.pace.writing = Some(PIECE);
            self.ask(&mut live, &manner, Probe::Pieces, control(&manner)).await;
            live.pace.writing = None;
            self.keep_stressed(live).await;
        }
        self.connections(&wire, modern).await;
        if self.sse {
            self.streams_at_once(&wire).await;
        }
        if legacy {
            self.sessions_at_once(&wire).await;
            self.stream(&wire).await;
        }
    }

    /// Connections that are lost: in the middle of a request, when it was sent, and when its answer has begun.
    async fn connections(&mut self, wire: &Wire, modern: bool) {
        let list = Method::ListTools.as_str();
        for (name, probe, after, ways) in [
            (
                "connections lost before their answers",
                Probe::HungUp,
                Probe::AfterHangUp,
                &[Leave::Asked, Leave::Answered][..],
            ),
            ("connections lost in mid-request", Probe::HalfRequest, Probe::AfterHalf, &[Leave::Half]),
        ] {
            let Some((mut live, manner)) = self.opened(wire, name, modern).await else { continue };
            for when in ways {
                self.tell(&live, probe);
                for line in lines(&mut live, &manner, list, LOST) {
                    live.leave(probe, &line, *when).await;
                }
                // The server is told by its system, and has a moment to understand.
                tokio::time::sleep(MOMENT).await;
                self.ask(&mut live, &manner, after, control(&manner)).await;
            }
            self.keep_stressed(live).await;
        }
    }

    /// Many sessions, in each of which something is asked; all but the first are ended before it is asked again.
    async fn sessions_at_once(&mut self, wire: &Wire) {
        let Some((mut live, manner)) = self.opened(wire, "many sessions", false).await else { return };
        let first = live.session.clone();
        if first.is_none() {
            return self.keep_stressed(live).await;
        }
        let version = live.run.version.clone();
        let mut given: Vec<Session> = Vec::new();
        for _ in 0..SESSIONS {
            // As one who comes anew.
            live.session = None;
            let reply = self.initialize(&mut live, Probe::OneOfMany, &version).await;
            if !matches!(reply.opened, Opened::Result(_)) || reply.session.is_none() {
                break;
            }
            live.session.clone_from(&reply.session);
            live.ask(Probe::Initialized, &probes::initialized()).await;
            given.push(reply.session);
        }
        for session in &given {
            live.session.clone_from(session);
            self.ask(&mut live, &manner, Probe::InOneOfMany, control(&manner)).await;
        }
        for session in given {
            live.session = session;
            self.end(&mut live, false).await;
        }
        live.session = first;
        self.ask(&mut live, &manner, Probe::AfterMany, control(&manner)).await;
        self.keep_stressed(live).await;
    }

    /// The same over HTTP+SSE, where a session is its stream: all but the first are lost with requests under way.
    async fn streams_at_once(&mut self, wire: &Wire) {
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            // One that takes no more says so.
            let Some(session) = self.opened(wire, "many sessions", false).await else { break };
            sessions.push(session);
        }
        for (live, manner) in &mut sessions {
            self.ask(live, manner, Probe::InOneOfMany, control(manner)).await;
        }
        let mut sessions = sessions.into_iter();
        let Some((mut first, manner)) = sessions.next() else { return };
        for (mut live, manner) in sessions {
            self.tell(&live, Probe::HungUp);
            for line in lines(&mut live, &manner, Method::ListTools.as_str(), LOST) {
                live.leave(Probe::HungUp, &line, Leave::Asked).await;
            }
            live.leave_stream();
            self.keep_stressed(live).await;
        }
        // The server is told by its system, and has a moment to understand.
        tokio::time::sleep(MOMENT).await;
        self.ask(&mut first, &manner, Probe::AfterMany, control(&manner)).await;
        self.keep_stressed(first).await;
    }

    /// A stream that is cut before its answer has come, and resumed, where its events have ids.
    async fn stream(&mut self, wire: &Wire) {
        let Some((mut live, manner)) = self.opened(wire, "a stream that is cut", false).await else { return };
        self.tell(&live, Probe::CutStream);
        let id = live.id();
        let line = match self.of.consent.calls.first() {
            Some((tool, arguments)) => {
                let arguments = arguments.clone().unwrap_or_else(Raw::empty_object);
                let members = [("name", Raw::string(tool)), ("arguments", arguments)];
                let token = [("progressToken", Raw::string("mcpjoin-cut"))];
                probes::request_with(
                    &manner,
                    &id,
                    Method::CallTool.as_str(),
                    &members,
                    &token,
                    probes::NOTHING,
                )
            }
            None => probes::request(&manner, &id, Method::ListTools.as_str()),
        };
        if let Some((event, request)) = live.cut(Probe::CutStream, &line).await {
            // Who resumes at once is there before the server knows that anybody has gone.
            tokio::time::sleep(MOMENT).await;
            self.tell(&live, Probe::ResumeCut);
            let head = live.head(Verb::GET).with(name::LAST_EVENT_ID, &event);
            live.resume(Probe::ResumeCut, head, request).await;
        }
        self.keep_stressed(live).await;
    }

    async fn keep_stressed(&mut self, mut live: Live<'_>) {
        self.end(&mut live, false).await;
        self.trace.stress.push(live.close().await);
    }
}

/// Requests with ids of their own.
fn lines(live: &mut Live<'_>, manner: &Manner, method: &str, count: usize) -> Vec<String> {
    (0..count).map(|_| probes::request(manner, &live.id(), method)).collect()
}
