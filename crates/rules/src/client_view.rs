//! One run, indexed for the rules about clients: the client's requests with our responses, our requests with its
//! responses, its notifications, and the HTTP exchanges that carried them.
//!
//! The counterpart of [`ServerView`](crate::server_view::ServerView). In the [`Run`] we are the server:
//! [`What::Received`] is a message of the client, [`What::Sent`] one of ours.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{
    DecodeError, ErrorObject, Message, Method, Notification, Payload, Raw, Request, RequestId, Version,
};

use crate::exchange::{self, BodyEnd, HttpRequest, HttpResponse, StreamEvent};
use crate::json::{member, members, plain};
use crate::revisions::Revisions;
use crate::rule::Finding;
use crate::trace::{Channel, Line, Probe, Run, Trace, What};

/// The index of a run with a client.
pub(crate) struct ClientView<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) run: &'a Run,
    /// Requests of the client.
    pub(crate) requests: Vec<ClientRequest<'a>>,
    /// Notifications of the client.
    pub(crate) notifications: Vec<ClientNotification<'a>>,
    /// Our requests.
    pub(crate) our_requests: Vec<OurRequest<'a>>,
    /// Responses of the client to none of our requests, or to one that has its response.
    pub(crate) stray_responses: Vec<RecordedResponse<'a>>,
    /// Lines of the client that are no message: place, line and error.
    pub(crate) invalid: Vec<(usize, &'a Line, &'a DecodeError)>,
    /// All lines of the client, with their places among the events.
    pub(crate) lines: Vec<(usize, &'a Line)>,
    /// HTTP requests of the client with our responses, by the numbers of the exchanges.
    pub(crate) exchanges: BTreeMap<u32, ClientExchange<'a>>,
    /// Whether the client closed its end of the pipe, or its process ended.
    pub(crate) has_left: bool,
    /// The time of the last event.
    pub(crate) last_event: Duration,
    /// The time of the last event before the client left.
    pub(crate) last_present: Duration,
    ids: Ids<'a>,
    inputs: Inputs<'a>,
}

/// The last request with each id.
#[derive(Default)]
struct Ids<'a> {
    requests: BTreeMap<&'a RequestId, usize>,
    our_requests: BTreeMap<&'a RequestId, usize>,
}

/// A request of the client.
pub(crate) struct ClientRequest<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) line: &'a Line,
    pub(crate) what: &'a Request,
    /// Our response.
    pub(crate) response: Option<RecordedResponse<'a>>,
}

/// A response.
#[derive(Clone, Copy)]
pub(crate) struct RecordedResponse<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) probe: Option<Probe>,
    pub(crate) line: &'a Line,
    pub(crate) id: Option<&'a RequestId>,
    pub(crate) outcome: &'a Result<Payload, ErrorObject>,
}

/// A notification of the client.
pub(crate) struct ClientNotification<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) line: &'a Line,
    pub(crate) what: &'a Notification,
}

/// A request of ours.
pub(crate) struct OurRequest<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) probe: Probe,
    pub(crate) line: &'a Line,
    pub(crate) what: &'a Request,
    pub(crate) response: Option<RecordedResponse<'a>>,
    /// When we cancelled it: it needs no response after that.
    pub(crate) cancelled: Option<Duration>,
}

/// An HTTP request of the client, and our response.
pub(crate) struct ClientExchange<'a> {
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) request: &'a HttpRequest,
    pub(crate) body: Option<&'a Line>,
    pub(crate) response: Option<&'a HttpResponse>,
    /// The events of its response, where that is a stream.
    pub(crate) events: Vec<&'a StreamEvent>,
    /// The place, the time and the kind of the end of the response.
    pub(crate) end: Option<(usize, Duration, &'a BodyEnd)>,
}

impl<'a> ClientView<'a> {
    fn empty(trace: &'a Trace, run: &'a Run) -> Self {
        Self {
            trace,
            run,
            requests: Vec::new(),
            notifications: Vec::new(),
            our_requests: Vec::new(),
            stray_responses: Vec::new(),
            invalid: Vec::new(),
            lines: Vec::new(),
            exchanges: BTreeMap::new(),
            has_left: false,
            last_present: Duration::ZERO,
            last_event: Duration::ZERO,
            ids: Ids::default(),
            inputs: Inputs::default(),
        }
    }

    pub(crate) fn of(trace: &'a Trace, run: &'a Run) -> Self {
        let mut view = Self::empty(trace, run);
        view.last_event = run.events.last().map_or(Duration::ZERO, |event| event.at);
        for (place, event) in run.events.iter().enumerate() {
            if !view.has_left && !matches!(event.what, What::InputClosed | What::Ended(_)) {
                view.last_present = event.at;
            }
            match &event.what {
                What::Received(line) => {
                    view.lines.push((place, line));
                    if let Some(post) = event.exchange.and_then(|number| view.exchanges.get_mut(&number)) {
                        post.body = Some(line);
                    }
                    for part in line.parts() {
                        view.came(place, event.at, line, part);
                    }
                }
                What::Sent(probe, line) => {
                    for part in line.parts().filter_map(Result::ok) {
                        view.went(place, event.at, *probe, line, part);
                    }
                }
                What::Requested(_, request) => {
                    if let Some(number) = event.exchange {
                        view.exchanges.insert(number, ClientExchange::new(place, event.at, request));
                    }
                }
                What::Responded(response) => {
                    if let Some(post) = event.exchange.and_then(|number| view.exchanges.get_mut(&number)) {
                        post.response = Some(response);
                    }
                }
                What::Streamed(streamed) => {
                    if let Some(post) = event.exchange.and_then(|number| view.exchanges.get_mut(&number)) {
                        post.events.push(streamed);
                    }
                }
                What::BodyEnded(how) => {
                    if let Some(post) = event.exchange.and_then(|number| view.exchanges.get_mut(&number)) {
                        post.end = Some((place, event.at, how));
                    }
                }
                What::InputClosed | What::Ended(_) => view.has_left = true,
                _ => {}
            }
        }
        view.inputs = Inputs::of(&view.requests);
        view
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
                self.ids.requests.insert(&what.id, self.requests.len());
                self.requests.push(ClientRequest { place, at, line, what, response: None });
            }
            Ok(Message::Notification(what)) => {
                self.notifications.push(ClientNotification { place, at, line, what });
            }
            Ok(Message::Response(response)) => {
                let (id, outcome) = (response.id.as_ref(), &response.outcome);
                let response = RecordedResponse { place, at, probe: None, line, id, outcome };
                let owner = id.and_then(|id| self.ids.our_requests.get(id));
                let owner = owner.and_then(|place| self.our_requests.get_mut(*place));
                match owner {
                    Some(our_request) if our_request.response.is_none() => {
                        our_request.response = Some(response);
                    }
                    _ => self.stray_responses.push(response),
                }
            }
            Err(error) => self.invalid.push((place, line, error)),
        }
    }

    fn went(&mut self, place: usize, at: Duration, probe: Probe, line: &'a Line, part: &'a Message) {
        match part {
            Message::Request(what) => {
                self.ids.our_requests.insert(&what.id, self.our_requests.len());
                self.our_requests.push(OurRequest {
                    place,
                    at,
                    probe,
                    line,
                    what,
                    response: None,
                    cancelled: None,
                });
            }
            Message::Response(response) => {
                let (id, outcome) = (response.id.as_ref(), &response.outcome);
                let owner = id.and_then(|id| self.ids.requests.get(id));
                let owner = owner.and_then(|place| self.requests.get_mut(*place));
                if let Some(request) = owner.filter(|request| request.response.is_none()) {
                    request.response =
                        Some(RecordedResponse { place, at, probe: Some(probe), line, id, outcome });
                }
            }
            Message::Notification(what) if what.method == Method::Cancelled => {
                let id = what.params.as_ref().and_then(|params| member(params.raw(), "requestId"));
                let id: Option<RequestId> = id.and_then(|id| id.decode().ok());
                let our_request = id.and_then(|id| self.ids.our_requests.get(&id));
                if let Some(our_request) = our_request.and_then(|place| self.our_requests.get_mut(*place)) {
                    our_request.cancelled.get_or_insert(at);
                }
            }
            Message::Notification(_) => {}
        }
    }

    /// Whether a request of ours had that id.
    pub(crate) fn has_asked(&self, id: &RequestId) -> bool {
        self.ids.our_requests.contains_key(id)
    }

    /// Whether the run is of the era without sessions.
    pub(crate) fn is_modern(&self) -> bool {
        Revisions::MODERN.contains(&self.run.version)
    }

    pub(crate) fn is_http(&self) -> bool {
        self.run.channel == Channel::StreamableHttp
    }

    /// Its requests with that method.
    pub(crate) fn calls(&self, method: &Method) -> impl Iterator<Item = &ClientRequest<'a>> {
        self.requests.iter().filter(move |request| request.what.method == *method)
    }

    /// The request that opened the session, with the result that it got.
    pub(crate) fn opening(&self) -> Option<(&ClientRequest<'a>, RecordedResponse<'a>, &'a Payload)> {
        self.calls(&Method::Initialize).find_map(|request| {
            let response = request.response?;
            Some((request, response, response.outcome.as_ref().ok()?))
        })
    }

    /// Whether the answer to `initialize` named a version that no client knows.
    pub(crate) fn is_unusable(&self) -> bool {
        self.opening().is_some_and(|(_, response, _)| response.probe == Some(Probe::UnknownVersion))
    }

    /// The capabilities of the client: of the whole session, or of one modern request.
    pub(crate) fn capabilities(&self, request: Option<&ClientRequest<'_>>) -> Option<Raw> {
        if self.is_modern() {
            let meta = request?.what.params.as_ref()?.meta()?;
            return member(&meta, mcpjoin_proto::types::meta::key::CLIENT_CAPABILITIES);
        }
        let opened = self.calls(&Method::Initialize).next()?;
        member(opened.what.params.as_ref()?.raw(), "capabilities")
    }

    /// The capabilities that we declared.
    pub(crate) fn offered(&self) -> Option<Members<Raw>> {
        let (.., result) = self.opening()?;
        members(&member(result.raw(), "capabilities")?)
    }

    /// Every response of the client to our requests of that method, in both eras: the parameters of the request, the result,
    /// the line of the request and the line of the response.
    pub(crate) fn replies(&self, method: &Method) -> Vec<(Option<Raw>, Raw, &'a Line, &'a Line)> {
        let mut replies = Vec::new();
        for our_request in self.our_requests.iter().filter(|our_request| our_request.what.method == *method) {
            if let Some(response) = our_request.response
                && let Ok(result) = response.outcome
            {
                let params = our_request.what.params.as_ref().map(|params| params.raw().clone());
                replies.push((params, result.raw().clone(), our_request.line, response.line));
            }
        }
        for (retry, needed) in self.retries() {
            let (Some(request), Some(given)) = (needed.requests.as_ref(), retry.given.as_ref()) else {
                continue;
            };
            for (key, question) in request.iter() {
                let is_it = member(question, "method")
                    .and_then(|name| name.to_string_value().map(|name| name == method.as_str()));
                if is_it == Some(true)
                    && let Some(reply) = given.get(key)
                {
                    replies.push((
                        member(question, "params"),
                        reply.clone(),
                        needed.line,
                        self.requests[retry.request].line,
                    ));
                }
            }
        }
        replies
    }

    /// Requests of the modern era that bring input, each with the response that asked for it: the last one before it to a
    /// request of the same subject.
    pub(crate) fn retries(&self) -> impl Iterator<Item = (&Retry, &InputRequired<'a>)> {
        let inputs = &self.inputs;
        inputs.retries.iter().filter_map(|retry| Some((retry, inputs.needed.get(retry.needed?)?)))
    }

    /// Requests that bring input, whether a response asked for it or not.
    pub(crate) fn bringing(&self) -> impl Iterator<Item = &Retry> {
        self.inputs.retries.iter()
    }

    /// The response that asked for the input of a request.
    pub(crate) fn needed_for(&self, retry: &Retry) -> Option<&InputRequired<'a>> {
        self.inputs.needed.get(retry.needed?)
    }

    /// A finding about a line of the client.
    pub(crate) fn finding(&self, problem: impl Into<String>, line: &Line) -> Finding {
        Finding::new(problem, None, Some(line.bytes()))
    }

    /// The revision of the run.
    pub(crate) fn version(&self) -> &Version {
        &self.run.version
    }
}

/// Responses that ask for input, and requests that bring it.
#[derive(Default)]
struct Inputs<'a> {
    needed: Vec<InputRequired<'a>>,
    retries: Vec<Retry>,
}

impl<'a> Inputs<'a> {
    /// Reads all requests once, in the order of their places: there may be many.
    fn of(request: &[ClientRequest<'a>]) -> Self {
        let needed: Vec<InputRequired<'a>> = request.iter().filter_map(InputRequired::of).collect();
        let mut owners: HashMap<&str, HashSet<&Subject>> = HashMap::new();
        for needed in &needed {
            if let Some(state) = &needed.state {
                owners.entry(state.as_str()).or_default().insert(&needed.subject);
            }
        }
        let mut coming: Vec<(usize, &InputRequired<'a>)> = needed.iter().enumerate().collect();
        coming.sort_by_key(|(_, needed)| needed.place);
        let mut coming = coming.into_iter().peekable();
        let mut latest: HashMap<&Subject, usize> = HashMap::new();
        let mut retries = Vec::new();
        for (place, request) in request.iter().enumerate() {
            while let Some((place, needed)) = coming.next_if(|(_, needed)| needed.place < request.place) {
                let latest = latest.entry(&needed.subject).or_insert(place);
                *latest = place.max(*latest);
            }
            if let Some(mut retry) = Retry::of(place, request) {
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
    pub(crate) request: usize,
    pub(crate) subject: Subject,
    pub(crate) given: Option<Members<Raw>>,
    pub(crate) state: Option<Raw>,
    /// Whether a response had this state.
    pub(crate) is_known: bool,
    /// Whether the state belongs to requests of another subject.
    pub(crate) is_of_another: bool,
    /// The index of the response that asked for this input.
    needed: Option<usize>,
}

/// A response of ours that asks for input.
pub(crate) struct InputRequired<'a> {
    pub(crate) place: usize,
    pub(crate) line: &'a Line,
    pub(crate) id: &'a RequestId,
    pub(crate) subject: Subject,
    pub(crate) requests: Option<Members<Raw>>,
    pub(crate) state: Option<Raw>,
}

/// The subject of a request: its method, and its tool, prompt or resource.
pub(crate) type Subject = (Method, Option<String>);

impl Retry {
    fn of(place: usize, request: &ClientRequest<'_>) -> Option<Self> {
        let params = members(request.what.params.as_ref()?.raw())?;
        let (given, state) = (params.get("inputResponses"), params.get("requestState").map(plain));
        if given.is_none() && state.is_none() {
            return None;
        }
        let given = given.and_then(members);
        let (is_known, is_of_another, needed) = (false, false, None);
        Some(Self {
            request: place,
            subject: subject(request),
            given,
            state,
            is_known,
            is_of_another,
            needed,
        })
    }
}

impl<'a> InputRequired<'a> {
    fn of(request: &ClientRequest<'a>) -> Option<Self> {
        let response = request.response?;
        let result = response.outcome.as_ref().ok()?;
        if result.result_type()?.as_str() != "\"input_required\"" {
            return None;
        }
        let requests = member(result.raw(), "inputRequests").and_then(|request| members(&request));
        let state = member(result.raw(), "requestState").as_ref().map(plain);
        let (place, line, id) = (response.place, response.line, &request.what.id);
        Some(Self { place, line, id, subject: subject(request), requests, state })
    }
}

fn subject(request: &ClientRequest<'_>) -> Subject {
    let params = request.what.params.as_ref();
    let named = params.and_then(Payload::name_string).map(|name| name.into_owned());
    let uri = || params?.uri()?.to_string_value().map(|uri| uri.into_owned());
    (request.what.method.clone(), named.or_else(uri))
}

impl ClientRequest<'_> {
    pub(crate) fn meta(&self) -> Option<Raw> {
        self.what.params.as_ref().and_then(Payload::meta)
    }

    /// A finding about it.
    pub(crate) fn finding(&self, problem: impl Into<String>) -> Finding {
        Finding::new(problem, None, Some(self.line.bytes()))
    }
}

impl OurRequest<'_> {
    /// A finding about its response.
    pub(crate) fn finding(&self, problem: impl Into<String>, response: &Line) -> Finding {
        Finding::new(problem, Some(self.line.bytes()), Some(response.bytes()))
    }
}

impl<'a> ClientExchange<'a> {
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

    /// A finding about it.
    pub(crate) fn finding(&self, problem: impl Into<String>) -> Finding {
        let mut text =
            exchange::heading(&self.request.method, exchange::path(&self.request.url), &self.request.headers);
        exchange::append(&mut text, self.body.map(Line::bytes));
        Finding::new(problem, None, Some(&Bytes::from(text)))
    }
}
