//! Content of tools, prompts and resources: text, images, audio, resources.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#resource-contents>. Binary data stays in
//! base64 and is not decoded here.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, de};

use super::lifecycle::Icon;
use crate::{Kind, Raw};

open! {
    /// The sender or the recipient of a message.
    Role {
        /// The user.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

record! {
    /// Hints for display and selection.
    #[derive(Default)]
    Annotations {
        ---
        /// The intended recipients.
        audience: Vec<Role> => with_audience,
        /// The importance, from 0 (optional) to 1 (required).
        priority: f64 | number => with_priority,
        /// The last modification, in ISO 8601; since 2025-06-18.
        last_modified: String => with_last_modified,
    }
}

union! {
    /// A piece of content: the specification's `ContentBlock`.
    Content {
        /// Text.
        "text" => Text(TextContent),
        /// An image.
        "image" => Image(ImageContent),
        /// Audio; since 2025-03-26.
        "audio" => Audio(AudioContent),
        /// A link to a resource; since 2025-06-18.
        "resource_link" => ResourceLink(ResourceLink),
        /// A resource with its contents.
        "resource" => Resource(EmbeddedResource),
    }
}

impl Content {
    /// A piece of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// The text, if this is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            _ => None,
        }
    }
}

/// Joins texts by line feeds.
pub(super) fn join_lines<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join("\n")
}

record! {
    /// Text for a model.
    TextContent "type": "text" [annotated item] {
        /// The text.
        text: String as impl Into<String>,
        ---
    }
}

record! {
    /// An image for a model.
    ImageContent "type": "image" [annotated item] {
        /// The image in base64.
        data: String as impl Into<String>,
        /// The media type.
        mime_type: String as impl Into<String>,
        ---
    }
}

record! {
    /// Audio for a model.
    AudioContent "type": "audio" [annotated item] {
        /// The audio in base64.
        data: String as impl Into<String>,
        /// The media type.
        mime_type: String as impl Into<String>,
        ---
    }
}

record! {
    /// A link to a resource that `resources/read` reads. The list of resources may omit it.
    ResourceLink "type": "resource_link" [meta] {
        /// The URI.
        uri: String as impl Into<String>,
        /// The name, for programs.
        name: String as impl Into<String>,
        ---
        /// The display name.
        title: String => with_title,
        /// The description.
        description: String => with_description,
        /// The media type.
        mime_type: String => with_mime_type,
        /// The length of the contents in bytes, before any encoding.
        size: i64 => with_size,
        /// Icons; since 2025-11-25.
        icons: Vec<Icon> => with_icons,
        /// Hints for display and selection.
        annotations: Annotations => with_annotations,
    }
}

record! {
    /// A resource with its contents.
    EmbeddedResource "type": "resource" [annotated item] {
        /// The contents.
        resource: ResourceContents as impl Into<ResourceContents>,
        ---
    }
}

record! {
    /// The contents of a text resource.
    TextResourceContents [item] {
        /// The URI of the resource.
        uri: String as impl Into<String>,
        /// The text.
        text: String as impl Into<String>,
        ---
        /// The media type.
        mime_type: String => with_mime_type,
    }
}

record! {
    /// The contents of a binary resource.
    BlobResourceContents [item] {
        /// The URI of the resource.
        uri: String as impl Into<String>,
        /// The contents in base64.
        blob: String as impl Into<String>,
        ---
        /// The media type.
        mime_type: String => with_mime_type,
    }
}

/// The contents of a resource or of one of its sub-resources. The kind is the member that is present, `text` or `blob`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ResourceContents {
    /// Text.
    Text(TextResourceContents),
    /// Binary data.
    Blob(BlobResourceContents),
    /// An object with neither member, unchanged.
    Other(Raw),
}

variants! {
    ResourceContents {
        Text(TextResourceContents),
        Blob(BlobResourceContents),
    }
}

impl ResourceContents {
    /// The text, if this is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(contents) => Some(&contents.text),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for ResourceContents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        if raw.kind() != Kind::Object {
            return Err(de::Error::custom("the contents of a resource are an object"));
        }
        if raw.member("text").is_some() {
            raw.decode().map(Self::Text).map_err(de::Error::custom)
        } else if raw.member("blob").is_some() {
            raw.decode().map(Self::Blob).map_err(de::Error::custom)
        } else {
            Ok(Self::Other(raw))
        }
    }
}
