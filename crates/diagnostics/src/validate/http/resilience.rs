//! Puts a server over HTTP under stress, in runs of their own: many requests at once, responses that are read late and
//! slowly, large requests, requests in pieces, connections that are closed early, many sessions, a stream that is cut.
//! Over HTTP+SSE all responses of a session come on its one stream, which no client can resume.
//!
//! Called after the other runs, where it was asked for
//! ([`Validator::resilience`](super::super::Validator::resilience)). It lists the tools, asks whether the server is
//! there, opens sessions and ends them, and does nothing else: no tool is called but one that the user has named. A
//! server at a URL is not ours: it is neither ended nor started again.

use std::time::Duration;

use http::Method as Verb;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::{Method, Raw};
use mcpjoin_rules::Probe;
use tokio::time::sleep;

use super::super::resilience::{large, requests};
use super::super::runs::Runs;
use super::{Http, end};
use crate::engine::http::{Abort, HttpSession, LOOK_TIME, Pace, Until};
use crate::engine::message::{self, Question};
use crate::engine::{Outcome, Session as _};

/// Requests at once: as many as a few busy clients have in flight.
const MANY_REQUESTS: usize = 50;
/// Responses that are read late, and as many that are read slowly.
const UNREAD_RESPONSES: usize = 8;
/// How late they are read.
const READ_DELAY: Duration = Duration::from_secs(2);
/// The pause between the parts of a response that is read slowly, and the number of pauses.
const READ_PAUSE: Duration = Duration::from_millis(100);
const READ_PAUSES: usize = 20;
/// The pause between the pieces of a request.
const WRITE_PAUSE: Duration = Duration::from_millis(300);
/// Connections that are closed early, for each moment.
const ABORTED_CONNECTIONS: usize = 5;
/// Sessions at once.
const MANY_SESSIONS: usize = 20;

const LIST: &str = "tools/list";

impl Runs<Http> {
    /// All of it, in the newest era that the server speaks; sessions and their streams in the legacy era.
    pub(super) async fn resilience(&mut self, modern: bool, legacy: bool) {
        if let Some(mut session) = self.opened("many requests at once", modern).await {
            session.announce(Probe::Many);
            let control = session.control();
            let many = requests(&mut session, control, MANY_REQUESTS);
            let many: Vec<(String, Pace)> = many.into_iter().map(|line| (line, Pace::default())).collect();
            session.together(Probe::Many, &many).await;
            self.keep_stress(session).await;
        }
        if let Some(mut session) = self.opened("readers that wait", modern).await {
            session.announce(Probe::Unread);
            let lists = requests(&mut session, LIST, UNREAD_RESPONSES * 2);
            let (late, slow) = ([READ_DELAY], [READ_PAUSE; READ_PAUSES]);
            let paces = if self.transport.sse {
                // There is one reader.
                session.pace.reading = late.into_iter().chain(slow).collect();
                [Pace::default(), Pace::default()]
            } else {
                [late.to_vec(), slow.to_vec()].map(|reading| Pace { reading: reading.into(), writing: None })
            };
            let lists: Vec<_> = lists.into_iter().zip(paces.into_iter().cycle()).collect();
            session.together(Probe::Unread, &lists).await;
            self.keep_stress(session).await;
        }
        if let Some(mut session) = self.opened("a large request", modern).await {
            session.announce(Probe::Large);
            let line = large(&mut session);
            session.notify(Probe::Large, &line).await;
            session.ask_control(Probe::AfterLarge).await;
            self.keep_stress(session).await;
        }
        if let Some(mut session) = self.opened("a request in pieces", modern).await {
            session.pace.writing = Some(WRITE_PAUSE);
            session.ask_control(Probe::Pieces).await;
            session.pace.writing = None;
            self.keep_stress(session).await;
        }
        self.aborted(modern).await;
        if self.transport.sse {
            self.streams_at_once().await;
        }
        if legacy {
            self.sessions_at_once().await;
            self.cut_stream().await;
        }
    }

    /// Connections that are closed early: in the middle of a request, when it is sent, and when its response has begun.
    async fn aborted(&mut self, modern: bool) {
        for (name, probe, after, moments) in [
            (
                "connections lost before their answers",
                Probe::HungUp,
                Probe::AfterHangUp,
                &[Abort::Sent, Abort::Answered][..],
            ),
            ("connections lost in mid-request", Probe::HalfRequest, Probe::AfterHalf, &[Abort::InRequest]),
        ] {
            let Some(mut session) = self.opened(name, modern).await else { continue };
            for when in moments {
                abort(&mut session, probe, *when).await;
                // Until the server has learned from its system that the connections are closed.
                sleep(LOOK_TIME).await;
                session.ask_control(after).await;
            }
            self.keep_stress(session).await;
        }
    }

    /// Many sessions, with a request in each. All but the first are ended before the last request.
    async fn sessions_at_once(&mut self) {
        let Some(mut session) = self.opened("many sessions", false).await else { return };
        let first = session.session_id.clone();
        if first.is_none() {
            return self.keep_stress(session).await;
        }
        let version = session.state().run.version.clone();
        let within = self.look.limits.initialize;
        let mut sessions = Vec::new();
        for _ in 0..MANY_SESSIONS {
            // As a new client.
            session.session_id = None;
            let line = message::initialize(&session.next_id(), version.as_str());
            session.announce(Probe::OneOfMany);
            let head = session.post(&line);
            let reply = session.exchange(Probe::OneOfMany, head, Some(&line), Until::Ended, within).await;
            if !matches!(reply.outcome, Outcome::Result(_)) || reply.session.is_none() {
                break;
            }
            session.session_id.clone_from(&reply.session);
            session.initialized().await;
            sessions.push(reply.session);
        }
        for id in &sessions {
            session.session_id.clone_from(id);
            session.ask_control(Probe::InOneOfMany).await;
        }
        for id in sessions {
            session.session_id = id;
            end(&mut session, false).await;
        }
        session.session_id = first;
        session.ask_control(Probe::AfterMany).await;
        self.keep_stress(session).await;
    }

    /// The same over HTTP+SSE, where a session is its stream: all but the first are closed with requests in flight.
    async fn streams_at_once(&mut self) {
        let mut sessions = Vec::new();
        for _ in 0..MANY_SESSIONS {
            // A server that accepts no more sessions says so.
            let Some(session) = self.opened("many sessions", false).await else { break };
            sessions.push(session);
        }
        for session in &mut sessions {
            session.ask_control(Probe::InOneOfMany).await;
        }
        let mut sessions = sessions.into_iter();
        let Some(mut first) = sessions.next() else { return };
        for mut session in sessions {
            abort(&mut session, Probe::HungUp, Abort::Sent).await;
            session.abort_stream();
            self.keep_stress(session).await;
        }
        // Until the server has learned from its system that the connections are closed.
        sleep(LOOK_TIME).await;
        first.ask_control(Probe::AfterMany).await;
        self.keep_stress(first).await;
    }

    /// A stream that is cut before its response, and resumed, where its events have ids.
    async fn cut_stream(&mut self) {
        let Some(mut session) = self.opened("a stream that is cut", false).await else { return };
        session.announce(Probe::CutStream);
        let id = session.next_id();
        let question = match self.look.consent.calls.first() {
            Some((tool, arguments)) => Question::new(Probe::CutStream, Method::CallTool)
                .text("name", tool)
                .with("arguments", arguments.clone().unwrap_or_else(Raw::empty_object))
                .meta("progressToken", Raw::string("mcpjoin-cut")),
            None => Question::new(Probe::CutStream, Method::ListTools),
        };
        let line = question.line(&session.state().manner, &id);
        if let Some((event, request)) = session.cut(Probe::CutStream, &line).await {
            // A client that resumes at once is there before the server knows that the connection is closed.
            sleep(LOOK_TIME).await;
            let head = session.head(Verb::GET).with(name::LAST_EVENT_ID, &event);
            session.resume(Probe::ResumeCut, head, request).await;
        }
        self.keep_stress(session).await;
    }
}

/// Sends lists, and closes their connections early.
async fn abort(session: &mut HttpSession, probe: Probe, when: Abort) {
    session.announce(probe);
    for line in requests(session, LIST, ABORTED_CONNECTIONS) {
        session.abort(probe, &line, when).await;
    }
}
