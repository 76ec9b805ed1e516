//! Decides for an HTTP request which era it belongs to, or why it is rejected; and on the client side, what the
//! response to a probe says about the server.
//!
//! One of the two modules that compare versions to select an era; the other one is `session/client_negotiation.rs`.
//! Called by the HTTP links once for each request, before anything else. It is stateless: the session is an argument.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use super::headers::{self, HeaderMismatch, HeaderProblem, Headers, NamedBy, name};
use crate::decode::Decoded;
use crate::json::string_value;
use crate::{
    DecodeError, Era, ErrorObject, Kind, Message, Method, Payload, Profile, Raw, Request, RequestId, Version,
    code,
};

/// The member of `_meta` with the revision.
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The member of `_meta` with the client's capabilities.
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The method of an HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    /// Carries a message.
    Post,
    /// Opens a legacy stream.
    Get,
    /// Ends a legacy session.
    Delete,
    /// Any other method, which MCP does not use.
    Other,
}

impl HttpMethod {
    /// Parses a method; the name is case-sensitive (RFC 9110, 9.1).
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

/// What the server offers.
#[derive(Clone, Debug)]
pub struct Offer<'a> {
    /// The supported revisions, the preferred one first. An era without a revision is not offered.
    pub versions: &'a [Version],
    /// Whether legacy requests after `initialize` must name a session.
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

/// The session of the request's `Mcp-Session-Id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionLookup {
    /// The request names no session.
    Absent,
    /// It names a session that does not exist, has ended, or belongs to another user.
    Unknown,
    /// It names a session that negotiated this revision.
    Known(Version),
}

/// The classification of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Class {
    /// A modern request, whose headers and `_meta` are valid.
    Modern {
        /// Its revision.
        version: Version,
    },
    /// A request of a legacy session, or one that opens a session.
    Legacy {
        /// The kind of request.
        kind: LegacyKind,
        /// The revision of the session or of the header, or the default for an absent header.
        version: Version,
    },
    /// The request is rejected.
    Reject(Rejection),
}

/// The kind of a legacy request.
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

/// How a request is rejected.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// The HTTP status.
    pub status: u16,
    /// The id of the request in the body, if there is one.
    pub id: Option<RequestId>,
    /// The error in the response body; `None`: no body.
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

/// Classifies a request. `body` is `None` when the request has none.
///
/// In this order: GET and DELETE are legacy or 405. `_meta` with a revision is modern, whatever the headers are. A
/// known session, `initialize` and a legacy or absent `MCP-Protocol-Version` are legacy, and a modern one is modern. On
/// a server without a legacy revision every request is modern or invalid.
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
    let meta = message.and_then(params).and_then(Payload::meta_text);
    let declared = meta.map(Declared::read).unwrap_or_default();
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

/// The required members in the `_meta` of a request of 2026-07-28.
#[derive(Default)]
struct Declared<'a> {
    version: Option<Cow<'a, str>>,
    /// The capabilities are present, and are an object.
    capabilities: bool,
}

impl<'a> Declared<'a> {
    /// Reads both in one pass.
    fn read(meta: &'a str) -> Self {
        let mut declared = Self::default();
        for (name, range) in crate::scan::members_of(meta) {
            match &*name {
                META_VERSION => declared.version = meta.get(range).and_then(string_value),
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
    declared: &Declared<'_>,
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
    // This revision does not have the method, and later code must not take it for the start of a legacy session.
    if request.method == Method::Initialize {
        return Rejection::with(404, id, ErrorObject::method_not_found(request.method.as_str()));
    }
    Class::Modern { version }
}

/// The headers of a notification are not defined in 2026-07-28: those that are present must match.
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
    // `initialize` negotiates in its body, so a header that the client sends on every request is ignored.
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
        // The first revision with this transport has no such header.
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

/// Rejects `initialize` on a server without a legacy revision. The error lists the supported versions.
fn refuse_initialize(message: Option<&Message>, offer: &Offer<'_>) -> Class {
    let asked = message
        .and_then(params)
        .and_then(|params| string_member(params.raw(), "protocolVersion"))
        .unwrap_or_default();
    Rejection::with(400, id(message), unsupported(&asked, offer))
}

/// The error for an unsupported revision: [`code::UNSUPPORTED_PROTOCOL_VERSION`].
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

/// The HTTP status of an error response, for a server of 2026-07-28. Errors without a status in the specification have
/// 200, because 400 and 404 have another meaning for a client. [`classify`] rejects a request with missing members of
/// `_meta`, whose [`code::INVALID_PARAMS`] has 400, before this function is used.
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
        // The scanner has located these members.
        "name" => params.name_string(),
        "uri" => params.uri()?.to_string_value().map(Cow::into_owned).map(Cow::Owned),
        other => string_member(params.raw(), other).map(Cow::Owned),
    }
}

fn string_member(object: &Raw, member: &str) -> Option<String> {
    let value = object.member(member)?;
    value.to_string_value().map(Cow::into_owned)
}

/// The request that probes a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// POST with `server/discover`.
    Discover,
    /// POST with `initialize`, after [`ProbeVerdict::Legacy`].
    Initialize,
}

/// The body of the response to a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProbeBody<'a> {
    /// A response with a result, which the caller validates.
    Result,
    /// A response with an error.
    Error(&'a ErrorObject),
    /// Not a response: nothing, a page, another message.
    Other,
}

/// The meaning of the response to a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProbeVerdict {
    /// The server is modern. `supported` lists its revisions if it rejected ours: select one and retry, with
    /// `initialize` if only a legacy one is shared. Empty: no selection is needed.
    Modern {
        /// The revisions in the error.
        supported: Vec<Version>,
    },
    /// The server is modern and rejected the probe for another reason ([`code::HEADER_MISMATCH`],
    /// [`code::MISSING_REQUIRED_CLIENT_CAPABILITY`]). Do not fall back; report the error.
    ModernRefusal,
    /// The server is legacy: after `server/discover`, send `initialize`; after `initialize`, the session is open.
    Legacy,
    /// The server does not support POST here: try GET, as in 2024-11-05.
    TryHttpSse,
    /// Authorize and probe again. The era is still unknown.
    Authenticate,
    /// The server or a proxy is temporarily unavailable. The era is still unknown.
    Unavailable,
    /// Not an MCP server, and no fallback is left.
    Failed,
}

/// Interprets the response to a probe. A modern error decides with any status; otherwise the fallback does not depend
/// on one code.
///
/// After `server/discover`, which every modern server supports, any other error means a legacy server. After
/// `initialize`, only 400, 404 and 405 lead to HTTP+SSE.
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
        // A redirect that the client did not follow.
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
