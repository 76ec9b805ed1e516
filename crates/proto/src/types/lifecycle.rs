//! Negotiation of the revision, descriptions of the peers, and cancellation.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/discover>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation>. Used by the session.

use alloc::string::String;
use alloc::vec::Vec;

use super::capability::{ClientCapabilities, ServerCapabilities};
use crate::{RequestId, Version};

record! {
    /// The name and version of a client or server. For display: no decision may depend on it.
    Implementation {
        /// The name, for programs.
        name: String as impl Into<String>,
        /// The version of the program.
        version: String as impl Into<String>,
        ---
        /// The display name; since 2025-06-18.
        title: String => with_title,
        /// The description; since 2025-11-25.
        description: String => with_description,
        /// Icons; since 2025-11-25.
        icons: Vec<Icon> => with_icons,
        /// The website; since 2025-11-25.
        website_url: String => with_website_url,
    }
}

record! {
    /// An icon; since 2025-11-25.
    Icon {
        /// The location: an `https:` or a `data:` URL.
        src: String as impl Into<String>,
        ---
        /// The media type, when that of the HTTP response is missing or too general.
        mime_type: String => with_mime_type,
        /// The sizes, as in `48x48`, or `any`.
        sizes: Vec<String> => with_sizes,
        /// The background that the icon is designed for.
        theme: IconTheme => with_theme,
    }
}

open! {
    /// The background that an icon is designed for.
    IconTheme {
        /// A light one.
        Light = "light",
        /// A dark one.
        Dark = "dark",
    }
}

record! {
    /// Parameters of `initialize`, until 2025-11-25.
    InitializeParams [request] {
        /// The newest revision that the client supports.
        protocol_version: Version,
        /// The capabilities of the client.
        capabilities: ClientCapabilities,
        /// The name and version of the client.
        client_info: Implementation,
        ---
    }
}

record! {
    /// Result of `initialize`, until 2025-11-25.
    InitializeResult [result] {
        /// The negotiated revision. A client that does not support it disconnects.
        protocol_version: Version,
        /// The capabilities of the server.
        capabilities: ServerCapabilities,
        /// The name and version of the server.
        server_info: Implementation,
        ---
        /// Instructions for the use of the server, for a model.
        instructions: String,
    }
}

impl InitializeResult {
    /// Sets or removes the instructions.
    #[must_use]
    pub fn with_instructions(mut self, instructions: Option<String>) -> Self {
        self.instructions = instructions;
        self
    }
}

record! {
    /// Result of `server/discover`, since 2026-07-28.
    DiscoverResult [cached result] {
        /// The supported revisions, possibly with legacy ones.
        supported_versions: Vec<Version>,
        /// The capabilities of the server.
        capabilities: ServerCapabilities,
        ---
        /// Instructions for the use of the server, for a model.
        instructions: String,
    }
}

impl DiscoverResult {
    /// Sets or removes the instructions.
    #[must_use]
    pub fn with_instructions(mut self, instructions: Option<String>) -> Self {
        self.instructions = instructions;
        self
    }
}

record! {
    /// Parameters of `notifications/cancelled`: the sender does not wait for the response any more.
    #[derive(Default)]
    CancelledParams [notification] {
        ---
        /// The request. Absent only in 2025-11-25, for a task, which is cancelled by `tasks/cancel` instead.
        request_id: RequestId => with_request_id,
        /// The reason, for a person.
        reason: String => with_reason,
    }
}

record! {
    /// `data` of the error -32022: the receiver does not support the revision of the request.
    UnsupportedVersionData {
        /// The supported revisions.
        supported: Vec<Version>,
        /// The requested revision.
        requested: String as &str,
        ---
    }
}

record! {
    /// `data` of the error -32021: the request needs undeclared capabilities.
    MissingCapabilityData {
        /// The missing capabilities.
        required_capabilities: ClientCapabilities,
        ---
    }
}
