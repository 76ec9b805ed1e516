//! The settings that an owner gives to a client session and to a server session.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::event::EraChoice;
use crate::json::ReadError;
use crate::types::{
    ClientCapabilities, DiscoverResult, Implementation, InitializeResult, InputRequired, ProtocolType,
    ServerCapabilities,
};
use crate::{Era, Raw, Version};

/// The side of the session.
#[derive(Clone, Debug)]
pub enum Role {
    /// The client.
    Client(Arc<ClientRole>),
    /// The server. Shared, because one server has many sessions.
    Server(Arc<ServerRole>),
}

/// The settings of a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientRole {
    /// The name and version.
    pub info: Implementation,
    /// The capabilities.
    pub capabilities: ClientCapabilities,
    /// The era to request.
    pub era: EraChoice,
    /// The only legacy version to offer and accept; `None`: offer the newest, accept every known one.
    pub version: Option<Version>,
    /// The session relays for another client, as one side of a gateway. Undeclared capabilities and methods outside the
    /// negotiated revision are allowed in both directions. Results and progress are delivered unchanged
    /// ([`Reply::Verbatim`], [`Event::Notification`]). Params that carry their own version are sent unchanged except
    /// for the progress token. [`ClientRole::version`] is offered, and every known version of its era is accepted.
    ///
    /// [`Reply::Verbatim`]: super::Reply::Verbatim
    /// [`Event::Notification`]: super::Event::Notification
    pub relays: bool,
    /// Texts to present in place of `info` and `capabilities`.
    pub presents: Option<Arc<Presents>>,
    pub(super) results: ResultReaders,
}

/// The functions that decode what only servers send. Called through the pointers that [`ClientRole::new`] sets: a program
/// without a client then links neither them nor the types that they decode.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResultReaders {
    pub(super) initialize: fn(&Raw) -> Result<InitializeResult, ReadError>,
    pub(super) discover: fn(&Raw) -> Result<DiscoverResult, ReadError>,
    pub(super) input_required: fn(&Raw) -> Result<InputRequired, ReadError>,
}

/// Texts that a client presents unchanged. `None` presents what the role contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Presents {
    /// The params of `initialize`: an object.
    pub initialize: Option<Raw>,
    /// The client information in the `_meta` of modern requests: an object.
    pub info: Option<Raw>,
    /// The capabilities there: an object.
    pub capabilities: Option<Raw>,
}

/// The settings of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerRole {
    /// The name and version.
    pub info: Implementation,
    /// The capabilities.
    pub capabilities: ServerCapabilities,
    /// Instructions for the use of the server, for a model.
    pub instructions: Option<String>,
    /// The supported versions, of those that this crate knows.
    pub versions: Vec<Version>,
    /// Accepts an `initialize` without the required capabilities and client information, as some clients send it.
    pub lenient_opening: bool,
    /// The session relays for another server, as one side of a gateway. Undeclared capabilities and methods outside the
    /// negotiated revision are allowed in both directions. The handler also gets the requests that a session otherwise
    /// handles itself (`logging/setLevel`, `server/discover`, `subscriptions/listen`). Notifications are not filtered
    /// by level or resource. The handler of `subscriptions/listen` sends the notifications of the stream and ends it.
    pub relays: bool,
    /// The unchanged result of `initialize`. It names the one legacy version of `versions`.
    pub presents: Option<Raw>,
}

impl ClientRole {
    /// A client that supports every version and accepts the era of the server.
    #[must_use]
    pub fn new(info: Implementation, capabilities: ClientCapabilities) -> Self {
        let results = ResultReaders {
            initialize: InitializeResult::read,
            discover: DiscoverResult::read,
            input_required: InputRequired::read,
        };
        Self {
            info,
            capabilities,
            era: EraChoice::Auto,
            version: None,
            relays: false,
            presents: None,
            results,
        }
    }
}

impl Role {
    /// Whether this side relays for a gateway.
    pub(super) fn relays(&self) -> bool {
        match self {
            Self::Client(client) => client.relays,
            Self::Server(server) => server.relays,
        }
    }
}

impl ServerRole {
    /// A server that supports every version.
    #[must_use]
    pub fn new(info: Implementation, capabilities: ServerCapabilities) -> Self {
        Self {
            info,
            capabilities,
            instructions: None,
            versions: Version::ALL.into(),
            lenient_opening: false,
            relays: false,
            presents: None,
        }
    }

    /// Whether it supports a version of this era.
    pub(super) fn speaks(&self, era: Era) -> bool {
        self.newest(era).is_some()
    }

    /// The newest supported version of an era.
    pub(super) fn newest(&self, era: Era) -> Option<&'static Version> {
        Version::newest_among(era, &self.versions)
    }
}
