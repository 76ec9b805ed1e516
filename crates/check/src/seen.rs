//! One run, sorted: what we asked with what came back, what came without having been asked for, what was no message.
//!
//! Built once for each run and read by every rule. One cause is sorted into one place, so that one fault of a server
//! is found by one rule: a response whose id was changed is not a missing answer as well.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::decode::Shape;
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{
    DecodeError, ErrorObject, Kind, Message, Method, Notification, Payload, Raw, Request, RequestId, code,
};

use crate::client::Talk;
use crate::exchange::Exchange;
use crate::revisions::Revisions;
use crate::rule::Finding;
use crate::trace::{Channel, Ended, Event, Line, Probe, Run, Trace, What};

/// A run, sorted.
pub(crate) struct Seen<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) run: &'a Run,
    /// What we asked.
    pub(crate) asked: Vec<Asked<'a>>,
    /// What we told.
    pub(crate) told: Vec<Told<'a>>,
    /// Responses to nothing that we asked, as it seems.
    pub(crate) strays: Vec<Stray<'a>>,
    /// What the server asked.
    pub(crate) requests: Vec<Came<'a, Request>>,
    /// What the server told.
    pub(crate) notifications: Vec<Came<'a, Notification>>,
    /// Lines, and parts of batches, that are no message.
    pub(crate) faults: Vec<Came<'a, DecodeError>>,
    /// Every line that came, with its place.
    pub(crate) lines: Vec<(usize, &'a Line)>,
    /// The HTTP exchanges, by their numbers.
    pub(crate) exchanges: BTreeMap<u32, Exchange<'a>>,
    /// The places of our requests that a stray response seems to answer.
    meant: BTreeSet<usize>,
    /// The run as a client has led it; empty where a server is judged.
    pub(crate) talk: Talk<'a>,
}

/// A request of ours; or a line that should be taken for something like it.
pub(crate) struct Asked<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    /// The HTTP exchange that has carried it.
    pub(crate) exchange: Option<u32>,
    pub(crate) probe: Probe,
    pub(crate) line: &'a Line,
    pub(crate) id: Option<&'a RequestId>,
    spelled: Option<Spelling>,
    /// `None`: it is no request, on purpose.
    pub(crate) method: Option<&'a Method>,
    pub(crate) answers: Vec<Answer<'a>>,
}

/// What came back.
pub(crate) struct Answer<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) exchange: Option<u32>,
    pub(crate) line: &'a Line,
    /// `None`: it is no message, but would have been the response.
    pub(crate) outcome: Option<&'a Result<Payload, ErrorObject>>,
}

/// A notification of ours.
pub(crate) struct Told<'a> {
    pub(crate) place: usize,
    pub(crate) probe: Probe,
    exchange: Option<u32>,
    pub(crate) line: &'a Line,
}

/// A response that fits nothing.
pub(crate) struct Stray<'a> {
    pub(crate) place: usize,
    exchange: Option<u32>,
    pub(crate) line: &'a Line,
    pub(crate) id: Option<RequestId>,
    pub(crate) outcome: Option<&'a Result<Payload, ErrorObject>>,
}

/// Something that came by itself.
pub(crate) struct Came<'a, T> {
    pub(crate) place: usize,
    pub(crate) exchange: Option<u32>,
    pub(crate) line: &'a Line,
    pub(crate) what: &'a T,
}

/// What a stray response is, as far as it can be told.
pub(crate) enum Meaning<'s, 'a> {
    /// The answer to this request, with its id changed or left out.
    Answers(&'s Asked<'a>),
    /// The answer to this request, which was not sent whole yet.
    Early(&'s Asked<'a>),
    /// What a line of ours that is no request has provoked.
    Provoked(&'s Asked<'a>),
    /// An answer to this notification.
    Notified(&'s Told<'a>),
    /// None of these.
    Nothing,
}

impl<'a> Seen<'a> {
    pub(crate) fn of(trace: &'a Trace, run: &'a Run) -> Self {
        let mut seen = Self {
            trace,
            run,
            asked: Vec::new(),
            told: Vec::new(),
            strays: Vec::new(),
            requests: Vec::new(),
            notifications: Vec::new(),
            faults: Vec::new(),
            lines: Vec::new(),
            exchanges: BTreeMap::new(),
            meant: BTreeSet::new(),
            talk: Talk::empty(run),
        };
        for (place, event) in run.events.iter().enumerate() {
            seen.happened(event);
            match &event.what {
                What::Sent(probe, line) => seen.sent(place, event, *probe, line),
                What::Received(line) => {
                    seen.lines.push((place, line));
                    for part in line.parts() {
                        seen.came(place, event, line, part);
                    }
                }
                _ => {}
            }
        }
        if run.channel == Channel::StreamableHttp {
            // An answer that came elsewhere as well is judged there.
            for asked in &mut seen.asked {
                if asked.answers.iter().any(|answer| answer.exchange == asked.exchange) {
                    asked.answers.retain(|answer| answer.exchange == asked.exchange);
                }
            }
        }
        let meant = seen.strays.iter().filter_map(|stray| match seen.meaning(stray) {
            Meaning::Answers(asked) => Some(asked.place),
            _ => None,
        });
        seen.meant = meant.collect();
        seen
    }

    /// The same, to be judged by the rules for clients.
    pub(crate) fn of_client(trace: &'a Trace, run: &'a Run) -> Self {
        Self { talk: Talk::of(run), ..Self::of(trace, run) }
    }

    /// The run as a client has led it.
    pub(crate) const fn talk(&self) -> &Talk<'a> {
        &self.talk
    }

    /// Puts the parts of exchanges together.
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
                    self.told.push(Told { place, probe, exchange, line });
                    continue;
                }
                Ok(Message::Response(_)) => continue,
                Err(error) => (error.id.as_ref(), None),
            };
            let (spelled, answers) = (id.map(Spelling::of), Vec::new());
            self.asked.push(Asked { place, at, exchange, probe, line, id, spelled, method, answers });
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
            // What is repeated has been seen before.
            Ok(Message::Request(_) | Message::Notification(_)) if is_resumed => return,
            Ok(Message::Request(what)) => {
                return self.requests.push(Came { place, exchange: number, line, what });
            }
            Ok(Message::Notification(what)) => {
                return self.notifications.push(Came { place, exchange: number, line, what });
            }
            Ok(Message::Response(response)) => (response.id.as_ref(), Some(&response.outcome)),
            Err(_) if is_resumed => return,
            Err(error) => {
                self.faults.push(Came { place, exchange: number, line, what: error });
                if error.shape != Shape::Response {
                    return;
                }
                (error.id.as_ref(), None)
            }
        };
        // A server may refuse a request before it has read it. Of a legacy one that is all that is known of it; in the
        // modern era it is judged by the rules of HTTP alone: what era it is of has not been read either.
        let is_legacy = Revisions::LEGACY.contains(&self.run.version);
        let may_stay_unread = exchange.is_some_and(|exchange| exchange.probe.may_stay_unread());
        let is_unread = is_refused && id.is_none() && is_legacy;
        if is_refused && id.is_none() && may_stay_unread && !is_legacy {
            return;
        }
        let owner = match id {
            Some(id) => self.asked.iter_mut().rev().find(|asked| asked.id == Some(id)),
            None if is_unread => self.asked.iter_mut().rev().find(|asked| asked.exchange == number),
            None => None,
        };
        match owner {
            Some(asked) if is_resumed && !asked.answers.is_empty() => {}
            Some(asked) => asked.answers.push(Answer { place, at, exchange: number, line, outcome }),
            // What is no message is judged as such, and what a stream repeats with it.
            None if outcome.is_none() || is_resumed => {}
            None => self.strays.push(Stray { place, exchange: number, line, id: id.cloned(), outcome }),
        }
    }

    /// Whether what comes in an exchange is judged by the rules of HTTP alone: with what needs no answer, and where
    /// nothing should come.
    fn is_judged_there(&self, exchange: &Exchange<'_>) -> bool {
        exchange.only_tells()
            || exchange.sent.is_none() && exchange.status().is_some_and(|status| status >= 400)
            || self.run.channel == Channel::HttpSse && exchange.is("POST")
    }

    /// The exchange that has carried a request.
    pub(crate) fn exchange_of(&self, asked: &Asked<'_>) -> Option<&Exchange<'a>> {
        self.exchanges.get(&asked.exchange?)
    }

    /// What a stray response is.
    pub(crate) fn meaning(&self, stray: &Stray<'a>) -> Meaning<'_, 'a> {
        // Over Streamable HTTP, what comes in an exchange is about what was sent in it.
        let elsewhere =
            |exchange: Option<u32>| self.run.channel == Channel::StreamableHttp && exchange != stray.exchange;
        let mut waiting = self.asked.iter().filter(|asked| {
            asked.place < stray.place && asked.answers.is_empty() && !elsewhere(asked.exchange)
        });
        if let Some(id) = &stray.id {
            let same = |asked: &&Asked<'a>| asked.probe == Probe::InPieces && asked.id == Some(id);
            if let Some(asked) = self.asked.iter().find(same) {
                return Meaning::Early(asked);
            }
            let given = Spelling::of(id);
            let is_alike = |asked: &Asked<'a>| asked.spelled.as_ref().is_some_and(|own| own.is_like(&given));
            return waiting
                .find(|asked| asked.method.is_some() && is_alike(asked))
                .map_or(Meaning::Nothing, Meaning::Answers);
        }
        // An answer may come late: the line that it fits is the one that it is for.
        let provoking = || {
            let before = self.asked.iter().rev().filter(|asked| asked.place < stray.place);
            before.filter(|asked| {
                matches!(asked.probe, Probe::BadJson | Probe::InvalidRequest) && !elsewhere(asked.exchange)
            })
        };
        let code = stray.outcome.and_then(|outcome| outcome.as_ref().err()).map(|error| error.code);
        let fits = |asked: &&Asked<'_>| match asked.probe {
            Probe::BadJson => code == Some(code::PARSE_ERROR),
            _ => code == Some(code::INVALID_REQUEST),
        };
        if let Some(asked) = provoking().find(fits).or_else(|| provoking().next()) {
            return Meaning::Provoked(asked);
        }
        if let Some(asked) = waiting.find(|asked| asked.method.is_some()) {
            return Meaning::Answers(asked);
        }
        let mut told = self.told.iter().rev();
        match told.find(|told| told.place < stray.place && !elsewhere(told.exchange)) {
            Some(told) => Meaning::Notified(told),
            None => Meaning::Nothing,
        }
    }

    /// Whether something came after a request that may be its answer and is not recognised as such.
    pub(crate) fn may_be_answered(&self, asked: &Asked<'_>) -> bool {
        if let Some(exchange) =
            self.exchange_of(asked).filter(|_| self.run.channel == Channel::StreamableHttp)
        {
            let mut parts = exchange.lines.iter().flat_map(|(line, _)| line.parts());
            return parts.any(|part| match part {
                Ok(Message::Response(_)) => true,
                Ok(_) => false,
                Err(_) => true,
            });
        }
        // Faults stand in the order of their places, and what is meant came before the stray.
        self.faults.last().is_some_and(|fault| fault.place > asked.place) || self.meant.contains(&asked.place)
    }

    /// Our requests for that purpose.
    pub(crate) fn probed(&self, probe: Probe) -> impl Iterator<Item = &Asked<'a>> {
        self.asked.iter().filter(move |asked| asked.probe == probe)
    }

    /// Every result, with the request that it is of.
    pub(crate) fn results(&self) -> impl Iterator<Item = (&Asked<'a>, &Answer<'a>, &'a Payload)> {
        let answers =
            self.asked.iter().flat_map(|asked| asked.answers.iter().map(move |answer| (asked, answer)));
        answers.filter_map(|(asked, answer)| match answer.outcome {
            Some(Ok(result)) => Some((asked, answer, result)),
            _ => None,
        })
    }

    /// Every error, with the line that it stands in, and the request, where it is known.
    pub(crate) fn errors(&self) -> impl Iterator<Item = (Option<&Asked<'a>>, &'a Line, &'a ErrorObject)> {
        let owned = self.asked.iter().flat_map(|asked| {
            asked.answers.iter().filter_map(move |answer| match answer.outcome {
                Some(Err(error)) => Some((Some(asked), answer.line, error)),
                _ => None,
            })
        });
        let strays = self.strays.iter().filter_map(|stray| match stray.outcome {
            Some(Err(error)) => Some((None, stray.line, error)),
            _ => None,
        });
        owned.chain(strays)
    }

    /// The result of the opening request.
    pub(crate) fn opening(&self) -> Option<(&Asked<'a>, &Answer<'a>, &'a Payload)> {
        self.results().find(|(asked, ..)| {
            matches!(asked.probe, Probe::Initialize | Probe::UnknownVersion | Probe::Discover)
        })
    }

    /// What the server has declared, in this run or, where this one had no opening, in another by the same revision.
    pub(crate) fn declared(&self) -> Option<Members<Raw>> {
        let here = self.opening().and_then(|(.., result)| capabilities(result));
        here.or_else(|| {
            let same = Revisions::only(&self.run.version)?;
            let others = self.trace.runs.iter().filter(|run| same.contains(&run.version));
            others
                .map(|run| Self::of(self.trace, run))
                .find_map(|seen| seen.opening().and_then(|(.., result)| capabilities(result)))
        })
    }

    /// What our opening request has declared of us: `initialize`, or `_meta` of a modern request.
    pub(crate) fn client_capabilities(&self) -> Option<Raw> {
        let openings = self.asked.iter().filter(|asked| asked.method == Some(&Method::Initialize));
        openings.filter_map(|asked| member(&asked.params()?, "capabilities")).next()
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

    /// Whether the server has ended with this request under way: nothing of a response has come.
    pub(crate) fn is_last(&self, asked: &Asked<'_>) -> bool {
        self.ended_early() && self.exchange_of(asked).is_some_and(|exchange| exchange.response.is_none())
    }

    /// How the process has ended after we closed its input.
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
        let asked =
            |run: &Run| run.events.iter().any(|event| matches!(event.what, What::Sent(Probe::Initialize, _)));
        self.trace.runs.iter().any(asked) && !self.speaks_legacy()
    }

    /// Whether another run shows that the server speaks the legacy era.
    pub(crate) fn speaks_legacy(&self) -> bool {
        self.trace.runs.iter().any(|run| {
            Self::of(self.trace, run).results().any(|(asked, ..)| asked.probe == Probe::Initialize)
        })
    }
}

impl Asked<'_> {
    /// The one answer; `None` when there is none, more than one, or it is no message.
    pub(crate) fn answer(&self) -> Option<(&Answer<'_>, &Result<Payload, ErrorObject>)> {
        match self.answers.as_slice() {
            [answer] => answer.outcome.map(|outcome| (answer, outcome)),
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

    /// What is wrong with an answer.
    pub(crate) fn finding(&self, problem: impl Into<String>, received: &Line) -> Finding {
        Finding::new(problem, Some(self.line.bytes()), Some(received.bytes()))
    }

    pub(crate) fn name(&self) -> &str {
        self.method.map_or("a line that is no request", Method::as_str)
    }
}

/// How an id is written, read once: there may be many strays, and each is held against all that waits.
struct Spelling {
    text: String,
    number: Option<f64>,
}

impl Spelling {
    fn of(id: &RequestId) -> Self {
        let text = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        Self { number: text.parse().ok(), text: text.trim().to_owned() }
    }

    /// Whether another looks like a spelling of this one: a number for a string, a rounded number.
    fn is_like(&self, came: &Self) -> bool {
        // What a number of 32 or 64 bits makes of it is near it.
        let near = |one: f64, other: f64| (one - other).abs() <= one.abs() * 1e-6;
        self.text == came.text || self.number.zip(came.number).is_some_and(|(one, other)| near(one, other))
    }
}

/// Whether an object has a member, or a member of a member: `sampling.tools`.
pub(crate) fn has_path(object: &Raw, path: &str) -> bool {
    let mut place = Some(object.clone());
    for name in path.split('.') {
        place = place.and_then(|object| member(&object, name));
    }
    place.is_some()
}

fn capabilities(result: &Payload) -> Option<Members<Raw>> {
    members(&member(result.raw(), "capabilities")?)
}

/// The members of an object; `None` for anything else.
pub(crate) fn members(raw: &Raw) -> Option<Members<Raw>> {
    if raw.kind() == Kind::Object { raw.decode().ok() } else { None }
}

/// A member of an object.
pub(crate) fn member(raw: &Raw, name: &str) -> Option<Raw> {
    members(raw)?.get(name).cloned()
}

/// A member of an object that is a string.
pub(crate) fn text(raw: &Raw, name: &str) -> Option<String> {
    member(raw, name)?.to_string_value().map(|text| text.into_owned())
}

/// The items of an array.
pub(crate) fn elements(raw: &Raw) -> Option<Vec<Raw>> {
    if raw.kind() == Kind::Array { raw.decode().ok() } else { None }
}

/// The items of an array that has nothing but strings.
pub(crate) fn strings(raw: &Raw) -> Option<Vec<String>> {
    let items = elements(raw)?;
    items.iter().map(|item| item.to_string_value().map(|text| text.into_owned())).collect()
}

/// The members of a line that is an object, whatever else is wrong with it.
pub(crate) fn of_line(bytes: &Bytes) -> Option<Raw> {
    // Whether it is one is seen at its first byte: a batch is not read once more for each fault in it.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    Raw::parse(bytes.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_alike_that_rounding_makes_one_and_not_those_that_are_far_apart() {
        let alike = |one: RequestId, other: RequestId| Spelling::of(&one).is_like(&Spelling::of(&other));
        let large = 9_007_199_254_740_993_i64;
        assert!(alike(large.into(), (large - 1).into()));
        assert!(alike(7.into(), "7".into()));
        assert!(!alike(10_000_000_000_000_i64.into(), 1_000_000_000_000_i64.into()));
        assert!(!alike(1_000_000_000_000_i64.into(), 10_000_000_000_000_i64.into()));
        assert!(!alike(7.into(), 8.into()));
    }
}
