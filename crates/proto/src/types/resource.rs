//! Resources: what a server lets others read.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/resources>. URIs and URI templates stay the
//! strings that they are.

use alloc::string::String;
use alloc::vec::Vec;

use super::content::ResourceContents;
use super::lifecycle::Icon;

record! {
    /// A resource.
    Resource [annotated item] {
        /// Where it is, by which it is read.
        uri: String as impl Into<String>,
        /// Its name, for programs.
        name: String as impl Into<String>,
        ---
        /// Its name, for people; since 2025-06-18.
        title: String => with_title,
        /// What it is.
        description: String => with_description,
        /// Its media type.
        mime_type: String => with_mime_type,
        /// The length of its contents in bytes, before any encoding.
        size: i64 => with_size,
        /// Its pictures; since 2025-11-25.
        icons: Vec<Icon> => with_icons,
    }
}

record! {
    /// Resources that differ in parts of their URI.
    ResourceTemplate [annotated item] {
        /// The URI with places to fill in ([RFC 6570](https://www.rfc-editor.org/rfc/rfc6570)).
        uri_template: String as impl Into<String>,
        /// Their name, for programs.
        name: String as impl Into<String>,
        ---
        /// Their name, for people; since 2025-06-18.
        title: String => with_title,
        /// What they are.
        description: String => with_description,
        /// The media type that all of them have.
        mime_type: String => with_mime_type,
        /// Their pictures; since 2025-11-25.
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
        /// The resource.
        uri: String as impl Into<String>,
        ---
    }
}

record! {
    /// Result of `resources/read`.
    ReadResourceResult [cached result] {
        /// The contents; several when the resource has resources inside it.
        contents: Vec<ResourceContents>,
        ---
    }
}

record! {
    /// Parameters of `resources/subscribe`, until 2025-11-25.
    SubscribeParams [request] {
        /// The resource.
        uri: String as impl Into<String>,
        ---
    }
}

record! {
    /// Parameters of `resources/unsubscribe`, until 2025-11-25.
    UnsubscribeParams [request] {
        /// The resource.
        uri: String as impl Into<String>,
        ---
    }
}

record! {
    /// Parameters of `notifications/resources/updated`.
    ResourceUpdatedParams [notification] {
        /// The resource that has changed; it may lie inside the one that was subscribed to.
        uri: String as impl Into<String>,
        ---
    }
}

/// Whether a resource is another one, or lies below it: a client that subscribed to `above` is told when `uri` changes,
/// and what was read of `above` is stale then.
///
/// The specification lets a server tell of a "sub-resource" of what was subscribed to
/// (<https://modelcontextprotocol.io/specification/2026-07-28/schema#resourceupdatednotificationparams>) and does not say
/// what one is. Here it is what [RFC 3986](https://www.rfc-editor.org/rfc/rfc3986#section-3) puts behind the whole of
/// another URI: further segments of its path (`/`), a query (`?`) or a fragment (`#`). One change too many costs a client
/// a request; one too few leaves it with old contents.
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
