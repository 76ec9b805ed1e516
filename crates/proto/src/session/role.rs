//! What the two sides of a session are and want: the settings that an owner gives.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::event::Ask;
use crate::types::{ClientCapabilities, Implementation, ServerCapabilities};
use crate::{Era, Raw, Version};

/// Which side of the session this is.
#[derive(Clone, Debug)]
pub enum Role {
    /// The side that opens, asks and calls.
    Client(Arc<ClientRole>),
    /// The side that offers. Shared, for one server has many sessions.
    Server(Arc<ServerRole>),
}

/// How a client presents itself and what it asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientRole {
    /// Its name and version.
    pub info: Implementation,
    /// What it can do for a server.
    pub capabilities: ClientCapabilities,
    /// Which era it asks for.
    pub ask: Ask,
    /// The one legacy version to offer, and to accept; `None`: offer the newest, accept every known one.
    pub version: Option<Version>,
    /// It stands for another client, as one side of a gateway: nothing is refused because it was not declared or is not
    /// in the agreed revision, in either direction; results and progress come as they are ([`Reply::Verbatim`],
    /// [`Event::Notification`]); parameters that name their version themselves are sent as they are but for the token of
    /// their progress; and [`ClientRole::version`] is the version to offer, while every known one of its era is accepted.
    ///
    /// [`Reply::Verbatim`]: super::Reply::Verbatim
    /// [`Event::Notification`]: super::Event::Notification
    pub relays: bool,
    /// What it says of itself, word for word, in place of `info` and `capabilities`.
    pub presents: Option<Arc<Presents>>,
}

/// What a client says of itself, word for word. What is `None` is said as the role says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Presents {
    /// The parameters of `initialize`, an object.
    pub initialize: Option<Raw>,
    /// Who it is, in the `_meta` of modern requests: an object.
    pub info: Option<Raw>,
    /// What it can do, there: an object.
    pub capabilities: Option<Raw>,
}

/// How a server presents itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerRole {
    /// Its name and version.
    pub info: Implementation,
    /// What it offers.
    pub capabilities: ServerCapabilities,
    /// How it wants to be used, for a model to read.
    pub instructions: Option<String>,
    /// The versions that it speaks, of those this crate knows.
    pub versions: Vec<Version>,
    /// Whether it lets in a client that says in `initialize` neither what it can nor who it is, although it must: some
    /// were written after documents that do not say so.
    pub lenient_opening: bool,
    /// It stands for another server, as one side of a gateway: nothing is refused because it was not declared or is not
    /// in the agreed revision, in either direction; what a session answers by itself otherwise (`logging/setLevel`,
    /// `server/discover`, `subscriptions/listen`) reaches the handler; and what the handler tells is not looked at for
    /// its level or its resource. A request to listen is then one as any other, whose handler tells what comes and ends
    /// it.
    pub relays: bool,
    /// The result of `initialize`, word for word. It names the one legacy version of `versions`.
    pub presents: Option<Raw>,
}

impl ClientRole {
    /// A client that speaks every version and asks for whatever the server speaks.
    #[must_use]
    pub fn new(info: Implementation, capabilities: ClientCapabilities) -> Self {
        Self { info, capabilities, ask: Ask::Auto, version: None, relays: false, presents: None }
    }
}

impl Role {
    /// Whether this side stands for another one.
    pub(super) fn relays(&self) -> bool {
        match self {
            Self::Client(client) => client.relays,
            Self::Server(server) => server.relays,
        }
    }
}

impl ServerRole {
    /// A server that speaks every version.
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

    /// Whether it speaks any version of that era.
    pub(super) fn speaks(&self, era: Era) -> bool {
        self.newest(era).is_some()
    }

    /// The newest version of an era that it speaks.
    pub(super) fn newest(&self, era: Era) -> Option<&'static Version> {
        Version::newest_among(era, &self.versions)
    }
}
