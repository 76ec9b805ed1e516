//! One run, indexed for the rules about servers: our requests with the responses of the server, its own requests and
//! notifications, and what is no message.
//!
//! Built once for each run and read by every rule. Each event has one place in the index, so that one fault of a server
//! is found by one rule: a response with a changed id is not a missing response as well.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use mcpjoin_proto::decode::Shape;
use mcpjoin_proto::scan::ScanErrorKind;
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{
    DecodeError, DecodeErrorKind, ErrorObject, Message, Method, Notification, Payload, Raw, Request,
    RequestId, Response, code,
};

use crate::exchange::{Exchange, Exchanges, record};
use crate::json::{member, object, of_line};
use crate::revisions::Revisions;
use crate::rule::{Evidence, Finding};
use crate::trace::{Channel, Ended, Event, Line, Probe, Run, Trace, What};

/// The index of a run with a server.
pub(crate) struct ServerView<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) run: &'a Run,
    /// Our requests, in the order in which they were sent.
    pub(crate) our_requests: Vec<OurRequest<'a>>,
    /// Our notifications.
    pub(crate) our_notifications: Vec<OurNotification<'a>>,
    /// Responses whose id is that of none of our requests.
    pub(crate) stray_responses: Vec<Received<'a, Response>>,
    /// Requests of the server.
    pub(crate) requests: Vec<Received<'a, Request>>,
    /// Notifications of the server.
    pub(crate) notifications: Vec<Received<'a, Notification>>,
    /// Lines, and parts of batches, that are no message.
    pub(crate) invalid: Vec<Received<'a, DecodeError>>,
    /// Every line that was received, with its place among the events.
    pub(crate) lines: Vec<(usize, &'a Line)>,
    pub(crate) exchanges: Exchanges<'a>,
    /// The places of our requests to which a stray response seems to belong.
    answered_by_strays: BTreeSet<usize>,
}

/// A request of ours, or a line that resembles one on purpose.
pub(crate) struct OurRequest<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    /// The number of the HTTP exchange that carried it.
    pub(crate) exchange: Option<u32>,
    pub(crate) probe: Probe,
    pub(crate) line: &'a Line,
    pub(crate) id: Option<&'a RequestId>,
    spelling: Option<IdSpelling>,
    /// `None` for a line that is not a request on purpose.
    pub(crate) method: Option<&'a Method>,
    pub(crate) responses: Vec<ReceivedResponse<'a>>,
}

/// A response to a request of ours.
pub(crate) struct ReceivedResponse<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) exchange: Option<u32>,
    pub(crate) line: &'a Line,
    /// `None` for a line that is no message, and has the id of the request.
    pub(crate) outcome: Option<&'a Result<Payload, ErrorObject>>,
}

/// A request of ours with one of its responses.
#[derive(Clone, Copy)]
pub(crate) struct Reply<'s, 'a> {
    pub(crate) request: &'s OurRequest<'a>,
    pub(crate) response: &'s ReceivedResponse<'a>,
}

/// An error of the server, with the request if that is known.
pub(crate) struct ReceivedError<'s, 'a> {
    request: Option<&'s OurRequest<'a>>,
    line: &'a Line,
    pub(crate) error: &'a ErrorObject,
}

/// A notification of ours.
pub(crate) struct OurNotification<'a> {
    pub(crate) place: usize,
    pub(crate) probe: Probe,
    exchange: Option<u32>,
    pub(crate) line: &'a Line,
    pub(crate) what: &'a Notification,
}

/// A message of the peer, or an invalid one.
pub(crate) struct Received<'a, T> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) exchange: Option<u32>,
    pub(crate) line: &'a Line,
    pub(crate) what: &'a T,
}

/// What a stray response seems to be.
pub(crate) enum StrayMeaning<'s, 'a> {
    /// The response to this request, with a changed id or without one.
    Answers(&'s OurRequest<'a>),
    /// The response to this request, before the whole request was sent.
    Early(&'s OurRequest<'a>),
    /// The response to a line of ours that is no request.
    Provoked(&'s OurRequest<'a>),
    /// A response to this notification.
    Notified(&'s OurNotification<'a>),
    /// None of these.
    Nothing,
}

impl<'a> ServerView<'a> {
    pub(crate) fn of(trace: &'a Trace, run: &'a Run) -> Self {
        let mut view = Self {
            trace,
            run,
            our_requests: Vec::new(),
            our_notifications: Vec::new(),
            stray_responses: Vec::new(),
            requests: Vec::new(),
            notifications: Vec::new(),
            invalid: Vec::new(),
            lines: Vec::new(),
            exchanges: Exchanges::new(),
            answered_by_strays: BTreeSet::new(),
        };
        for (place, event) in run.events.iter().enumerate() {
            record(&mut view.exchanges, place, event, true);
            match &event.what {
                What::Sent(probe, line) => view.add_sent(place, event, *probe, line),
                What::Received(line) => {
                    view.lines.push((place, line));
                    for part in line.parts() {
                        view.add_received(place, event, line, part);
                    }
                }
                _ => {}
            }
        }
        if run.is_http() {
            // A response that came in another exchange too is checked in the exchange of its request.
            for request in &mut view.our_requests {
                if request.responses.iter().any(|response| response.exchange == request.exchange) {
                    request.responses.retain(|response| response.exchange == request.exchange);
                }
            }
        }
        let answered_by_strays = view.stray_responses.iter().filter_map(|stray| match view.meaning(stray) {
            StrayMeaning::Answers(request) => Some(request.place),
            _ => None,
        });
        view.answered_by_strays = answered_by_strays.collect();
        view
    }

    fn add_sent(&mut self, place: usize, event: &Event, probe: Probe, line: &'a Line) {
        let (at, exchange) = (event.at, event.exchange);
        for part in line.parts() {
            let (id, method) = match part {
                Ok(Message::Request(request)) => (Some(&request.id), Some(&request.method)),
                Ok(Message::Notification(what)) => {
                    self.our_notifications.push(OurNotification { place, probe, exchange, line, what });
                    continue;
                }
                Ok(Message::Response(_)) => continue,
                Err(error) => (error.id.as_ref(), None),
            };
            let (spelling, responses) = (id.map(IdSpelling::of), Vec::new());
            self.our_requests.push(OurRequest {
                place,
                at,
                exchange,
                probe,
                line,
                id,
                spelling,
                method,
                responses,
            });
        }
    }

    fn add_received(
        &mut self,
        place: usize,
        event: &Event,
        line: &'a Line,
        part: Result<&'a Message, &'a DecodeError>,
    ) {
        let (at, number) = (event.at, event.exchange);
        let exchange = number.and_then(|number| self.exchanges.get(&number));
        if exchange.is_some_and(|exchange| self.expects_no_message(exchange)) {
            return;
        }
        let is_resumed = exchange.is_some_and(|exchange| exchange.resumed_after().is_some());
        let is_refused = exchange.is_some_and(Exchange::is_refused);
        let (id, response) = match part {
            // A resumed stream repeats messages.
            Ok(Message::Request(_) | Message::Notification(_)) if is_resumed => return,
            Ok(Message::Request(what)) => {
                return self.requests.push(Received { place, at, exchange: number, line, what });
            }
            Ok(Message::Notification(what)) => {
                return self.notifications.push(Received { place, at, exchange: number, line, what });
            }
            Ok(Message::Response(response)) => (response.id.as_ref(), Some(response)),
            Err(_) if is_resumed => return,
            Err(what) => {
                self.invalid.push(Received { place, at, exchange: number, line, what });
                if what.shape != Shape::Response {
                    return;
                }
                (what.id.as_ref(), None)
            }
        };
        // A server may refuse a request before it reads it. In the legacy era that is its response. In the modern era the
        // rules of HTTP alone check it: the server has not read the era of the request either.
        let is_legacy = self.run.is_legacy();
        let may_stay_unread = exchange.is_some_and(|exchange| exchange.probe.may_stay_unread());
        if is_refused && id.is_none() && may_stay_unread && !is_legacy {
            return;
        }
        let mut latest = self.our_requests.iter_mut().rev();
        let owner = match id {
            Some(id) => latest.find(|request| request.id == Some(id)),
            None if is_refused && is_legacy => latest.find(|request| request.exchange == number),
            None => None,
        };
        match owner {
            Some(request) if is_resumed && !request.responses.is_empty() => {}
            Some(request) => {
                let outcome = response.map(|response| &response.outcome);
                request.responses.push(ReceivedResponse { place, at, exchange: number, line, outcome });
            }
            // An invalid message has rules of its own, and a resumed stream repeats messages.
            None => {
                let stray = response.filter(|_| !is_resumed);
                let stray = stray.map(|what| Received { place, at, exchange: number, line, what });
                self.stray_responses.extend(stray);
            }
        }
    }

    /// Whether no message is expected in an exchange: then the rules of HTTP alone check it.
    fn expects_no_message(&self, exchange: &Exchange<'_>) -> bool {
        exchange.needs_no_response()
            || exchange.message.is_none() && exchange.is_refused()
            || self.run.channel == Channel::HttpSse && exchange.is("POST")
    }

    /// The exchange that carried a request.
    pub(crate) fn exchange_of(&self, request: &OurRequest<'_>) -> Option<&Exchange<'a>> {
        self.exchanges.get(&request.exchange?)
    }

    /// The request to which a stray response seems to belong.
    pub(crate) fn meaning(&self, stray: &Received<'a, Response>) -> StrayMeaning<'_, 'a> {
        // Over Streamable HTTP, a message belongs to the request of its exchange.
        let elsewhere = |exchange: Option<u32>| self.run.is_http() && exchange != stray.exchange;
        let mut waiting = self.our_requests.iter().filter(|request| {
            request.place < stray.place && request.responses.is_empty() && !elsewhere(request.exchange)
        });
        if let Some(id) = &stray.what.id {
            let same = |request: &&OurRequest<'a>| request.probe == Probe::InPieces && request.id == Some(id);
            if let Some(request) = self.our_requests.iter().find(same) {
                return StrayMeaning::Early(request);
            }
            let given = IdSpelling::of(id);
            let is_alike =
                |request: &OurRequest<'a>| request.spelling.as_ref().is_some_and(|own| own.is_like(&given));
            return waiting
                .find(|request| request.method.is_some() && is_alike(request))
                .map_or(StrayMeaning::Nothing, StrayMeaning::Answers);
        }
        // A response may come late: it belongs to the line that it fits.
        let provoking = || {
            let before = self.our_requests.iter().rev().filter(|request| request.place < stray.place);
            before.filter(|request| {
                matches!(request.probe, Probe::BadJson | Probe::InvalidRequest)
                    && !elsewhere(request.exchange)
            })
        };
        let code = stray.what.outcome.as_ref().err().map(|error| error.code);
        let fits = |request: &&OurRequest<'_>| match request.probe {
            Probe::BadJson => code == Some(code::PARSE_ERROR),
            _ => code == Some(code::INVALID_REQUEST),
        };
        if let Some(request) = provoking().find(fits).or_else(|| provoking().next()) {
            return StrayMeaning::Provoked(request);
        }
        if let Some(request) = waiting.find(|request| request.method.is_some()) {
            return StrayMeaning::Answers(request);
        }
        let before = |sent: &&OurNotification<'_>| sent.place < stray.place && !elsewhere(sent.exchange);
        let notification = self.our_notifications.iter().rev().find(before);
        notification.map_or(StrayMeaning::Nothing, StrayMeaning::Notified)
    }

    /// Whether a message after a request may be its response although its id does not say so.
    pub(crate) fn may_be_answered(&self, request: &OurRequest<'_>) -> bool {
        if let Some(exchange) = self.exchange_of(request).filter(|_| self.run.is_http()) {
            let mut parts = exchange.lines.iter().flat_map(|(line, _)| line.parts());
            return parts.any(|part| matches!(part, Ok(Message::Response(_)) | Err(_)));
        }
        // A server that exits in the middle of a line has sent no response in it.
        let is_cut_off = |fault: &Received<'_, DecodeError>| {
            fault.what.kind == DecodeErrorKind::Json(ScanErrorKind::Truncated)
                && self.lines.last().is_some_and(|(last, _)| *last == fault.place)
                && self.ended_early()
        };
        // Invalid messages are in the order of their places.
        let last = self.invalid.iter().rev().find(|fault| !is_cut_off(fault));
        last.is_some_and(|fault| fault.place > request.place)
            || self.answered_by_strays.contains(&request.place)
    }

    /// Whether a request has a response, or can have none that is recognized.
    pub(crate) fn is_decided(&self, request: &OurRequest<'_>) -> bool {
        request.is_answered() || !self.may_be_answered(request)
    }

    /// Our requests with that probe.
    pub(crate) fn probed(&self, probe: Probe) -> impl Iterator<Item = &OurRequest<'a>> {
        self.our_requests.iter().filter(move |request| request.probe == probe)
    }

    /// Our requests with that probe that have one valid response.
    pub(crate) fn answers(
        &self,
        probe: Probe,
    ) -> impl Iterator<Item = (Reply<'_, 'a>, &'a Result<Payload, ErrorObject>)> {
        self.probed(probe).filter_map(OurRequest::answer)
    }

    /// Every result.
    pub(crate) fn results(&self) -> impl Iterator<Item = (Reply<'_, 'a>, &'a Raw)> {
        let replies = self
            .our_requests
            .iter()
            .flat_map(|request| request.responses.iter().map(move |response| Reply { request, response }));
        replies.filter_map(|reply| Some((reply, reply.response.outcome?.as_ref().ok()?.raw())))
    }

    /// The results of our requests with that probe.
    pub(crate) fn results_of(&self, probe: Probe) -> impl Iterator<Item = (Reply<'_, 'a>, &'a Raw)> {
        self.results().filter(move |(reply, _)| reply.request.probe == probe)
    }

    /// The results of a method.
    pub(crate) fn results_by(&self, method: &Method) -> impl Iterator<Item = (Reply<'_, 'a>, &'a Raw)> {
        self.results().filter(move |(reply, _)| reply.request.method == Some(method))
    }

    /// Every error.
    pub(crate) fn errors(&self) -> impl Iterator<Item = ReceivedError<'_, 'a>> {
        let owned = self.our_requests.iter().flat_map(|request| {
            request.responses.iter().filter_map(move |response| {
                let error = response.outcome?.as_ref().err()?;
                Some(ReceivedError { request: Some(request), line: response.line, error })
            })
        });
        let strays = self.stray_responses.iter().filter_map(|stray| {
            Some(ReceivedError { request: None, line: stray.line, error: stray.what.outcome.as_ref().err()? })
        });
        owned.chain(strays)
    }

    /// Every error with that code.
    pub(crate) fn errors_with(&self, code: i64) -> impl Iterator<Item = ReceivedError<'_, 'a>> {
        self.errors().filter(move |it| it.error.code == code)
    }

    /// The notifications of a method.
    pub(crate) fn notified(&self, method: &Method) -> impl Iterator<Item = &Received<'a, Notification>> {
        self.notifications.iter().filter(move |notification| notification.what.method == *method)
    }

    /// The exchanges of a probe.
    pub(crate) fn exchanged(&self, probe: Probe) -> impl Iterator<Item = &Exchange<'a>> {
        self.exchanges.values().filter(move |exchange| exchange.probe == probe)
    }

    /// The result of the opening request.
    pub(crate) fn opening(&self) -> Option<(Reply<'_, 'a>, &'a Raw)> {
        self.results().find(|(reply, _)| {
            matches!(reply.request.probe, Probe::Initialize | Probe::UnknownVersion | Probe::Discover)
        })
    }

    /// The capabilities of the server, from this run, or from another of the same revision if this run has no opening.
    pub(crate) fn declared(&self) -> Option<Members<Raw>> {
        let of = |view: &Self| object(view.opening()?.1, "capabilities");
        of(self).or_else(|| {
            let same = Revisions::only(&self.run.version)?;
            let others = self.trace.runs.iter().filter(|run| same.contains(&run.version));
            others.map(|run| Self::of(self.trace, run)).find_map(|view| of(&view))
        })
    }

    /// The capabilities that we declared in `initialize`.
    pub(crate) fn client_capabilities(&self) -> Option<Raw> {
        let openings = self.our_requests.iter().filter(|request| request.method == Some(&Method::Initialize));
        openings.filter_map(|request| member(&request.params()?, "capabilities")).next()
    }

    /// Whether the process ended, or closed its output, before we closed its input.
    pub(crate) fn ended_early(&self) -> bool {
        self.run
            .events
            .iter()
            .map(|event| &event.what)
            .take_while(|what| !matches!(what, What::InputClosed))
            .any(|what| matches!(what, What::OutputEnded | What::Ended(_)))
    }

    /// Whether the server ended before any part of the response to this request came.
    pub(crate) fn is_last(&self, request: &OurRequest<'_>) -> bool {
        self.ended_early() && self.exchange_of(request).is_some_and(|exchange| exchange.response.is_none())
    }

    /// How the process ended.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.run.events.iter().find_map(|event| match event.what {
            What::Ended(ended) => Some(ended),
            _ => None,
        })
    }

    /// How the process ended after we closed its input.
    pub(crate) fn ended_in_order(&self) -> Option<Ended> {
        if self.ended_early() { None } else { self.ended() }
    }

    /// Whether the server was asked for the legacy era, and never spoke it.
    pub(crate) fn refuses_legacy(&self) -> bool {
        let is_initialize = |event: &Event| matches!(event.what, What::Sent(Probe::Initialize, _));
        self.trace.runs.iter().any(|run| run.events.iter().any(is_initialize)) && !self.speaks_legacy()
    }

    /// Whether any run shows that the server speaks the legacy era.
    pub(crate) fn speaks_legacy(&self) -> bool {
        self.opens(Revisions::ALL)
    }

    /// Whether the server opened a session of one of these revisions.
    pub(crate) fn opens(&self, revisions: Revisions) -> bool {
        let mut runs = self.trace.runs.iter().filter(|run| revisions.contains(&run.version));
        runs.any(|run| Self::of(self.trace, run).results_of(Probe::Initialize).next().is_some())
    }
}

impl<'a> OurRequest<'a> {
    pub(crate) fn is_answered(&self) -> bool {
        !self.responses.is_empty()
    }

    /// The only response. `None` if there is none, more than one, or an invalid one.
    pub(crate) fn answer(&self) -> Option<(Reply<'_, 'a>, &'a Result<Payload, ErrorObject>)> {
        let [response] = self.responses.as_slice() else { return None };
        Some((Reply { request: self, response }, response.outcome?))
    }

    /// The parameters of the request.
    pub(crate) fn params(&self) -> Option<Raw> {
        member(&of_line(self.line.bytes())?, "params")
    }

    /// A member of its `_meta`.
    pub(crate) fn meta(&self, key: &str) -> Option<Raw> {
        member(&member(&self.params()?, "_meta")?, key)
    }

    /// A finding about the request and a line of the server.
    pub(crate) fn finding_with(&self, problem: impl Display, received: &Line) -> Finding {
        Finding::new(problem, Some(self.line.bytes()), Some(received.bytes()))
    }

    pub(crate) fn name(&self) -> &str {
        self.method.map_or("a line that is not a request", Method::as_str)
    }
}

impl Evidence for Reply<'_, '_> {
    fn finding(&self, problem: impl Display) -> Finding {
        self.request.finding_with(problem, self.response.line)
    }
}

impl Evidence for ReceivedError<'_, '_> {
    fn finding(&self, problem: impl Display) -> Finding {
        Finding::new(problem, self.request.map(|request| request.line.bytes()), Some(self.line.bytes()))
    }
}

impl<T> Evidence for Received<'_, T> {
    fn finding(&self, problem: impl Display) -> Finding {
        self.line.finding(problem)
    }
}

/// The text of an id, prepared for comparing: each of many stray responses is compared with every open request.
struct IdSpelling {
    text: String,
    number: Option<f64>,
}

impl IdSpelling {
    fn of(id: &RequestId) -> Self {
        let text = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        Self { number: text.parse().ok(), text: text.trim().to_owned() }
    }

    /// Whether the received id may stand for this one: a number for a string, or a number rounded by a float.
    fn is_like(&self, received: &Self) -> bool {
        let near = |one: f64, other: f64| (one - other).abs() <= one.abs() * 1e-6;
        self.text == received.text
            || self.number.zip(received.number).is_some_and(|(one, other)| near(one, other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_alike_that_rounding_makes_one_and_not_those_that_are_far_apart() {
        let alike = |one: RequestId, other: RequestId| IdSpelling::of(&one).is_like(&IdSpelling::of(&other));
        let large = 9_007_199_254_740_993_i64;
        assert!(alike(large.into(), (large - 1).into()));
        assert!(alike(7.into(), "7".into()));
        assert!(!alike(10_000_000_000_000_i64.into(), 1_000_000_000_000_i64.into()));
        assert!(!alike(1_000_000_000_000_i64.into(), 10_000_000_000_000_i64.into()));
        assert!(!alike(7.into(), 8.into()));
    }
}
