//! What the two sides of a session are and want: the settings that an owner gives.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::event::Ask;
use crate::types::{ClientCapabilities, Implementation, ServerCapabilities};
use crate::{Era, Version};

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
}

impl ClientRole {
    /// A client that speaks every version and asks for whatever the server speaks.
    #[must_use]
    pub fn new(info: Implementation, capabilities: ClientCapabilities) -> Self {
        Self { info, capabilities, ask: Ask::Auto, version: None }
    }
}

impl ServerRole {
    /// A server that speaks every version.
    #[must_use]
    pub fn new(info: Implementation, capabilities: ServerCapabilities) -> Self {
        Self { info, capabilities, instructions: None, versions: Version::ALL.into(), lenient_opening: false }
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
