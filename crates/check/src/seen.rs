//! One run, sorted: what we asked with what came back, what came without having been asked for, what was no message.
//!
//! Built once for each run and read by every rule. One cause is sorted into one place, so that one fault of a server
//! is found by one rule: a response whose id was changed is not a missing answer as well.

use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::decode::Shape;
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{
    DecodeError, ErrorObject, Kind, Message, Method, Notification, Payload, Raw, Request, RequestId, code,
};

use crate::revisions::Revisions;
use crate::rule::Finding;
use crate::trace::{Ended, Line, Probe, Run, Trace, What};

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
}

/// A request of ours; or a line that should be taken for something like it.
pub(crate) struct Asked<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) probe: Probe,
    pub(crate) line: &'a Line,
    pub(crate) id: Option<&'a RequestId>,
    /// `None`: it is no request, on purpose.
    pub(crate) method: Option<&'a Method>,
    pub(crate) answers: Vec<Answer<'a>>,
}

/// What came back.
pub(crate) struct Answer<'a> {
    pub(crate) at: Duration,
    pub(crate) line: &'a Line,
    /// `None`: it is no message, but would have been the response.
    pub(crate) outcome: Option<&'a Result<Payload, ErrorObject>>,
}

/// A notification of ours.
pub(crate) struct Told<'a> {
    pub(crate) place: usize,
    pub(crate) line: &'a Line,
}

/// A response that fits nothing.
pub(crate) struct Stray<'a> {
    pub(crate) place: usize,
    pub(crate) line: &'a Line,
    pub(crate) id: Option<RequestId>,
    pub(crate) outcome: Option<&'a Result<Payload, ErrorObject>>,
}

/// Something that came by itself.
pub(crate) struct Came<'a, T> {
    pub(crate) place: usize,
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
        };
        for (place, event) in run.events.iter().enumerate() {
            match &event.what {
                What::Sent(probe, line) => seen.sent(place, event.at, *probe, line),
                What::Received(line) => {
                    seen.lines.push((place, line));
                    for part in line.parts() {
                        seen.came(place, event.at, line, part);
                    }
                }
                _ => {}
            }
        }
        seen
    }

    fn sent(&mut self, place: usize, at: Duration, probe: Probe, line: &'a Line) {
        for part in line.parts() {
            let (id, method) = match part {
                Ok(Message::Request(request)) => (Some(&request.id), Some(&request.method)),
                Ok(Message::Notification(_)) => {
                    self.told.push(Told { place, line });
                    continue;
                }
                Ok(Message::Response(_)) => continue,
                Err(error) => (error.id.as_ref(), None),
            };
            self.asked.push(Asked { place, at, probe, line, id, method, answers: Vec::new() });
        }
    }

    fn came(
        &mut self,
        place: usize,
        at: Duration,
        line: &'a Line,
        part: Result<&'a Message, &'a DecodeError>,
    ) {
        let (id, outcome) = match part {
            Ok(Message::Request(what)) => return self.requests.push(Came { place, line, what }),
            Ok(Message::Notification(what)) => return self.notifications.push(Came { place, line, what }),
            Ok(Message::Response(response)) => (response.id.as_ref(), Some(&response.outcome)),
            Err(error) => {
                self.faults.push(Came { place, line, what: error });
                if error.shape != Shape::Response {
                    return;
                }
                (error.id.as_ref(), None)
            }
        };
        let owner = id.and_then(|id| self.asked.iter_mut().rev().find(|asked| asked.id == Some(id)));
        match owner {
            Some(asked) => asked.answers.push(Answer { at, line, outcome }),
            // What is no message is judged as such.
            None if outcome.is_none() => {}
            None => self.strays.push(Stray { place, line, id: id.cloned(), outcome }),
        }
    }

    /// What a stray response is.
    pub(crate) fn meaning(&self, stray: &Stray<'a>) -> Meaning<'_, 'a> {
        let mut waiting =
            self.asked.iter().filter(|asked| asked.place < stray.place && asked.answers.is_empty());
        if let Some(id) = &stray.id {
            let same = |asked: &&Asked<'a>| asked.probe == Probe::InPieces && asked.id == Some(id);
            if let Some(asked) = self.asked.iter().find(same) {
                return Meaning::Early(asked);
            }
            return waiting
                .find(|asked| asked.method.is_some() && asked.id.is_some_and(|asked| is_alike(asked, id)))
                .map_or(Meaning::Nothing, Meaning::Answers);
        }
        // An answer may come late: the line that it fits is the one that it is for.
        let provoking = || {
            let before = self.asked.iter().rev().filter(|asked| asked.place < stray.place);
            before.filter(|asked| matches!(asked.probe, Probe::BadJson | Probe::InvalidRequest))
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
        match self.told.iter().rev().find(|told| told.place < stray.place) {
            Some(told) => Meaning::Notified(told),
            None => Meaning::Nothing,
        }
    }

    /// Whether something came after a request that may be its answer and is not recognised as such.
    pub(crate) fn may_be_answered(&self, asked: &Asked<'_>) -> bool {
        let after = |place| place > asked.place;
        self.faults.iter().any(|fault| after(fault.place))
            || self.strays.iter().any(|stray| {
                after(stray.place)
                    && matches!(self.meaning(stray), Meaning::Answers(meant) if meant.place == asked.place)
            })
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

    /// Whether the process ended, or closed its output, before we closed its input.
    pub(crate) fn ended_early(&self) -> bool {
        self.run
            .events
            .iter()
            .map(|event| &event.what)
            .take_while(|what| !matches!(what, What::InputClosed))
            .any(|what| matches!(what, What::OutputEnded | What::Ended(_)))
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

    /// What is wrong with an answer.
    pub(crate) fn finding(&self, problem: impl Into<String>, received: &Line) -> Finding {
        Finding::new(problem, Some(self.line.bytes()), Some(received.bytes()))
    }

    pub(crate) fn name(&self) -> &str {
        self.method.map_or("a line that is no request", Method::as_str)
    }
}

/// Whether an id looks like a spelling of another: a number for a string, a rounded number.
fn is_alike(asked: &RequestId, came: &RequestId) -> bool {
    let text = |id: &RequestId| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    let (one, other) = (text(asked), text(came));
    if one == other || one.trim() == other.trim() {
        return true;
    }
    match (one.parse::<f64>(), other.parse::<f64>()) {
        // What a number of 32 or 64 bits makes of it is near it.
        (Ok(one), Ok(other)) => (one - other).abs() <= one.abs() * 1e-6,
        _ => false,
    }
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

/// The items of an array that has nothing but strings.
pub(crate) fn strings(raw: &Raw) -> Option<Vec<String>> {
    if raw.kind() != Kind::Array {
        return None;
    }
    let items: Vec<Raw> = raw.decode().ok()?;
    items.iter().map(|item| item.to_string_value().map(|text| text.into_owned())).collect()
}

/// The members of a line that is an object, whatever else is wrong with it.
pub(crate) fn of_line(bytes: &Bytes) -> Option<Raw> {
    Raw::parse(bytes.clone()).ok().filter(|raw| raw.kind() == Kind::Object)
}
