//! The opening of the connection as an examination judges it: the probe of the era, `initialize`, and how long both took.
//!
//! Which of them is sent, and what an answer decides, is the session's business; here it is only read from what crossed
//! the link.

use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::Method;
use mcpjoin_proto::session::Peer;
use tokio::time::Instant;

use super::course::{Course, NO_ANSWER};
use super::diagnosis;
use super::report::{Check, Outcome, Phase};
use super::wire::{Answer, Seen, Wire};
use mcpjoin::client::{self, Client, ClientBuilder, ConnectError};
use mcpjoin::link::{ChildHandle, Link};

/// The opening of a connection, as it is judged.
pub(super) struct Opening {
    /// When the program was about to be started, or the connection about to be made.
    pub(super) began: Instant,
    /// The process, where the server is a child, and its number at the first start.
    pub(super) child: Option<(ChildHandle, Option<u32>)>,
    pub(super) slow: Duration,
}

impl Opening {
    /// Connects; the probe has begun. An error is to be told by a finding that ends the phase under way.
    pub(super) async fn connect(
        self,
        course: &mut Course,
        wire: &Wire,
        link: Link,
        client: ClientBuilder,
    ) -> Result<Client, ConnectError> {
        // Whoever does not answer the probe is asked in the other way then, and not before.
        let patience = client.limits_in_force().probe;
        let (tapped, told) = (wire.clone(), wire.clone());
        let mut tap = course.tap.take();
        let link = link.tapped(move |way, crossed| {
            tapped.crossed(way, crossed);
            if let Some(tap) = &mut tap {
                tap(way, crossed);
            }
        });
        let client = client.also_on_violation(move |violation| told.violation(violation));
        let connecting = client.connect(link);
        let outcome = if course.way.hangs_up() {
            // What is no MCP server, and has shown it, is not waited for.
            tokio::select! {
                outcome = connecting => outcome,
                () = wire.hopeless(patience) => Err(ConnectError::in_phase(client::Phase::Opening, wire.seen().garbage(), self.began.elapsed())),
            }
        } else {
            connecting.await
        };
        let now = Instant::now();
        wire.opened();
        let seen = wire.seen();
        let restarted = match &self.child {
            Some((child, pid)) => child.pid() != *pid,
            None => course.way.hangs_up() && seen.hung_up(patience),
        };
        self.probed(course, &seen, now, restarted, outcome.is_ok());
        match outcome {
            Ok(client) => {
                self.agreed(course, &seen, now, restarted, client.peer());
                Ok(client)
            }
            Err(error) => Err(error),
        }
    }

    /// What became of the probe, and with it where the opening is now.
    fn probed(&self, course: &mut Course, seen: &Seen, now: Instant, restarted: bool, connected: bool) {
        let Some(asked) = seen.probe else {
            course.skip(Phase::Probe, "the legacy era was asked for");
            course.not_run([Check::ProbeSurvived, Check::ProbeAnswered], "the era was not probed");
            course.begin_at(Phase::Initialize, seen.initialize.map_or(self.began, |(first, _)| first));
            return;
        };
        let Some((first, _)) = seen.initialize else {
            // The modern era, or the probe was the end of it all.
            course.since = asked;
            return;
        };
        let until = seen.answered.as_ref().map_or(first, |(at, _)| (*at).min(first));
        if restarted {
            // The second start begins with `initialize`: with both of them dead it was not the probe.
            if connected {
                course.fault(diagnosis::killed_by_probe(course.way));
            }
            course.not_run([Check::ProbeAnswered], "the server ended when it was probed");
            let how = match course.way.is_remote() {
                true => "the server hung up, and was called a second time",
                false => "the server ended, and was started a second time",
            };
            course.step(Outcome::Passed, asked, first, how.into());
        } else {
            if connected {
                course.pass(Check::ProbeSurvived);
            }
            match &seen.answered {
                Some((_, Answer::Error(code))) => {
                    course.pass(Check::ProbeAnswered);
                    let detail = format!("answered with JSON-RPC error {code}: the legacy era");
                    course.step(Outcome::Passed, asked, until, detail);
                }
                Some((_, Answer::Foreign)) => {
                    course.pass(Check::ProbeAnswered);
                    course.step(Outcome::Passed, asked, until, "refused: perhaps the legacy era".into());
                }
                Some((_, Answer::Result)) => {
                    course.pass(Check::ProbeAnswered);
                    course.step(Outcome::Passed, asked, until, "answered with another result".into());
                }
                None => {
                    if connected {
                        course.fault(diagnosis::mute(first.saturating_duration_since(asked)));
                    }
                    course.step(Outcome::Passed, asked, until, NO_ANSWER.into());
                }
            }
        }
        course.begin_at(Phase::Initialize, first.min(now));
    }

    /// Client and server agree.
    fn agreed(&self, course: &mut Course, seen: &Seen, now: Instant, restarted: bool, peer: Arc<Peer>) {
        let name = peer.info.as_ref().map_or_else(
            || "a server without a name".to_owned(),
            |info| format!("{} {}", info.name, info.version).trim_end().to_owned(),
        );
        let version = &peer.profile.version;
        let era = format!("{:?}", peer.profile.era).to_lowercase();
        let spoken = format!("{name}, protocol {} ({era})", version.as_str());
        let has_initialize = Method::Initialize.facts().is_some_and(|facts| facts.exists_in(version));
        course.pass(Check::Opening);
        if has_initialize {
            course.end(spoken);
        } else {
            course.pass(Check::ProbeSurvived);
            course.pass(Check::ProbeAnswered);
            // A late answer may have come after the probe was given up: it decides all the same.
            course.again(Phase::Probe, seen.probe.unwrap_or(self.began));
            course.end(spoken);
            course.skip(Phase::Initialize, "this version of the protocol has none");
        }
        let mute = seen.probe.is_some() && seen.answered.is_none();
        let took = match seen.initialize {
            // How long the program took to start is not known then: `initialize` alone is judged.
            Some((_, last)) if restarted || mute => now.saturating_duration_since(last),
            _ => seen.first.unwrap_or(now).saturating_duration_since(self.began),
        };
        if took > self.slow {
            course.fault(diagnosis::slow(course.way, course.last(), took, self.slow));
        } else {
            course.pass(Check::Speed);
        }
        course.peer = Some(Arc::unwrap_or_clone(peer));
    }
}
