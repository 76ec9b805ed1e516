//! One run, indexed for the rules about servers: our requests with the responses of the server, its own requests and
//! notifications, and what is no message.
//!
//! Built once for each run and read by every rule. Each event has one place in the index, so that one fault of a server
//! is found by one rule: a response with a changed id is not a missing response as well.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcpjoin_proto::decode::Shape;
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{
    DecodeError, ErrorObject, Message, Method, Notification, Payload, Raw, Request, RequestId, code,
};

use crate::exchange::Exchange;
use crate::json::{member, members, of_line};
use crate::revisions::Revisions;
use crate::rule::Finding;
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
    pub(crate) stray_responses: Vec<StrayResponse<'a>>,
    /// Requests of the server.
    pub(crate) requests: Vec<Received<'a, Request>>,
    /// Notifications of the server.
    pub(crate) notifications: Vec<Received<'a, Notification>>,
    /// Lines, and parts of batches, that are no message.
    pub(crate) invalid: Vec<Received<'a, DecodeError>>,
    /// Every line that was received, with its place among the events.
    pub(crate) lines: Vec<(usize, &'a Line)>,
    /// The HTTP exchanges, by their numbers.
    pub(crate) exchanges: BTreeMap<u32, Exchange<'a>>,
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
    spelled: Option<IdSpelling>,
    /// `None` for a line that is no request on purpose.
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

/// A notification of ours.
pub(crate) struct OurNotification<'a> {
    pub(crate) place: usize,
    pub(crate) probe: Probe,
    exchange: Option<u32>,
    pub(crate) line: &'a Line,
}

/// A response to none of our requests.
pub(crate) struct StrayResponse<'a> {
    pub(crate) place: usize,
    exchange: Option<u32>,
    pub(crate) line: &'a Line,
    pub(crate) id: Option<RequestId>,
    pub(crate) outcome: Option<&'a Result<Payload, ErrorObject>>,
}

/// A request, a notification or an invalid message of the server.
pub(crate) struct Received<'a, T> {
    pub(crate) place: usize,
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
            exchanges: BTreeMap::new(),
            answered_by_strays: BTreeSet::new(),
        };
        for (place, event) in run.events.iter().enumerate() {
            view.happened(event);
            match &event.what {
                What::Sent(probe, line) => view.sent(place, event, *probe, line),
                What::Received(line) => {
                    view.lines.push((place, line));
                    for part in line.parts() {
                        view.came(place, event, line, part);
                    }
                }
                _ => {}
            }
        }
        if run.channel == Channel::StreamableHttp {
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

    /// Adds an event to its HTTP exchange.
    fn happened(&mut self, event: &'a Event) {
        let Some(number) = event.exchange else { return };
        if let What::Requested(probe, request) = &event.what {
            self.exchanges.insert(number, Exchange::new(*probe, request));
            return;
        }
        let Some(exchange) = self.exchanges.get_mut(&number) else { return };
        match &event.what {
            What::Sent(_, line) => exchange.sent = Some(line),
            What::Responded(response) => exchange.response = Some(response),
            What::Streamed(streamed) => exchange.events.push(streamed),
            What::Received(line) => {
                let name = exchange.events.last().and_then(|event| event.name.as_ref());
                exchange.lines.push((line, name));
            }
            What::Body(body) => exchange.body = Some(body),
            What::Retry(_) => exchange.has_retry = true,
            What::BodyEnded(end) => exchange.end = Some((event.at, end)),
            _ => {}
        }
    }

    fn sent(&mut self, place: usize, event: &Event, probe: Probe, line: &'a Line) {
        let (at, exchange) = (event.at, event.exchange);
        for part in line.parts() {
            let (id, method) = match part {
                Ok(Message::Request(request)) => (Some(&request.id), Some(&request.method)),
                Ok(Message::Notification(_)) => {
                    self.our_notifications.push(OurNotification { place, probe, exchange, line });
                    continue;
                }
                Ok(Message::Response(_)) => continue,
                Err(error) => (error.id.as_ref(), None),
            };
            let (spelled, responses) = (id.map(IdSpelling::of), Vec::new());
            self.our_requests.push(OurRequest {
                place,
                at,
                exchange,
                probe,
                line,
                id,
                spelled,
                method,
                responses,
            });
        }
    }

    fn came(
        &mut self,
        place: usize,
        event: &Event,
        line: &'a Line,
        part: Result<&'a Message, &'a DecodeError>,
    ) {
        let (at, number) = (event.at, event.exchange);
        let exchange = number.and_then(|number| self.exchanges.get(&number));
        if exchange.is_some_and(|exchange| self.is_judged_there(exchange)) {
            return;
        }
        let is_resumed = exchange.is_some_and(|exchange| exchange.resumed_after().is_some());
        let is_refused =
            exchange.is_some_and(|exchange| exchange.status().is_some_and(|status| status >= 400));
        let (id, outcome) = match part {
            // A resumed stream repeats messages.
            Ok(Message::Request(_) | Message::Notification(_)) if is_resumed => return,
            Ok(Message::Request(what)) => {
                return self.requests.push(Received { place, exchange: number, line, what });
            }
            Ok(Message::Notification(what)) => {
                return self.notifications.push(Received { place, exchange: number, line, what });
            }
            Ok(Message::Response(response)) => (response.id.as_ref(), Some(&response.outcome)),
            Err(_) if is_resumed => return,
            Err(error) => {
                self.invalid.push(Received { place, exchange: number, line, what: error });
                if error.shape != Shape::Response {
                    return;
                }
                (error.id.as_ref(), None)
            }
        };
        // A server may refuse a request before it reads it. In the legacy era that is its response. In the modern era the
        // rules of HTTP alone check it: the server has not read the era of the request either.
        let is_legacy = Revisions::LEGACY.contains(&self.run.version);
        let may_stay_unread = exchange.is_some_and(|exchange| exchange.probe.may_stay_unread());
        let is_unread = is_refused && id.is_none() && is_legacy;
        if is_refused && id.is_none() && may_stay_unread && !is_legacy {
            return;
        }
        let owner = match id {
            Some(id) => self.our_requests.iter_mut().rev().find(|request| request.id == Some(id)),
            None if is_unread => {
                self.our_requests.iter_mut().rev().find(|request| request.exchange == number)
            }
            None => None,
        };
        match owner {
            Some(request) if is_resumed && !request.responses.is_empty() => {}
            Some(request) => {
                request.responses.push(ReceivedResponse { place, at, exchange: number, line, outcome });
            }
            // An invalid message has rules of its own, and a resumed stream repeats messages.
            None if outcome.is_none() || is_resumed => {}
            None => self.stray_responses.push(StrayResponse {
                place,
                exchange: number,
                line,
                id: id.cloned(),
                outcome,
            }),
        }
    }

    /// Whether the rules of HTTP alone check the messages of an exchange: where no message is expected in it.
    fn is_judged_there(&self, exchange: &Exchange<'_>) -> bool {
        exchange.only_tells()
            || exchange.sent.is_none() && exchange.status().is_some_and(|status| status >= 400)
            || self.run.channel == Channel::HttpSse && exchange.is("POST")
    }

    /// The exchange that carried a request.
    pub(crate) fn exchange_of(&self, request: &OurRequest<'_>) -> Option<&Exchange<'a>> {
        self.exchanges.get(&request.exchange?)
    }

    /// Guesses what a stray response belongs to.
    pub(crate) fn meaning(&self, stray: &StrayResponse<'a>) -> StrayMeaning<'_, 'a> {
        // Over Streamable HTTP, a message belongs to the request of its exchange.
        let elsewhere =
            |exchange: Option<u32>| self.run.channel == Channel::StreamableHttp && exchange != stray.exchange;
        let mut waiting = self.our_requests.iter().filter(|request| {
            request.place < stray.place && request.responses.is_empty() && !elsewhere(request.exchange)
        });
        if let Some(id) = &stray.id {
            let same = |request: &&OurRequest<'a>| request.probe == Probe::InPieces && request.id == Some(id);
            if let Some(request) = self.our_requests.iter().find(same) {
                return StrayMeaning::Early(request);
            }
            let given = IdSpelling::of(id);
            let is_alike =
                |request: &OurRequest<'a>| request.spelled.as_ref().is_some_and(|own| own.is_like(&given));
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
        let code = stray.outcome.and_then(|outcome| outcome.as_ref().err()).map(|error| error.code);
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
        let mut notification = self.our_notifications.iter().rev();
        match notification
            .find(|notification| notification.place < stray.place && !elsewhere(notification.exchange))
        {
            Some(notification) => StrayMeaning::Notified(notification),
            None => StrayMeaning::Nothing,
        }
    }

    /// Whether a message after a request may be its response although its id does not say so.
    pub(crate) fn may_be_answered(&self, request: &OurRequest<'_>) -> bool {
        if let Some(exchange) =
            self.exchange_of(request).filter(|_| self.run.channel == Channel::StreamableHttp)
        {
            let mut parts = exchange.lines.iter().flat_map(|(line, _)| line.parts());
            return parts.any(|part| match part {
                Ok(Message::Response(_)) => true,
                Ok(_) => false,
                Err(_) => true,
            });
        }
        // Invalid messages are in the order of their places.
        self.invalid.last().is_some_and(|fault| fault.place > request.place)
            || self.answered_by_strays.contains(&request.place)
    }

    /// Our requests with that probe.
    pub(crate) fn probed(&self, probe: Probe) -> impl Iterator<Item = &OurRequest<'a>> {
        self.our_requests.iter().filter(move |request| request.probe == probe)
    }

    /// Every result, with its request.
    pub(crate) fn results(
        &self,
    ) -> impl Iterator<Item = (&OurRequest<'a>, &ReceivedResponse<'a>, &'a Payload)> {
        let responses = self
            .our_requests
            .iter()
            .flat_map(|request| request.responses.iter().map(move |response| (request, response)));
        responses.filter_map(|(request, response)| match response.outcome {
            Some(Ok(result)) => Some((request, response, result)),
            _ => None,
        })
    }

    /// Every error, with its line, and with its request where that is known.
    pub(crate) fn errors(
        &self,
    ) -> impl Iterator<Item = (Option<&OurRequest<'a>>, &'a Line, &'a ErrorObject)> {
        let owned = self.our_requests.iter().flat_map(|request| {
            request.responses.iter().filter_map(move |response| match response.outcome {
                Some(Err(error)) => Some((Some(request), response.line, error)),
                _ => None,
            })
        });
        let stray_responses = self.stray_responses.iter().filter_map(|stray| match stray.outcome {
            Some(Err(error)) => Some((None, stray.line, error)),
            _ => None,
        });
        owned.chain(stray_responses)
    }

    /// The result of the opening request.
    pub(crate) fn opening(&self) -> Option<(&OurRequest<'a>, &ReceivedResponse<'a>, &'a Payload)> {
        self.results().find(|(request, ..)| {
            matches!(request.probe, Probe::Initialize | Probe::UnknownVersion | Probe::Discover)
        })
    }

    /// The capabilities of the server, from this run, or from another of the same revision where this run has no opening.
    pub(crate) fn declared(&self) -> Option<Members<Raw>> {
        let here = self.opening().and_then(|(.., result)| capabilities(result));
        here.or_else(|| {
            let same = Revisions::only(&self.run.version)?;
            let others = self.trace.runs.iter().filter(|run| same.contains(&run.version));
            others
                .map(|run| Self::of(self.trace, run))
                .find_map(|view| view.opening().and_then(|(.., result)| capabilities(result)))
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

    /// How the process ended after we closed its input.
    pub(crate) fn ended_in_order(&self) -> Option<Ended> {
        if self.ended_early() {
            return None;
        }
        self.run.events.iter().find_map(|event| match event.what {
            What::Ended(ended) => Some(ended),
            _ => None,
        })
    }

    /// Whether the server was asked for the legacy era, and never spoke it.
    pub(crate) fn refuses_legacy(&self) -> bool {
        let request =
            |run: &Run| run.events.iter().any(|event| matches!(event.what, What::Sent(Probe::Initialize, _)));
        self.trace.runs.iter().any(request) && !self.speaks_legacy()
    }

    /// Whether another run shows that the server speaks the legacy era.
    pub(crate) fn speaks_legacy(&self) -> bool {
        self.trace.runs.iter().any(|run| {
            Self::of(self.trace, run).results().any(|(request, ..)| request.probe == Probe::Initialize)
        })
    }
}

impl OurRequest<'_> {
    /// The only response. `None` where there is none, more than one, or an invalid one.
    pub(crate) fn response(&self) -> Option<(&ReceivedResponse<'_>, &Result<Payload, ErrorObject>)> {
        match self.responses.as_slice() {
            [response] => response.outcome.map(|outcome| (response, outcome)),
            _ => None,
        }
    }

    /// The parameters of the request.
    pub(crate) fn params(&self) -> Option<Raw> {
        member(&of_line(self.line.bytes())?, "params")
    }

    /// A member of its `_meta`.
    pub(crate) fn meta(&self, key: &str) -> Option<Raw> {
        member(&member(&self.params()?, "_meta")?, key)
    }

    /// A finding about a response to this request.
    pub(crate) fn finding(&self, problem: impl Into<String>, received: &Line) -> Finding {
        Finding::new(problem, Some(self.line.bytes()), Some(received.bytes()))
    }

    pub(crate) fn name(&self) -> &str {
        self.method.map_or("a line that is no request", Method::as_str)
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

    /// Whether the other id may be this one: a number for a string, or a rounded number.
    fn is_like(&self, came: &Self) -> bool {
        // A float of 32 or 64 bits rounds it.
        let near = |one: f64, other: f64| (one - other).abs() <= one.abs() * 1e-6;
        self.text == came.text || self.number.zip(came.number).is_some_and(|(one, other)| near(one, other))
    }
}

fn capabilities(result: &Payload) -> Option<Members<Raw>> {
    members(&member(result.raw(), "capabilities")?)
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
