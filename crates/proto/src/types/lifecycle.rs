//! Who the peers are, how they agree on a revision, and how a request is called off.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/discover>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation>. Used by the session.

use alloc::string::String;
use alloc::vec::Vec;

use super::capability::{ClientCapabilities, ServerCapabilities};
use crate::{RequestId, Version};

record! {
    /// Who a client or a server is. For display: nothing may hang on it.
    Implementation {
        /// Its name, for programs.
        name: String as impl Into<String>,
        /// Its own version.
        version: String as impl Into<String>,
        ---
        /// Its name, for people; since 2025-06-18.
        title: String => with_title,
        /// What it is; since 2025-11-25.
        description: String => with_description,
        /// Its pictures; since 2025-11-25.
        icons: Vec<Icon> => with_icons,
        /// Its page on the web; since 2025-11-25.
        website_url: String => with_website_url,
    }
}

record! {
    /// A picture; since 2025-11-25.
    Icon {
        /// Where it is: an `https:` or a `data:` URL.
        src: String as impl Into<String>,
        ---
        /// Its media type, where the server of the URL says nothing or something too general.
        mime_type: String => with_mime_type,
        /// The sizes that it is made for, as in `48x48`, or `any`.
        sizes: Vec<String> => with_sizes,
        /// The background that it is made for.
        theme: IconTheme => with_theme,
    }
}

open! {
    /// The background that a picture is made for.
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
        /// The newest revision that the client wants to speak.
        protocol_version: Version,
        /// What the client can do.
        capabilities: ClientCapabilities,
        /// Who the client is.
        client_info: Implementation,
        ---
    }
}

record! {
    /// Result of `initialize`, until 2025-11-25.
    InitializeResult [result] {
        /// The revision that is spoken from now on, unless the client cannot and leaves.
        protocol_version: Version,
        /// What the server can do.
        capabilities: ServerCapabilities,
        /// Who the server is.
        server_info: Implementation,
        ---
        /// How the server is meant to be used, for a model.
        instructions: String,
    }
}

impl InitializeResult {
    /// The same with or without instructions.
    #[must_use]
    pub fn with_instructions(mut self, instructions: Option<String>) -> Self {
        self.instructions = instructions;
        self
    }
}

record! {
    /// Result of `server/discover`, since 2026-07-28.
    DiscoverResult [cached result] {
        /// The revisions that the server speaks. Legacy ones may be among them.
        supported_versions: Vec<Version>,
        /// What the server can do.
        capabilities: ServerCapabilities,
        ---
        /// How the server is meant to be used, for a model.
        instructions: String,
    }
}

impl DiscoverResult {
    /// The same with or without instructions.
    #[must_use]
    pub fn with_instructions(mut self, instructions: Option<String>) -> Self {
        self.instructions = instructions;
        self
    }
}

record! {
    /// Parameters of `notifications/cancelled`: the sender no longer wants an answer.
    #[derive(Default)]
    CancelledParams [notification] {
        ---
        /// The request. Every revision that lets it be absent (2025-11-25) means a task, which is cancelled
        /// by `tasks/cancel` instead.
        request_id: RequestId => with_request_id,
        /// Why, for a person.
        reason: String => with_reason,
    }
}

record! {
    /// `data` of the error -32022: the receiver does not speak the revision of the request.
    UnsupportedVersionData {
        /// The revisions that it speaks.
        supported: Vec<Version>,
        /// The one that was asked for.
        requested: String as &str,
        ---
    }
}

record! {
    /// `data` of the error -32021: the request needs capabilities that it did not declare.
    MissingCapabilityData {
        /// Those that are missing.
        required_capabilities: ClientCapabilities,
        ---
    }
}
