//! What tools, prompts and resources give: text, pictures, sound, resources.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#resource-contents>. Binary data stays
//! in base64, as it came: whether it is needed is not known here.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, de};

use super::lifecycle::Icon;
use super::number;
use crate::{Kind, Raw};

open! {
    /// Who speaks, or who is spoken to.
    Role {
        /// The person.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

record! {
    /// Hints for showing and choosing.
    #[derive(Default)]
    Annotations {
        ---
        /// Whom it is for.
        audience: Vec<Role> => with_audience,
        /// How important it is, from 0 (can be left out) to 1 (cannot).
        #[serde(serialize_with = "number::write_option")]
        priority: f64 => with_priority,
        /// When it last changed, in ISO 8601; since 2025-06-18.
        last_modified: String => with_last_modified,
    }
}

union! {
    /// A piece of content: the specification's `ContentBlock`.
    Content by "type" {
        /// Text.
        "text" => Text(TextContent),
        /// A picture.
        "image" => Image(ImageContent),
        /// Sound; since 2025-03-26.
        "audio" => Audio(AudioContent),
        /// A resource that can be read; since 2025-06-18.
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

    /// The text, when it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            _ => None,
        }
    }
}

record! {
    /// Text for a model.
    #[serde(tag = "type", rename = "text")]
    TextContent [annotated item] {
        /// The text.
        text: String as impl Into<String>,
        ---
    }
}

record! {
    /// A picture for a model.
    #[serde(tag = "type", rename = "image")]
    ImageContent [annotated item] {
        /// The picture in base64.
        data: String as impl Into<String>,
        /// Its media type.
        mime_type: String as impl Into<String>,
        ---
    }
}

record! {
    /// Sound for a model.
    #[serde(tag = "type", rename = "audio")]
    AudioContent [annotated item] {
        /// The sound in base64.
        data: String as impl Into<String>,
        /// Its media type.
        mime_type: String as impl Into<String>,
        ---
    }
}

record! {
    /// A resource that can be read with `resources/read`. It need not be in the list of resources.
    #[serde(tag = "type", rename = "resource_link")]
    ResourceLink [meta] {
        /// Where it is.
        uri: String as impl Into<String>,
        /// Its name, for programs.
        name: String as impl Into<String>,
        ---
        /// Its name, for people.
        title: String => with_title,
        /// What it is.
        description: String => with_description,
        /// Its media type.
        mime_type: String => with_mime_type,
        /// The length of its contents in bytes, before any encoding.
        size: i64 => with_size,
        /// Its pictures; since 2025-11-25.
        icons: Vec<Icon> => with_icons,
        /// Hints.
        annotations: Annotations => with_annotations,
    }
}

record! {
    /// A resource with its contents.
    #[serde(tag = "type", rename = "resource")]
    EmbeddedResource [annotated item] {
        /// The contents.
        resource: ResourceContents as impl Into<ResourceContents>,
        ---
    }
}

record! {
    /// The contents of a resource that is text.
    TextResourceContents [item] {
        /// Where the resource is.
        uri: String as impl Into<String>,
        /// The text.
        text: String as impl Into<String>,
        ---
        /// Its media type.
        mime_type: String => with_mime_type,
    }
}

record! {
    /// The contents of a resource that is not text.
    BlobResourceContents [item] {
        /// Where the resource is.
        uri: String as impl Into<String>,
        /// The bytes in base64.
        blob: String as impl Into<String>,
        ---
        /// Its media type.
        mime_type: String => with_mime_type,
    }
}

/// The contents of a resource, or of one of the resources inside it. Which kind it is shows in the member that
/// is there, `text` or `blob`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ResourceContents {
    /// Text.
    Text(TextResourceContents),
    /// Bytes.
    Blob(BlobResourceContents),
    /// An object with neither, as it was written.
    Other(Raw),
}

variants! {
    ResourceContents {
        Text(TextResourceContents),
        Blob(BlobResourceContents),
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
