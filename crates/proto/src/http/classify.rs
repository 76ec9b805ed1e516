//! The decider for HTTP: which era a request belongs to, or why it is refused; and, on the client's side, what
//! the reply to a probe says about the server.
//!
//! One of the two places that look at versions to choose an era; the other one is `session/client_negotiation.rs`. Called by
//! the HTTP links once for each request, before anything else looks at it. It keeps nothing: what is known about
//! a session comes in as an argument.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use super::headers::{self, HeaderMismatch, HeaderProblem, Headers, NamedBy, name};
use crate::decode::Decoded;
use crate::{
    DecodeError, Era, ErrorObject, Kind, Message, Method, Payload, Profile, Raw, Request, RequestId, Version,
    code,
};

/// The member of `_meta` that carries the revision.
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The member of `_meta` that carries the client's capabilities.
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The method of an HTTP request, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    /// Carries a message.
    Post,
    /// Opens a legacy stream.
    Get,
    /// Ends a legacy session.
    Delete,
    /// Anything else; MCP has no use for it.
    Other,
}

impl HttpMethod {
    /// The method of that name; names are case-sensitive (RFC 9110, 9.1).
    #[must_use]
    pub fn parse(name: &str) -> Self {
        match name {
            "POST" => Self::Post,
            "GET" => Self::Get,
            "DELETE" => Self::Delete,
            _ => Self::Other,
        }
    }
}

/// What the server's side offers.
#[derive(Clone, Debug)]
pub struct Offer<'a> {
    /// The revisions it speaks, the preferred one first. An era without a revision is not offered.
    pub versions: &'a [Version],
    /// Legacy requests after `initialize` must name a session.
    pub sessions: bool,
}

impl Offer<'_> {
    fn has(&self, era: Era) -> bool {
        self.versions.iter().any(|version| version.era() == Some(era))
    }

    fn speaks(&self, version: &Version) -> bool {
        self.versions.contains(version)
    }
}

/// What the caller found under the request's `Mcp-Session-Id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionLookup {
    /// The request names no session.
    Absent,
    /// It names one that does not exist, no longer, or not for this user.
    Unknown,
    /// It names one that has agreed on this revision.
    Known(Version),
}

/// Which way a request goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Class {
    /// It stands for itself; headers and `_meta` have been checked.
    Modern {
        /// Its revision.
        version: Version,
    },
    /// It belongs to a legacy session, or opens one.
    Legacy {
        /// What it is.
        kind: LegacyKind,
        /// The revision by which it is read: that of the session, of the header, or what an absent header means.
        version: Version,
    },
    /// It is refused.
    Reject(Rejection),
}

/// What a legacy request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegacyKind {
    /// POST with `initialize`: opens a session.
    Initialize,
    /// POST with anything else.
    Message,
    /// GET: opens a stream.
    Stream,
    /// DELETE: ends the session.
    End,
}

/// How a request is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// The status of the HTTP response.
    pub status: u16,
    /// The request in the body, where there is one: the error goes out with its id.
    pub id: Option<RequestId>,
    /// The error in the body of the response; `None` sends no body.
    pub error: Option<ErrorObject>,
}

impl Rejection {
    const fn bare(status: u16) -> Class {
        Class::Reject(Self { status, id: None, error: None })
    }

    const fn with(status: u16, id: Option<RequestId>, error: ErrorObject) -> Class {
        Class::Reject(Self { status, id, error: Some(error) })
    }
}

/// Decides which way a request goes. `body` is `None` when the request has none.
///
/// The order: GET and DELETE are legacy or 405. `_meta` with a revision is modern, whatever else is there. Then a
/// known session, `initialize` and a legacy or absent `MCP-Protocol-Version` are legacy, and a modern one is modern.
/// At a server that offers no legacy revision everything is modern, or lacks what makes it so.
pub fn classify(
    method: HttpMethod,
    headers: &(impl Headers + ?Sized),
    body: Option<Result<&Decoded, &DecodeError>>,
    session: &SessionLookup,
    offer: &Offer<'_>,
) -> Class {
    let kind = match method {
        HttpMethod::Post => LegacyKind::Message,
        HttpMethod::Get => LegacyKind::Stream,
        HttpMethod::Delete => LegacyKind::End,
        HttpMethod::Other => return Rejection::bare(405),
    };
    if kind != LegacyKind::Message {
        return if offer.has(Era::Legacy) {
            legacy(kind, headers, None, session, offer)
        } else {
            Rejection::bare(405)
        };
    }
    let decoded = match body {
        Some(Ok(decoded)) => decoded,
        Some(Err(error)) => return Rejection::with(400, error.id.clone(), error.to_error_object()),
        None => {
            let error = ErrorObject::new(code::PARSE_ERROR, "the body is empty");
            return Rejection::with(400, None, error);
        }
    };
    let message = match decoded {
        Decoded::Message(message) => Some(message),
        Decoded::Batch(_) => None,
    };
    let meta = message.and_then(params).and_then(Payload::meta);
    let declared = meta.as_ref().map(Declared::read).unwrap_or_default();
    if let (Some(message), Some(_)) = (message, &declared.version) {
        return modern(headers, message, &declared, offer);
    }
    let opens = matches!(message, Some(Message::Request(Request { method: Method::Initialize, .. })));
    if opens || matches!(session, SessionLookup::Known(_)) {
        if offer.has(Era::Legacy) {
            let kind = if opens { LegacyKind::Initialize } else { kind };
            return legacy(kind, headers, Some(decoded), session, offer);
        }
        if opens {
            return refuse_initialize(message, offer);
        }
    }
    match headers::protocol_version(headers) {
        Err(mismatch) => Rejection::with(400, id(message), mismatch.to_error_object()),
        Ok(Some(version)) if !offer.speaks(&Version::parse(version)) => {
            Rejection::with(400, id(message), unsupported(version, offer))
        }
        Ok(version)
            if offer.has(Era::Legacy)
                && version.is_none_or(|version| Version::parse(version).era() == Some(Era::Legacy)) =>
        {
            legacy(kind, headers, Some(decoded), session, offer)
        }
        Ok(_) => match message {
            Some(message) => modern(headers, message, &declared, offer),
            None => Rejection::with(400, None, ErrorObject::invalid_request("a batch is not allowed here")),
        },
    }
}

/// What `_meta` says of what every request of 2026-07-28 must say.
#[derive(Default)]
struct Declared {
    version: Option<String>,
    /// The capabilities are there, and are an object.
    capabilities: bool,
}

impl Declared {
    /// Reads it in one go: every request has one.
    fn read(meta: &Raw) -> Self {
        let mut declared = Self::default();
        if meta.kind() != Kind::Object {
            return declared;
        }
        for (name, range) in crate::scan::members(meta) {
            match &*name {
                META_VERSION => {
                    declared.version = meta.slice(range).to_string_value().map(Cow::into_owned);
                }
                META_CAPABILITIES => declared.capabilities = meta.as_bytes()[range].first() == Some(&b'{'),
                _ => {}
            }
        }
        declared
    }
}

/// The rules of 2026-07-28.
fn modern(
    headers: &(impl Headers + ?Sized),
    message: &Message,
    declared: &Declared,
    offer: &Offer<'_>,
) -> Class {
    let Declared { version: declared, capabilities } = declared;
    let declared = declared.as_deref();
    let id = id(Some(message));
    let reject = |error: ErrorObject| Rejection::with(400, id.clone(), error);
    let request = match message {
        Message::Request(request) => request,
        Message::Notification(notification) => {
            return modern_notification(headers, &notification.method, declared, offer);
        }
        Message::Response(_) => {
            return reject(ErrorObject::invalid_request("a client sends no responses in this revision"));
        }
    };
    let Some(declared) = declared else {
        let text = alloc::format!("missing _meta member {META_VERSION}, a string");
        return reject(ErrorObject::invalid_params(text));
    };
    let named = headers::named_by(&request.method).and_then(|named| name_in(request, named));
    if let Err(mismatch) =
        headers::check_request_headers(headers, declared, &request.method, named.as_deref())
    {
        return reject(mismatch.to_error_object());
    }
    let version = Version::parse(declared);
    if version.era() != Some(Era::Modern) || !offer.speaks(&version) {
        return reject(unsupported(declared, offer));
    }
    if !capabilities {
        let text = alloc::format!("missing _meta member {META_CAPABILITIES}, an object");
        return reject(ErrorObject::invalid_params(text));
    }
    // This revision has no such method, and what follows it must not take it for the opening of a legacy session.
    if request.method == Method::Initialize {
        return Rejection::with(404, id, ErrorObject::method_not_found(request.method.as_str()));
    }
    Class::Modern { version }
}

/// Which headers a notification carries is not defined in 2026-07-28: what is there must agree.
fn modern_notification(
    headers: &(impl Headers + ?Sized),
    method: &Method,
    declared: Option<&str>,
    offer: &Offer<'_>,
) -> Class {
    let found = headers::protocol_version(headers);
    let checked = match (&found, declared) {
        (Err(mismatch), _) => Err(mismatch.clone()),
        (Ok(Some(_)), Some(declared)) => headers::check_protocol_version(headers, declared),
        (Ok(None), None) => Err(HeaderMismatch::new("MCP-Protocol-Version", HeaderProblem::Absent)),
        _ => Ok(()),
    };
    let checked = checked.and_then(|()| match headers.value(name::METHOD) {
        Some(_) => headers::check_method(headers, method),
        None => Ok(()),
    });
    if let Err(mismatch) = checked {
        return Rejection::with(400, None, mismatch.to_error_object());
    }
    let named = declared.or_else(|| found.ok().flatten()).unwrap_or_default();
    let version = Version::parse(named);
    if version.era() == Some(Era::Modern) && offer.speaks(&version) {
        Class::Modern { version }
    } else {
        Rejection::with(400, None, unsupported(named, offer))
    }
}

/// The rules of 2025-03-26 to 2025-11-25.
fn legacy(
    kind: LegacyKind,
    headers: &(impl Headers + ?Sized),
    body: Option<&Decoded>,
    session: &SessionLookup,
    offer: &Offer<'_>,
) -> Class {
    let message = match body {
        Some(Decoded::Message(message)) => Some(message),
        _ => None,
    };
    let id = id(message);
    let reject = |status, error| Rejection::with(status, id.clone(), error);
    let header = match headers::protocol_version(headers) {
        Ok(header) => header,
        Err(mismatch) => return reject(400, ErrorObject::invalid_request(mismatch.to_string())),
    };
    // `initialize` negotiates in its body; a header that a client sets on every request does not bind it.
    if kind == LegacyKind::Initialize {
        return Class::Legacy { kind, version: Version::newest(Era::Legacy) };
    }
    let asked = header.map(Version::parse);
    if let (Some(asked), Some(header)) = (&asked, header)
        && (asked.era() != Some(Era::Legacy) || !offer.speaks(asked))
    {
        return reject(400, unsupported(header, offer));
    }
    let version = match session {
        SessionLookup::Known(version) => version.clone(),
        SessionLookup::Unknown => {
            return reject(404, ErrorObject::invalid_request("no such session; initialize again"));
        }
        SessionLookup::Absent if offer.sessions || kind == LegacyKind::End => {
            let text = "Mcp-Session-Id is missing; initialize first";
            return reject(400, ErrorObject::invalid_request(text));
        }
        // The first revision with this transport had no such header.
        SessionLookup::Absent => asked.unwrap_or(Version::V2025_03_26),
    };
    if let Some(Decoded::Batch(parts)) = body {
        let batching = Profile::of(&version).is_some_and(|profile| profile.batching);
        let opens = parts
            .iter()
            .any(|part| matches!(part, Ok(Message::Request(Request { method: Method::Initialize, .. }))));
        if !batching || opens {
            let text =
                if batching { "initialize is not allowed in a batch" } else { "a batch is not allowed here" };
            return reject(400, ErrorObject::invalid_request(text));
        }
    }
    Class::Legacy { kind, version }
}

/// `initialize` at a server that offers no legacy revision: the error names what it offers.
fn refuse_initialize(message: Option<&Message>, offer: &Offer<'_>) -> Class {
    let asked = message
        .and_then(params)
        .and_then(|params| string_member(params.raw(), "protocolVersion"))
        .unwrap_or_default();
    Rejection::with(400, id(message), unsupported(&asked, offer))
}

/// The error for a revision that is not offered: [`code::UNSUPPORTED_PROTOCOL_VERSION`].
#[must_use]
pub fn unsupported(requested: &str, offer: &Offer<'_>) -> ErrorObject {
    let mut data = String::from("{\"supported\":[");
    for (place, version) in offer.versions.iter().enumerate() {
        if place > 0 {
            data.push(',');
        }
        data.push_str(Raw::string(version.as_str()).as_str());
    }
    data.push_str("],\"requested\":");
    data.push_str(Raw::string(requested).as_str());
    data.push('}');
    ErrorObject::new(code::UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version")
        .with_data(Raw::trusted(Bytes::from(data)))
}

/// The status of a response that carries an error, for a server of 2026-07-28. Errors to which the specification
/// gives no status leave with 200, since 400 and 404 tell a client something else. Missing members of `_meta`,
/// whose [`code::INVALID_PARAMS`] is a 400, never come so far: [`classify`] refuses them.
#[must_use]
pub const fn status(error_code: i64) -> u16 {
    match error_code {
        code::PARSE_ERROR
        | code::INVALID_REQUEST
        | code::HEADER_MISMATCH
        | code::MISSING_REQUIRED_CLIENT_CAPABILITY
        | code::UNSUPPORTED_PROTOCOL_VERSION => 400,
        code::METHOD_NOT_FOUND => 404,
        _ => 200,
    }
}

fn params(message: &Message) -> Option<&Payload> {
    match message {
        Message::Request(request) => request.params.as_ref(),
        Message::Notification(notification) => notification.params.as_ref(),
        Message::Response(_) => None,
    }
}

fn id(message: Option<&Message>) -> Option<RequestId> {
    match message {
        Some(Message::Request(request)) => Some(request.id.clone()),
        _ => None,
    }
}

/// The value that `Mcp-Name` repeats.
fn name_in(request: &Request, named: NamedBy) -> Option<Cow<'_, str>> {
    let params = request.params.as_ref()?;
    match named.member {
        // Where these lie is known.
        "name" => params.name_string(),
        "uri" => params.uri()?.to_string_value().map(Cow::into_owned).map(Cow::Owned),
        other => string_member(params.raw(), other).map(Cow::Owned),
    }
}

fn string_member(object: &Raw, member: &str) -> Option<String> {
    let value = object.member(member)?;
    value.to_string_value().map(Cow::into_owned)
}

/// What the client has sent to find out what the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// POST with `server/discover`.
    Discover,
    /// POST with `initialize`, after [`ProbeVerdict::Legacy`].
    Initialize,
}

/// What the body of the reply was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProbeBody<'a> {
    /// A response with a result. Whether it has the shape that it should have is for the caller to see.
    Result,
    /// A response with an error.
    Error(&'a ErrorObject),
    /// No response at all: nothing, a page, another message.
    Other,
}

/// What the reply to a probe says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProbeVerdict {
    /// The server is modern. `supported` is what it offers, when it has refused our revision: choose one of
    /// these and ask again, with `initialize` if only a legacy one is mutual. Empty: nothing is to be chosen.
    Modern {
        /// The revisions in the error.
        supported: Vec<Version>,
    },
    /// The server is modern and has refused the probe for another reason ([`code::HEADER_MISMATCH`],
    /// [`code::MISSING_REQUIRED_CLIENT_CAPABILITY`]): no fallback, the error is the answer.
    ModernRefusal,
    /// The server is legacy: after `server/discover`, send `initialize`; after `initialize`, it has accepted.
    Legacy,
    /// The server knows no POST here: try GET, as in 2024-11-05.
    TryHttpSse,
    /// Authorize and probe again; says nothing about the era.
    Authenticate,
    /// The server or something before it cannot answer now; says nothing about the era.
    Unavailable,
    /// Neither an MCP server nor a way on.
    Failed,
}

/// Reads the reply to a probe. A modern error decides whatever the status is; apart from that the fallback does
/// not hinge on one code.
///
/// After `server/discover`, which every modern server answers, any other error is that of a legacy server. After
/// `initialize`, only 400, 404 and 405 lead on to HTTP+SSE.
#[must_use]
pub fn verdict(probe: Probe, status: u16, body: ProbeBody<'_>) -> ProbeVerdict {
    if let (401 | 403, ProbeBody::Result | ProbeBody::Other) = (status, body) {
        return ProbeVerdict::Authenticate;
    }
    if let ProbeBody::Error(error) = body {
        match error.code {
            code::UNSUPPORTED_PROTOCOL_VERSION => {
                return ProbeVerdict::Modern { supported: supported(error) };
            }
            code::HEADER_MISMATCH | code::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                return ProbeVerdict::ModernRefusal;
            }
            _ => {}
        }
    }
    match (probe, status, body) {
        (_, 401 | 403, _) => ProbeVerdict::Authenticate,
        (Probe::Discover, 200..=299, ProbeBody::Result) => ProbeVerdict::Modern { supported: Vec::new() },
        (Probe::Initialize, 200..=299, ProbeBody::Result) => ProbeVerdict::Legacy,
        (_, 408 | 429 | 502..=504, _) => ProbeVerdict::Unavailable,
        // A redirect that was not followed leads somewhere else.
        (_, 300..=399, _) => ProbeVerdict::Failed,
        (Probe::Discover, _, _) => ProbeVerdict::Legacy,
        (Probe::Initialize, 400 | 404 | 405, _) => ProbeVerdict::TryHttpSse,
        (Probe::Initialize, _, _) => ProbeVerdict::Failed,
    }
}

/// The revisions in `data.supported`.
fn supported(error: &ErrorObject) -> Vec<Version> {
    error
        .data
        .as_ref()
        .filter(|data| data.kind() == Kind::Object)
        .and_then(|data| data.member("supported"))
        .filter(|supported| supported.kind() == Kind::Array)
        .map(|supported| {
            crate::scan::elements(supported.as_str())
                .filter_map(|range| {
                    supported.slice(range).to_string_value().map(|name| Version::parse(&name))
                })
                .collect()
        })
        .unwrap_or_default()
}
