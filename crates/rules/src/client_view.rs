//! One run, indexed for the rules about clients: the client's requests with our responses, our requests with its
//! responses, its notifications, and the HTTP exchanges that carried them.
//!
//! The counterpart of [`ServerView`](crate::server_view::ServerView). In the [`Run`] we are the server:
//! [`What::Received`] is a message of the client, [`What::Sent`] one of ours.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::time::Duration;

use mcpjoin_proto::types::Members;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{
    DecodeError, ErrorObject, Kind, Message, Method, Notification, Payload, Raw, Request, RequestId, Version,
};

use crate::exchange::{Exchange, Exchanges, HttpRequest, path, record};
use crate::json::{member, members, object, plain, request_id, text, text_param};
use crate::rule::{Evidence, Finding};
use crate::server_view::Received;
use crate::trace::{Event, Line, Probe, Run, Trace, What};

/// The index of a run with a client.
pub(crate) struct ClientView<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) run: &'a Run,
    /// Requests of the client.
    pub(crate) requests: Vec<ClientRequest<'a>>,
    /// Notifications of the client.
    pub(crate) notifications: Vec<Received<'a, Notification>>,
    /// Our requests.
    pub(crate) our_requests: Vec<OurRequest<'a>>,
    /// Responses of the client to none of our requests, or to one that has its response.
    pub(crate) stray_responses: Vec<RecordedResponse<'a>>,
    /// Lines of the client that are no message.
    pub(crate) invalid: Vec<Received<'a, DecodeError>>,
    /// All lines of the client, with their places among the events.
    pub(crate) lines: Vec<(usize, &'a Line)>,
    pub(crate) exchanges: Exchanges<'a>,
    /// Whether the client closed its end of the pipe, or its process ended.
    pub(crate) has_left: bool,
    /// The time at which the client left, or of the last event.
    pub(crate) left_at: Duration,
    /// The time of the last event before the client left.
    pub(crate) last_present: Duration,
    /// The last request with each id: the client's, and ours.
    request_ids: BTreeMap<&'a RequestId, usize>,
    our_request_ids: BTreeMap<&'a RequestId, usize>,
    inputs: Inputs<'a>,
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

/// A request of ours with the response of the client.
#[derive(Clone, Copy)]
pub(crate) struct Answer<'t, 'a> {
    pub(crate) request: &'t OurRequest<'a>,
    pub(crate) response: RecordedResponse<'a>,
}

impl<'a> ClientView<'a> {
    pub(crate) fn of(trace: &'a Trace, run: &'a Run) -> Self {
        let mut view = Self {
            trace,
            run,
            requests: Vec::new(),
            notifications: Vec::new(),
            our_requests: Vec::new(),
            stray_responses: Vec::new(),
            invalid: Vec::new(),
            lines: Vec::new(),
            exchanges: Exchanges::new(),
            has_left: false,
            last_present: Duration::ZERO,
            left_at: Duration::ZERO,
            request_ids: BTreeMap::new(),
            our_request_ids: BTreeMap::new(),
            inputs: Inputs::default(),
        };
        let elsewhere = elsewhere(run);
        for (place, event) in run.events.iter().enumerate() {
            if event.exchange.is_some_and(|number| elsewhere.contains(&number)) {
                continue;
            }
            if !view.has_left {
                view.left_at = event.at;
            }
            view.has_left |= matches!(event.what, What::InputClosed | What::Ended(_));
            if !view.has_left {
                view.last_present = event.at;
            }
            record(&mut view.exchanges, place, event, false);
            match &event.what {
                What::Received(line) => {
                    view.lines.push((place, line));
                    for part in line.parts() {
                        view.add_received(place, event, line, part);
                    }
                }
                What::Sent(probe, line) => {
                    for message in line.messages() {
                        view.add_sent(place, event.at, *probe, line, message);
                    }
                }
                _ => {}
            }
        }
        view.inputs = Inputs::of(&view.requests);
        view
    }

    fn add_received(
        &mut self,
        place: usize,
        event: &Event,
        line: &'a Line,
        part: Result<&'a Message, &'a DecodeError>,
    ) {
        let (at, exchange) = (event.at, event.exchange);
        match part {
            Ok(Message::Request(what)) => {
                self.request_ids.insert(&what.id, self.requests.len());
                self.requests.push(ClientRequest { place, at, line, what, response: None });
            }
            Ok(Message::Notification(what)) => {
                self.notifications.push(Received { place, at, exchange, line, what });
            }
            Ok(Message::Response(response)) => {
                let (id, outcome) = (response.id.as_ref(), &response.outcome);
                let response = RecordedResponse { place, at, probe: None, line, id, outcome };
                let owner = id.and_then(|id| self.our_request_ids.get(id));
                match owner.and_then(|place| self.our_requests.get_mut(*place)) {
                    Some(request) if request.response.is_none() => request.response = Some(response),
                    _ => self.stray_responses.push(response),
                }
            }
            Err(what) => self.invalid.push(Received { place, at, exchange, line, what }),
        }
    }

    fn add_sent(&mut self, place: usize, at: Duration, probe: Probe, line: &'a Line, message: &'a Message) {
        match message {
            Message::Request(what) => {
                self.our_request_ids.insert(&what.id, self.our_requests.len());
                let (response, cancelled) = (None, None);
                self.our_requests.push(OurRequest { place, at, probe, line, what, response, cancelled });
            }
            Message::Response(response) => {
                let (id, outcome) = (response.id.as_ref(), &response.outcome);
                let owner = id.and_then(|id| self.request_ids.get(id));
                let owner = owner.and_then(|place| self.requests.get_mut(*place));
                if let Some(request) = owner.filter(|request| request.response.is_none()) {
                    request.response =
                        Some(RecordedResponse { place, at, probe: Some(probe), line, id, outcome });
                }
            }
            Message::Notification(what) if what.method == Method::Cancelled => {
                let request = request_id(&what.params).and_then(|id| self.our_request_ids.get(&id));
                if let Some(request) = request.and_then(|place| self.our_requests.get_mut(*place)) {
                    request.cancelled.get_or_insert(at);
                }
            }
            Message::Notification(_) => {}
        }
    }

    /// Whether a request of ours had the id of a response.
    pub(crate) fn has_asked(&self, response: &RecordedResponse<'_>) -> bool {
        response.id.is_some_and(|id| self.our_request_ids.contains_key(id))
    }

    /// The revision of the run.
    pub(crate) const fn version(&self) -> &Version {
        &self.run.version
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.run.is_modern()
    }

    /// Its requests with that method.
    pub(crate) fn calls(&self, method: &Method) -> impl Iterator<Item = &ClientRequest<'a>> {
        self.requests.iter().filter(move |request| request.what.method == *method)
    }

    /// Its notifications with that method.
    pub(crate) fn notified(&self, method: &Method) -> impl Iterator<Item = &Received<'a, Notification>> {
        self.notifications.iter().filter(move |notification| notification.what.method == *method)
    }

    /// Its cancellations, each with the id that it names.
    pub(crate) fn cancelled(&self) -> impl Iterator<Item = (&Received<'a, Notification>, Option<RequestId>)> {
        self.notified(&Method::Cancelled)
            .map(|notification| (notification, request_id(&notification.what.params)))
    }

    /// The ids that its cancellations name, each with the place of the last of them.
    pub(crate) fn cancelled_ids(&self) -> BTreeMap<RequestId, usize> {
        self.cancelled().filter_map(|(notification, id)| Some((id?, notification.place))).collect()
    }

    /// The requests and notifications that it sent: the method and the line of each.
    pub(crate) fn methods(&self) -> impl Iterator<Item = (&'a Method, &'a Line)> {
        let requests = self.requests.iter().map(|request| (&request.what.method, request.line));
        requests.chain(self.notifications.iter().map(|it| (&it.what.method, it.line)))
    }

    /// Our requests that it answered.
    pub(crate) fn answers(&self) -> impl Iterator<Item = Answer<'_, 'a>> {
        self.our_requests.iter().filter_map(OurRequest::answer)
    }

    /// Our requests with that method that it answered.
    pub(crate) fn answers_to(&self, method: &Method) -> impl Iterator<Item = Answer<'_, 'a>> {
        self.answers().filter(move |answer| answer.request.what.method == *method)
    }

    /// Our requests with that probe that it answered.
    pub(crate) fn answers_of(&self, probe: Probe) -> impl Iterator<Item = Answer<'_, 'a>> {
        self.answers().filter(move |answer| answer.request.probe == probe)
    }

    /// The POST requests of the client.
    pub(crate) fn posts(&self) -> impl Iterator<Item = &Exchange<'a>> {
        self.exchanges.values().filter(|post| post.is("POST"))
    }

    /// The client's request in an exchange.
    pub(crate) fn request_in(&self, post: &Exchange<'a>) -> Option<&ClientRequest<'a>> {
        let message = post.message?;
        let place = self.requests.partition_point(|request| request.place < post.place);
        self.requests.get(place..)?.iter().find(|request| std::ptr::eq(message, request.line))
    }

    /// The runs after this one.
    pub(crate) fn later_runs(&self) -> impl Iterator<Item = &'a Run> {
        let (trace, run) = (self.trace, self.run);
        trace.runs.iter().skip_while(move |other| !std::ptr::eq(*other, run)).skip(1)
    }

    /// Whether the client has been present for that long since.
    pub(crate) fn has_waited(&self, since: Duration, time: Duration) -> bool {
        self.last_present.saturating_sub(since) >= time
    }

    /// The request that opened the session, with the result that it got.
    pub(crate) fn opening(&self) -> Option<(&ClientRequest<'a>, RecordedResponse<'a>, &'a Raw)> {
        self.calls(&Method::Initialize).find_map(|request| {
            let response = request.response?;
            Some((request, response, response.result()?))
        })
    }

    /// Whether the response to `initialize` named a version that no client knows.
    pub(crate) fn is_unusable(&self) -> bool {
        self.opening().is_some_and(|(_, response, _)| response.probe == Some(Probe::UnknownVersion))
    }

    /// The capabilities of the client: of the whole session, or of one modern request.
    pub(crate) fn capabilities(&self, request: Option<&ClientRequest<'_>>) -> Option<Raw> {
        if self.is_modern() {
            return request?.meta_member(key::CLIENT_CAPABILITIES);
        }
        self.calls(&Method::Initialize).next()?.param("capabilities")
    }

    /// Whether the client declared a capability, or a part of one: `roots.listChanged`.
    pub(crate) fn declares(&self, request: Option<&ClientRequest<'_>>, path: &str) -> bool {
        self.capabilities(request).as_ref().and_then(members).is_some_and(|declared| has(&declared, path))
    }

    /// The capabilities that we declared.
    pub(crate) fn offered(&self) -> Option<Members<Raw>> {
        object(self.opening()?.2, "capabilities")
    }

    /// Every response of the client to our requests of that method, in both eras: the parameters of the request, the result,
    /// the line of the request and the line of the response.
    pub(crate) fn replies(&self, method: &Method) -> Vec<(Option<Raw>, Raw, &'a Line, &'a Line)> {
        let legacy = self.answers_to(method).filter_map(|Answer { request, response }| {
            let params = request.what.params.as_ref().map(|params| params.raw().clone());
            Some((params, response.result()?.clone(), request.line, response.line))
        });
        let mut replies: Vec<_> = legacy.collect();
        for (retry, needed) in self.retries() {
            for (key, question) in needed.requests_by(method) {
                if let Some(reply) = retry.given.as_ref().and_then(|given| given.get(key)) {
                    let line = self.requests[retry.request].line;
                    replies.push((member(question, "params"), reply.clone(), needed.line, line));
                }
            }
        }
        replies
    }

    /// Requests of the modern era that bring input, each with the response that asked for it: the last one before it to a
    /// request of the same subject.
    pub(crate) fn retries(&self) -> impl Iterator<Item = (&Retry, &InputRequired<'a>)> {
        self.inputs.retries.iter().filter_map(|retry| Some((retry, self.needed_for(retry)?)))
    }

    /// Requests that bring input, whether a response asked for it or not.
    pub(crate) fn bringing(&self) -> impl Iterator<Item = &Retry> {
        self.inputs.retries.iter()
    }

    /// The response that asked for the input of a request.
    pub(crate) fn needed_for(&self, retry: &Retry) -> Option<&InputRequired<'a>> {
        self.inputs.needed.get(retry.needed?)
    }

    /// The request that brings the input.
    pub(crate) fn retry(&self, retry: &Retry) -> &ClientRequest<'a> {
        &self.requests[retry.request]
    }
}

/// The exchanges of Streamable HTTP with other addresses than the endpoint, to which a client posts its messages. It may look
/// there for documents of authorization.
fn elsewhere(run: &Run) -> HashSet<u32> {
    let (mut requests, mut endpoints) = (HashMap::new(), HashSet::new());
    for event in run.events.iter().filter(|_| run.is_http()) {
        let Some(number) = event.exchange else { continue };
        match &event.what {
            What::Requested(_, request) => {
                requests.insert(number, request);
            }
            What::Received(line) if line.messages().next().is_some() => {
                endpoints.extend(requests.get(&number).map(|request| path(&request.url)));
            }
            _ => {}
        }
    }
    // A client that has sent no message may have posted something else to the endpoint.
    let may_be = |request: &HttpRequest| match endpoints.is_empty() {
        true => &*request.method == "POST",
        false => endpoints.contains(path(&request.url)),
    };
    requests.iter().filter(|(_, request)| !may_be(request)).map(|(number, _)| *number).collect()
}

/// Whether a capability was declared: any value but null, and below it any but false.
pub(crate) fn has(capabilities: &Members<Raw>, path: &str) -> bool {
    let (first, second) = path.split_once('.').map_or((path, None), |(first, second)| (first, Some(second)));
    let Some(found) = capabilities.get(first) else { return false };
    let Some(second) = second else { return found.kind() != Kind::Null };
    member(found, second).is_some_and(|found| !matches!(found.as_str(), "false" | "null"))
}

/// Responses that ask for input, and requests that bring it.
#[derive(Default)]
struct Inputs<'a> {
    needed: Vec<InputRequired<'a>>,
    retries: Vec<Retry>,
}

impl<'a> Inputs<'a> {
    /// Reads the requests once, in the order of their places, because there may be many.
    fn of(requests: &[ClientRequest<'a>]) -> Self {
        let needed: Vec<InputRequired<'a>> = requests.iter().filter_map(InputRequired::of).collect();
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
        for (place, request) in requests.iter().enumerate() {
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
    /// The index of the client's request.
    request: usize,
    subject: Subject,
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
    place: usize,
    line: &'a Line,
    pub(crate) id: &'a RequestId,
    subject: Subject,
    pub(crate) requests: Option<Members<Raw>>,
    pub(crate) state: Option<Raw>,
}

/// The subject of a request: its method, and its tool, prompt or resource.
type Subject = (Method, Option<String>);

impl Retry {
    fn of(place: usize, request: &ClientRequest<'_>) -> Option<Self> {
        let (given, state) = (request.param("inputResponses"), request.param("requestState"));
        if given.is_none() && state.is_none() {
            return None;
        }
        Some(Self {
            request: place,
            subject: subject(request),
            given: given.as_ref().and_then(members),
            state: state.as_ref().map(plain),
            is_known: false,
            is_of_another: false,
            needed: None,
        })
    }

    /// Whether it brings input under this key.
    pub(crate) fn brings(&self, key: &str) -> bool {
        self.given.as_ref().is_some_and(|given| given.contains_key(key))
    }
}

impl<'a> InputRequired<'a> {
    fn of(request: &ClientRequest<'a>) -> Option<Self> {
        let response = request.response?;
        let result = response.result()?;
        if text(result, "resultType")? != "input_required" {
            return None;
        }
        Some(Self {
            place: response.place,
            line: response.line,
            id: &request.what.id,
            subject: subject(request),
            requests: object(result, "inputRequests"),
            state: member(result, "requestState").as_ref().map(plain),
        })
    }

    /// The requests of that method in it, with their keys.
    pub(crate) fn requests_by(&self, method: &Method) -> impl Iterator<Item = (&str, &Raw)> {
        let requests = self.requests.iter().flat_map(|requests| requests.iter());
        requests.filter(move |(_, request)| text(request, "method").as_deref() == Some(method.as_str()))
    }
}

fn subject(request: &ClientRequest<'_>) -> Subject {
    let params = &request.what.params;
    (request.what.method.clone(), text_param(params, "name").or_else(|| text_param(params, "uri")))
}

impl ClientRequest<'_> {
    pub(crate) fn param(&self, name: &str) -> Option<Raw> {
        crate::json::param(&self.what.params, name)
    }

    pub(crate) fn text_param(&self, name: &str) -> Option<String> {
        text_param(&self.what.params, name)
    }

    pub(crate) fn meta(&self) -> Option<Raw> {
        self.what.params.as_ref().and_then(Payload::meta)
    }

    /// A member of its `_meta`.
    pub(crate) fn meta_member(&self, key: &str) -> Option<Raw> {
        member(&self.meta()?, key)
    }
}

impl<'a> RecordedResponse<'a> {
    pub(crate) fn result(&self) -> Option<&'a Raw> {
        self.outcome.as_ref().ok().map(Payload::raw)
    }

    pub(crate) fn error(&self) -> Option<&'a ErrorObject> {
        self.outcome.as_ref().err()
    }
}

impl<'a> OurRequest<'a> {
    pub(crate) fn answer(&self) -> Option<Answer<'_, 'a>> {
        Some(Answer { request: self, response: self.response? })
    }

    pub(crate) fn param(&self, name: &str) -> Option<Raw> {
        crate::json::param(&self.what.params, name)
    }
}

impl Answer<'_, '_> {
    /// A finding if the response is an error with another code. `None` for a result.
    pub(crate) fn error_other_than(&self, wanted: i64) -> Option<Option<Finding>> {
        let code = self.response.error()?.code;
        Some(self.finding_if(code != wanted, format_args!("the code is {code}, expected {wanted}")))
    }

    /// The error or the result, for a finding.
    pub(crate) fn outcome(&self) -> String {
        self.response.error().map_or_else(|| "a result".into(), |error| format!("the error {}", error.code))
    }
}

impl Evidence for ClientRequest<'_> {
    fn finding(&self, problem: impl Display) -> Finding {
        self.line.finding(problem)
    }
}

impl Evidence for Answer<'_, '_> {
    fn finding(&self, problem: impl Display) -> Finding {
        Finding::new(problem, Some(self.request.line.bytes()), Some(self.response.line.bytes()))
    }
}
