//! The first request of a connection, in every form that a client may send, and the response of the server.
//!
//! Used by `mcpjoin validate --eras`, once for each opener, each over a link of its own. It checks nothing: a row of
//! the table says what the response was. How both eras begin:
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/lifecycle> and
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization>.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::session::{Inbound, Limits, Outbound, Route, TransportEnd};
use mcpjoin_proto::{Era, Message, Method, Raw, RequestId, Response, Version};
use mcpjoin_rules::Revisions;
use tokio::time::{Instant, timeout_at};

use super::probes;
use crate::engine::message::{self, Manner, version_of};
use crate::engine::request_in;
use mcpjoin::transport::{Link, RawLink};

/// How long the server may take to end after its response. Then it is killed with the link.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A first request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opener {
    /// `server/discover` in a version, which need not exist.
    Discover(Version),
    /// `server/discover` without the `_meta` that says which version it is.
    DiscoverBare,
    /// A list of tools in a version, with nothing before it: the modern era needs no opening.
    List(Version),
    /// `initialize` with a version, which need not exist, nor be one that has a handshake.
    Initialize(Version),
    /// `initialize` without `protocolVersion`.
    InitializeBare,
    /// A list of tools without a version and with nothing before it, as if a session were open.
    ListBare,
}

/// The response to an opener.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OpenerResponse {
    /// A result with this version (`initialize`).
    Version(Version),
    /// A result with these versions (`server/discover`).
    Versions(Vec<Version>),
    /// A result without a version.
    Result,
    /// An error of JSON-RPC.
    Refused {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
        /// The versions that the server speaks, if the error lists them.
        supported: Vec<Version>,
    },
    /// Something that is no message.
    Unreadable {
        /// Why it is none.
        problem: String,
        /// How it begins.
        first: Bytes,
    },
    /// The exchange ended without a response: over HTTP, for example, by its status.
    Lost(String),
    /// The server has ended, or has closed its side.
    Closed(TransportEnd),
    /// There was no response in this time.
    Silent(Duration),
}

impl Opener {
    /// Every opener: those of the modern era, then those of the legacy era, newest version first.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let newest = Version::newest(Era::Modern);
        let unknown = Version::parse(probes::NO_VERSION);
        let mut initialize: Vec<Version> = Revisions::LEGACY.iter().cloned().collect();
        initialize.reverse();
        initialize.extend([newest.clone(), unknown.clone()]);
        let modern =
            [Self::Discover(newest.clone()), Self::Discover(unknown), Self::DiscoverBare, Self::List(newest)];
        let legacy =
            initialize.into_iter().map(Self::Initialize).chain([Self::InitializeBare, Self::ListBare]);
        modern.into_iter().chain(legacy).collect()
    }

    /// The era whose requests have this form.
    #[must_use]
    pub const fn era(&self) -> Era {
        match self {
            Self::Discover(_) | Self::DiscoverBare | Self::List(_) => Era::Modern,
            Self::Initialize(_) | Self::InitializeBare | Self::ListBare => Era::Legacy,
        }
    }

    /// Whether it is one of the legacy era.
    #[must_use]
    pub const fn is_legacy(&self) -> bool {
        matches!(self, Self::Initialize(_) | Self::InitializeBare | Self::ListBare)
    }

    /// The version that it names.
    #[must_use]
    pub const fn version(&self) -> Option<&Version> {
        match self {
            Self::Discover(version) | Self::List(version) | Self::Initialize(version) => Some(version),
            Self::DiscoverBare | Self::InitializeBare | Self::ListBare => None,
        }
    }

    /// Its method.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Discover(_) | Self::DiscoverBare => "server/discover",
            Self::List(_) | Self::ListBare => "tools/list",
            Self::Initialize(_) | Self::InitializeBare => "initialize",
        }
    }

    /// Whether a session may follow: the response has what the opener asks for.
    #[must_use]
    pub const fn is_opened_by(&self, answer: &OpenerResponse) -> bool {
        match self {
            Self::Discover(_) | Self::DiscoverBare => matches!(answer, OpenerResponse::Versions(_)),
            Self::Initialize(_) | Self::InitializeBare => matches!(answer, OpenerResponse::Version(_)),
            Self::List(_) | Self::ListBare => matches!(answer, OpenerResponse::Result),
        }
    }

    /// Sends it over the link, waits for the response for at most `within`, and closes the link.
    ///
    /// Dropping the future kills at once what the link has started.
    pub async fn over(&self, link: Link, limits: &Limits, within: Duration) -> OpenerResponse {
        let mut link = link.raw(limits);
        let answer = self.answer(&mut link, limits, within).await;
        let _ = timeout_at(Instant::now() + CLOSE_TIMEOUT, link.close()).await;
        answer
    }

    async fn answer(&self, link: &mut RawLink, limits: &Limits, within: Duration) -> OpenerResponse {
        let Some(request) = request_in(&self.line()) else { return OpenerResponse::Silent(within) };
        let asked = request.id.clone();
        link.push(Outbound::Message { message: Message::Request(request), route: Route::Session });
        let deadline = Instant::now() + within;
        let mut bad = 0;
        loop {
            let Ok(inbound) = timeout_at(deadline, link.recv()).await else {
                return OpenerResponse::Silent(within);
            };
            match inbound {
                Inbound::Message { message: Message::Response(response), .. } => {
                    if let Some(answer) = self.of(response, &asked) {
                        return answer;
                    }
                }
                Inbound::Malformed { error, excerpt, .. } => {
                    bad += 1;
                    if error.id.as_ref() == Some(&asked) || bad >= limits.opening_garbage {
                        return OpenerResponse::Unreadable { problem: error.to_string(), first: excerpt };
                    }
                }
                Inbound::Lost { id, cause } if id == asked => return OpenerResponse::Lost(cause.message),
                Inbound::Closed { cause } => return OpenerResponse::Closed(cause),
                _ => {}
            }
        }
    }

    /// What a response says; `None` when it belongs to another request.
    fn of(&self, response: Response, asked: &RequestId) -> Option<OpenerResponse> {
        match response {
            Response { id: Some(id), .. } if id != *asked => None,
            // A server that could not read the version may leave out the id as well.
            Response { outcome: Err(error), .. } => Some(OpenerResponse::Refused {
                code: error.code,
                supported: error.data.and_then(|data| versions(&data, "supported")).unwrap_or_default(),
                message: error.message,
            }),
            Response { id: None, .. } => None,
            Response { outcome: Ok(result), .. } => {
                let answer = match self.method() {
                    "initialize" => version_of(result.raw(), "protocolVersion").map(OpenerResponse::Version),
                    "server/discover" => {
                        versions(result.raw(), "supportedVersions").map(OpenerResponse::Versions)
                    }
                    _ => None,
                };
                Some(answer.unwrap_or(OpenerResponse::Result))
            }
        }
    }

    /// The text of the request.
    fn line(&self) -> String {
        let id = "1";
        match self {
            Self::Discover(version) => probes::discover(id, Some(version.as_str()), true),
            Self::DiscoverBare => probes::discover_bare(id),
            Self::List(version) => {
                message::request(&Manner::Modern(version.clone()), id, Method::ListTools.as_str())
            }
            Self::Initialize(version) => message::initialize(id, version.as_str()),
            Self::InitializeBare => message::initialize_bare(id),
            Self::ListBare => message::request(&Manner::Legacy, id, Method::ListTools.as_str()),
        }
    }
}

/// The versions in a list of an object.
fn versions(object: &Raw, name: &str) -> Option<Vec<Version>> {
    let names: Vec<String> = object.member(name)?.decode().ok()?;
    Some(names.iter().map(|name| Version::parse(name)).collect())
}

impl fmt::Display for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discover(version) => write!(f, "server/discover in {version}"),
            Self::DiscoverBare => f.write_str("server/discover without a version"),
            Self::List(version) => write!(f, "tools/list in {version}, nothing before it"),
            Self::Initialize(version) => write!(f, "initialize with {version}"),
            Self::InitializeBare => f.write_str("initialize without a version"),
            Self::ListBare => f.write_str("tools/list without a version, nothing before it"),
        }
    }
}
