//! One run, sorted as a client has led it: what it asked and what we answered, what we asked and what it answered, what
//! it told us, and the HTTP requests that have carried it.
//!
//! The counterpart of [`Seen`](crate::seen::Seen), built when the first rule for clients asks for it. In the
//! [`Run`] we are the server: [`What::Received`] is what the client has sent, [`What::Sent`] what it got.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{
    DecodeError, ErrorObject, Kind, Message, Method, Notification, Payload, Raw, Request, RequestId, Version,
};

use crate::exchange::{self, BodyEnd, HttpRequest, HttpResponse, StreamEvent};
use crate::revisions::Revisions;
use crate::rule::Finding;
use crate::seen::{member, members};
use crate::trace::{Channel, Line, Probe, Run, What};

/// A run as its client has led it.
pub(crate) struct Talk<'a> {
    pub(crate) run: &'a Run,
    /// What the client asked.
    pub(crate) asked: Vec<Asked<'a>>,
    /// What it told.
    pub(crate) told: Vec<Told<'a>>,
    /// What we asked.
    pub(crate) ours: Vec<Ours<'a>>,
    /// Its responses that answer nothing that we asked, or that again.
    pub(crate) strays: Vec<Said<'a>>,
    /// What it sent that is no message.
    pub(crate) faults: Vec<(usize, &'a Line, &'a DecodeError)>,
    /// All that it sent, each with its place.
    pub(crate) lines: Vec<(usize, &'a Line)>,
    /// Its HTTP requests.
    pub(crate) posts: BTreeMap<u32, Post<'a>>,
    /// Whether it has left: its end of the pipe is closed, or its process has ended.
    pub(crate) left: bool,
    /// The time of the last event.
    pub(crate) last: Duration,
    /// The time of the last event while the client was there.
    pub(crate) here: Duration,
    ids: Ids<'a>,
    inputs: Inputs<'a>,
}

/// Which request had an id last.
#[derive(Default)]
struct Ids<'a> {
    asked: BTreeMap<&'a RequestId, usize>,
    ours: BTreeMap<&'a RequestId, usize>,
}

/// A request of the client.
pub(crate) struct Asked<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) line: &'a Line,
    pub(crate) what: &'a Request,
    /// Our answer.
    pub(crate) answer: Option<Said<'a>>,
}

/// A response.
#[derive(Clone, Copy)]
pub(crate) struct Said<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) probe: Option<Probe>,
    pub(crate) line: &'a Line,
    pub(crate) id: Option<&'a RequestId>,
    pub(crate) outcome: &'a Result<Payload, ErrorObject>,
}

/// A notification of the client.
pub(crate) struct Told<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) line: &'a Line,
    pub(crate) what: &'a Notification,
}

/// A request of ours.
pub(crate) struct Ours<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) probe: Probe,
    pub(crate) line: &'a Line,
    pub(crate) what: &'a Request,
    pub(crate) answer: Option<Said<'a>>,
    /// When we have given it up: it need not be answered then.
    pub(crate) cancelled: Option<Duration>,
}

/// An HTTP request of the client, and what it got.
pub(crate) struct Post<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) request: &'a HttpRequest,
    pub(crate) body: Option<&'a Line>,
    pub(crate) response: Option<&'a HttpResponse>,
    /// The events of its response, where that is a stream.
    pub(crate) events: Vec<&'a StreamEvent>,
    /// How its response has ended, and when.
    pub(crate) end: Option<(usize, Duration, &'a BodyEnd)>,
}

impl<'a> Talk<'a> {
    /// With nothing in it.
    pub(crate) fn empty(run: &'a Run) -> Self {
        Self {
            run,
            asked: Vec::new(),
            told: Vec::new(),
            ours: Vec::new(),
            strays: Vec::new(),
            faults: Vec::new(),
            lines: Vec::new(),
            posts: BTreeMap::new(),
            left: false,
            here: Duration::ZERO,
            last: Duration::ZERO,
            ids: Ids::default(),
            inputs: Inputs::default(),
        }
    }

    pub(crate) fn of(run: &'a Run) -> Self {
        let mut talk = Self::empty(run);
        talk.last = run.events.last().map_or(Duration::ZERO, |event| event.at);
        for (place, event) in run.events.iter().enumerate() {
            if !talk.left && !matches!(event.what, What::InputClosed | What::Ended(_)) {
                talk.here = event.at;
            }
            match &event.what {
                What::Received(line) => {
                    talk.lines.push((place, line));
                    if let Some(post) = event.exchange.and_then(|number| talk.posts.get_mut(&number)) {
                        post.body = Some(line);
                    }
                    for part in line.parts() {
                        talk.came(place, event.at, line, part);
                    }
                }
                What::Sent(probe, line) => {
                    for part in line.parts().filter_map(Result::ok) {
                        talk.went(place, event.at, *probe, line, part);
                    }
                }
                What::Requested(_, request) => {
                    if let Some(number) = event.exchange {
                        talk.posts.insert(number, Post::new(place, event.at, request));
                    }
                }
                What::Responded(response) => {
                    if let Some(post) = event.exchange.and_then(|number| talk.posts.get_mut(&number)) {
                        post.response = Some(response);
                    }
                }
                What::Streamed(streamed) => {
                    if let Some(post) = event.exchange.and_then(|number| talk.posts.get_mut(&number)) {
                        post.events.push(streamed);
                    }
                }
                What::BodyEnded(how) => {
                    if let Some(post) = event.exchange.and_then(|number| talk.posts.get_mut(&number)) {
                        post.end = Some((place, event.at, how));
                    }
                }
                What::InputClosed | What::Ended(_) => talk.left = true,
                _ => {}
            }
        }
        talk.inputs = Inputs::of(&talk.asked);
        talk
    }

    fn came(
        &mut self,
        place: usize,
        at: Duration,
        line: &'a Line,
        part: Result<&'a Message, &'a DecodeError>,
    ) {
        match part {
            Ok(Message::Request(what)) => {
                self.ids.asked.insert(&what.id, self.asked.len());
                self.asked.push(Asked { place, at, line, what, answer: None });
            }
            Ok(Message::Notification(what)) => self.told.push(Told { place, at, line, what }),
            Ok(Message::Response(response)) => {
                let (id, outcome) = (response.id.as_ref(), &response.outcome);
                let said = Said { place, at, probe: None, line, id, outcome };
                let owner = id.and_then(|id| self.ids.ours.get(id));
                let owner = owner.and_then(|place| self.ours.get_mut(*place));
                match owner {
                    Some(ours) if ours.answer.is_none() => ours.answer = Some(said),
                    _ => self.strays.push(said),
                }
            }
            Err(error) => self.faults.push((place, line, error)),
        }
    }

    fn went(&mut self, place: usize, at: Duration, probe: Probe, line: &'a Line, part: &'a Message) {
        match part {
            Message::Request(what) => {
                self.ids.ours.insert(&what.id, self.ours.len());
                self.ours.push(Ours { place, at, probe, line, what, answer: None, cancelled: None });
            }
            Message::Response(response) => {
                let (id, outcome) = (response.id.as_ref(), &response.outcome);
                let owner = id.and_then(|id| self.ids.asked.get(id));
                let owner = owner.and_then(|place| self.asked.get_mut(*place));
                if let Some(asked) = owner.filter(|asked| asked.answer.is_none()) {
                    asked.answer = Some(Said { place, at, probe: Some(probe), line, id, outcome });
                }
            }
            Message::Notification(what) if what.method == Method::Cancelled => {
                let id = what.params.as_ref().and_then(|params| member(params.raw(), "requestId"));
                let id: Option<RequestId> = id.and_then(|id| id.decode().ok());
                let ours = id.and_then(|id| self.ids.ours.get(&id));
                if let Some(ours) = ours.and_then(|place| self.ours.get_mut(*place)) {
                    ours.cancelled.get_or_insert(at);
                }
            }
            Message::Notification(_) => {}
        }
    }

    /// Whether a request of ours had that id.
    pub(crate) fn has_asked(&self, id: &RequestId) -> bool {
        self.ids.ours.contains_key(id)
    }

    /// Whether the run is of the era without sessions.
    pub(crate) fn is_modern(&self) -> bool {
        Revisions::MODERN.contains(&self.run.version)
    }

    pub(crate) fn is_http(&self) -> bool {
        self.run.channel == Channel::StreamableHttp
    }

    /// Its requests with that method.
    pub(crate) fn calls(&self, method: &Method) -> impl Iterator<Item = &Asked<'a>> {
        self.asked.iter().filter(move |asked| asked.what.method == *method)
    }

    /// The request that opened the session, with the result that it got.
    pub(crate) fn opening(&self) -> Option<(&Asked<'a>, Said<'a>, &'a Payload)> {
        self.calls(&Method::Initialize).find_map(|asked| {
            let said = asked.answer?;
            Some((asked, said, said.outcome.as_ref().ok()?))
        })
    }

    /// Whether the answer to `initialize` named a version that no client knows.
    pub(crate) fn is_unusable(&self) -> bool {
        self.opening().is_some_and(|(_, said, _)| said.probe == Some(Probe::UnknownVersion))
    }

    /// The capabilities of the client: of the whole session, or of one modern request.
    pub(crate) fn capabilities(&self, asked: Option<&Asked<'_>>) -> Option<Raw> {
        if self.is_modern() {
            let meta = asked?.what.params.as_ref()?.meta()?;
            return member(&meta, mcpjoin_proto::types::meta::key::CLIENT_CAPABILITIES);
        }
        let opened = self.calls(&Method::Initialize).next()?;
        member(opened.what.params.as_ref()?.raw(), "capabilities")
    }

    /// What we have declared.
    pub(crate) fn offered(&self) -> Option<Members<Raw>> {
        let (.., result) = self.opening()?;
        members(&member(result.raw(), "capabilities")?)
    }

    /// Every answer of the client to a question of ours of that kind, in either era: the parameters of the question,
    /// the answer, the line that asked and the line that answered.
    pub(crate) fn replies(&self, method: &Method) -> Vec<(Option<Raw>, Raw, &'a Line, &'a Line)> {
        let mut replies = Vec::new();
        for ours in self.ours.iter().filter(|ours| ours.what.method == *method) {
            if let Some(said) = ours.answer
                && let Ok(result) = said.outcome
            {
                let params = ours.what.params.as_ref().map(|params| params.raw().clone());
                replies.push((params, result.raw().clone(), ours.line, said.line));
            }
        }
        for (retry, needed) in self.retries() {
            let (Some(asked), Some(given)) = (needed.requests.as_ref(), retry.given.as_ref()) else {
                continue;
            };
            for (key, question) in asked.iter() {
                let is_it = member(question, "method")
                    .and_then(|name| name.to_string_value().map(|name| name == method.as_str()));
                if is_it == Some(true)
                    && let Some(reply) = given.get(key)
                {
                    replies.push((
                        member(question, "params"),
                        reply.clone(),
                        needed.line,
                        self.asked[retry.asked].line,
                    ));
                }
            }
        }
        replies
    }

    /// Requests of the modern era that bring what an earlier answer has asked for, each with that answer: the last one
    /// before it to a request of the same method about the same thing.
    pub(crate) fn retries(&self) -> impl Iterator<Item = (&Retry, &Needed<'a>)> {
        let inputs = &self.inputs;
        inputs.retries.iter().filter_map(|retry| Some((retry, inputs.needed.get(retry.needed?)?)))
    }

    /// Requests that bring input, asked for or not.
    pub(crate) fn bringing(&self) -> impl Iterator<Item = &Retry> {
        self.inputs.retries.iter()
    }

    /// The answer that a request brings input for.
    pub(crate) fn needed_for(&self, retry: &Retry) -> Option<&Needed<'a>> {
        self.inputs.needed.get(retry.needed?)
    }

    /// What is wrong with something that the client sent.
    pub(crate) fn finding(&self, problem: impl Into<String>, line: &Line) -> Finding {
        Finding::new(problem, None, Some(line.bytes()))
    }

    /// The revision by which it is judged.
    pub(crate) fn version(&self) -> &Version {
        &self.run.version
    }
}

/// What is asked for in answers, and what requests bring.
#[derive(Default)]
struct Inputs<'a> {
    needed: Vec<Needed<'a>>,
    retries: Vec<Retry>,
}

impl<'a> Inputs<'a> {
    /// Read once, and in the order of their places: there may be many.
    fn of(asked: &[Asked<'a>]) -> Self {
        let needed: Vec<Needed<'a>> = asked.iter().filter_map(Needed::of).collect();
        let mut owners: HashMap<&str, HashSet<&Subject>> = HashMap::new();
        for needed in &needed {
            if let Some(state) = &needed.state {
                owners.entry(state.as_str()).or_default().insert(&needed.subject);
            }
        }
        let mut coming: Vec<(usize, &Needed<'a>)> = needed.iter().enumerate().collect();
        coming.sort_by_key(|(_, needed)| needed.place);
        let mut coming = coming.into_iter().peekable();
        let mut latest: HashMap<&Subject, usize> = HashMap::new();
        let mut retries = Vec::new();
        for (place, asked) in asked.iter().enumerate() {
            while let Some((place, needed)) = coming.next_if(|(_, needed)| needed.place < asked.place) {
                let latest = latest.entry(&needed.subject).or_insert(place);
                *latest = place.max(*latest);
            }
            if let Some(mut retry) = Retry::of(place, asked) {
                retry.needed = latest.get(&retry.subject).copied();
                let owners = retry.state.as_ref().and_then(|state| owners.get(state.as_str()));
                retry.is_known = owners.is_some();
                retry.is_of_another = owners.is_some_and(|owners| !owners.contains(&retry.subject));
                retries.push(retry);
            }
        }
        Self { retries, needed }
    }
}

/// A request that brings input.
pub(crate) struct Retry {
    /// Which of the client's requests.
    pub(crate) asked: usize,
    pub(crate) subject: Subject,
    pub(crate) given: Option<Members<Raw>>,
    pub(crate) state: Option<Raw>,
    /// Whether some answer had this state.
    pub(crate) is_known: bool,
    /// Whether the state belongs to requests about something else.
    pub(crate) is_of_another: bool,
    /// Which of the answers that ask for input it is for.
    needed: Option<usize>,
}

/// An answer of ours that asks for input.
pub(crate) struct Needed<'a> {
    pub(crate) place: usize,
    pub(crate) line: &'a Line,
    pub(crate) id: &'a RequestId,
    pub(crate) subject: Subject,
    pub(crate) requests: Option<Members<Raw>>,
    pub(crate) state: Option<Raw>,
}

/// What a request is about: its method, and the tool, prompt or resource.
pub(crate) type Subject = (Method, Option<String>);

impl Retry {
    fn of(place: usize, asked: &Asked<'_>) -> Option<Self> {
        let params = members(asked.what.params.as_ref()?.raw())?;
        let (given, state) = (params.get("inputResponses"), params.get("requestState").map(plain));
        if given.is_none() && state.is_none() {
            return None;
        }
        let given = given.and_then(members);
        let (is_known, is_of_another, needed) = (false, false, None);
        Some(Self { asked: place, subject: subject(asked), given, state, is_known, is_of_another, needed })
    }
}

impl<'a> Needed<'a> {
    fn of(asked: &Asked<'a>) -> Option<Self> {
        let said = asked.answer?;
        let result = said.outcome.as_ref().ok()?;
        if result.result_type()?.as_str() != "\"input_required\"" {
            return None;
        }
        let requests = member(result.raw(), "inputRequests").and_then(|asked| members(&asked));
        let state = member(result.raw(), "requestState").as_ref().map(plain);
        let (place, line, id) = (said.place, said.line, &asked.what.id);
        Some(Self { place, line, id, subject: subject(asked), requests, state })
    }
}

fn subject(asked: &Asked<'_>) -> Subject {
    let params = asked.what.params.as_ref();
    let named = params.and_then(Payload::name_string).map(|name| name.into_owned());
    let uri = || params?.uri()?.to_string_value().map(|uri| uri.into_owned());
    (asked.what.method.clone(), named.or_else(uri))
}

impl Asked<'_> {
    pub(crate) fn meta(&self) -> Option<Raw> {
        self.what.params.as_ref().and_then(Payload::meta)
    }

    /// What is wrong with it.
    pub(crate) fn finding(&self, problem: impl Into<String>) -> Finding {
        Finding::new(problem, None, Some(self.line.bytes()))
    }
}

impl Ours<'_> {
    /// What is wrong with its answer.
    pub(crate) fn finding(&self, problem: impl Into<String>, said: &Line) -> Finding {
        Finding::new(problem, Some(self.line.bytes()), Some(said.bytes()))
    }
}

impl<'a> Post<'a> {
    const fn new(place: usize, at: Duration, request: &'a HttpRequest) -> Self {
        Self { place, at, request, body: None, response: None, events: Vec::new(), end: None }
    }

    pub(crate) fn is(&self, method: &str) -> bool {
        &*self.request.method == method
    }

    /// The messages in it.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &'a Message> {
        self.body.into_iter().flat_map(Line::parts).filter_map(Result::ok)
    }

    /// The requests in it.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &'a Request> {
        self.messages().filter_map(|message| match message {
            Message::Request(request) => Some(request),
            _ => None,
        })
    }

    pub(crate) fn status(&self) -> Option<u16> {
        self.response.map(|response| response.status)
    }

    /// What is wrong with it.
    pub(crate) fn finding(&self, problem: impl Into<String>) -> Finding {
        let mut text =
            exchange::heading(&self.request.method, exchange::path(&self.request.url), &self.request.headers);
        exchange::append(&mut text, self.body.map(Line::bytes));
        Finding::new(problem, None, Some(&Bytes::from(text)))
    }
}

/// A text, however it was escaped.
pub(crate) fn plain(raw: &Raw) -> Raw {
    raw.to_string_value().map_or_else(|| raw.clone(), |text| Raw::string(&text))
}

/// Whether a member is an object.
pub(crate) fn is_object(raw: Option<&Raw>) -> bool {
    raw.is_some_and(|raw| raw.kind() == Kind::Object)
}
