//! Resources: data of a server that clients can read.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/resources>. URIs and URI templates are plain
//! strings.

use alloc::string::String;
use alloc::vec::Vec;

use super::content::{ResourceContents, join_lines};
use super::lifecycle::Icon;
use crate::{Raw, json};

record! {
    /// A resource.
    Resource [annotated item] {
        /// The URI, which identifies the resource.
        uri: String as impl Into<String>,
        /// The name, for programs.
        name: String as impl Into<String>,
        ---
        /// The display name; since 2025-06-18.
        title: String => with_title,
        /// The description.
        description: String => with_description,
        /// The media type.
        mime_type: String => with_mime_type,
        /// The length of the contents in bytes, before any encoding.
        size: i64 => with_size,
        /// Icons; since 2025-11-25.
        icons: Vec<Icon> => with_icons,
    }
}

record! {
    /// A template for the URIs of similar resources.
    ResourceTemplate [annotated item] {
        /// The URI template ([RFC 6570](https://www.rfc-editor.org/rfc/rfc6570)).
        uri_template: String as impl Into<String>,
        /// The name, for programs.
        name: String as impl Into<String>,
        ---
        /// The display name; since 2025-06-18.
        title: String => with_title,
        /// The description.
        description: String => with_description,
        /// The media type of all these resources.
        mime_type: String => with_mime_type,
        /// Icons; since 2025-11-25.
        icons: Vec<Icon> => with_icons,
    }
}

record! {
    /// Result of `resources/list`.
    ListResourcesResult [page cached result] {
        /// The resources of this page.
        resources: Vec<Resource>,
        ---
    }
}

record! {
    /// Result of `resources/templates/list`.
    ListResourceTemplatesResult [page cached result] {
        /// The templates of this page.
        resource_templates: Vec<ResourceTemplate>,
        ---
    }
}

record! {
    /// Parameters of `resources/read`.
    ReadResourceParams [retry request] {
        /// The URI of the resource.
        uri: String as impl Into<String>,
        ---
    }
}

record! {
    /// Result of `resources/read`.
    ReadResourceResult [cached result] {
        /// The contents; several when the resource has sub-resources.
        contents: Vec<ResourceContents>,
        ---
    }
}

impl ReadResourceResult {
    /// A result with one text as JSON, which is the same in all revisions. A large text is converted in place, without a
    /// second copy.
    #[must_use]
    pub fn text_json(uri: &str, mime_type: Option<&str>, text: String) -> Raw {
        Self::json(uri, mime_type, b",\"text\":", text)
    }

    /// The same with bytes in Base64.
    #[must_use]
    pub fn blob_json(uri: &str, mime_type: Option<&str>, blob: String) -> Raw {
        Self::json(uri, mime_type, b",\"blob\":", blob)
    }

    fn json(uri: &str, mime_type: Option<&str>, name: &[u8], value: String) -> Raw {
        let mut before = br#"{"contents":[{"uri":"#.to_vec();
        json::append_string(uri, &mut before);
        if let Some(mime_type) = mime_type {
            before.extend_from_slice(b",\"mimeType\":");
            json::append_string(mime_type, &mut before);
        }
        before.extend_from_slice(name);
        json::raw_with_string(&before, value, b"}]}")
    }

    /// The texts of the contents, joined by line feeds. Binary contents are left out.
    #[must_use]
    pub fn to_text(&self) -> String {
        join_lines(self.contents.iter().filter_map(ResourceContents::as_text))
    }
}

record! {
    /// Parameters of `resources/subscribe`, until 2025-11-25.
    SubscribeParams [request] {
        /// The URI of the resource.
        uri: String as impl Into<String>,
        ---
    }
}

record! {
    /// Parameters of `resources/unsubscribe`, until 2025-11-25.
    UnsubscribeParams [request] {
        /// The URI of the resource.
        uri: String as impl Into<String>,
        ---
    }
}

record! {
    /// Parameters of `notifications/resources/updated`.
    ResourceUpdatedParams [notification] {
        /// The URI of the changed resource, which may be a sub-resource of the subscribed one.
        uri: String as impl Into<String>,
        ---
    }
}

/// Whether `uri` is the resource `above` or lies below it. A client that subscribed to `above` is notified when `uri`
/// changes, and cached contents of `above` become stale.
///
/// The specification lets a server report a "sub-resource" of a subscribed one
/// (<https://modelcontextprotocol.io/specification/2026-07-28/schema#resourceupdatednotificationparams>) and does not
/// define the word. Here it is a URI that continues the whole of the other one with a path segment (`/`), a query (`?`)
/// or a fragment (`#`) of [RFC 3986](https://www.rfc-editor.org/rfc/rfc3986#section-3). A superfluous notification
/// costs a client a request; a missing one leaves it with old contents.
///
/// ```
/// use mcpjoin_proto::types::resource::is_within;
///
/// for below in ["file:///a", "file:///a/b", "file:///a?page=2", "file:///a#top"] {
///     assert!(is_within(below, "file:///a"));
/// }
/// assert!(is_within("file:///a", "file:///"));
/// assert!(!is_within("file:///ab", "file:///a"));
/// ```
#[must_use]
pub fn is_within(uri: &str, above: &str) -> bool {
    uri.strip_prefix(above)
        .is_some_and(|below| below.is_empty() || above.ends_with('/') || below.starts_with(['/', '?', '#']))
}
