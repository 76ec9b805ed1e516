//! Asking a client's model.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/sampling>. Deprecated in 2026-07-28.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::content::{AudioContent, Content, ImageContent, Role, TextContent};
use super::meta::Meta;
use super::number;
use super::record;
use super::task::TaskMetadata;
use super::tool::Tool;
use crate::{Kind, Raw};

record! {
    /// Parameters of `sampling/createMessage`.
    CreateMessageParams [request] {
        /// The conversation so far.
        messages: Vec<SamplingMessage>,
        /// The most tokens that the answer may have.
        max_tokens: i64,
        ---
        /// Which model to take.
        model_preferences: ModelPreferences => with_model_preferences,
        /// What the model is told first. The client may change it or leave it out.
        system_prompt: String => with_system_prompt,
        /// Which servers' context the client is asked to add.
        include_context: IncludeContext => with_include_context,
        /// How freely the model chooses its words.
        #[serde(serialize_with = "number::write_option")]
        temperature: f64 => with_temperature,
        /// Where the model is to stop.
        stop_sequences: Vec<String> => with_stop_sequences,
        /// For whoever runs the model, in a shape of its own.
        metadata: Raw => with_metadata,
        /// The tools that the model may use; since 2025-11-25.
        tools: Vec<Tool> => with_tools,
        /// Whether it must use them; since 2025-11-25.
        tool_choice: ToolChoice => with_tool_choice,
        /// Asks for a task instead of the result; 2025-11-25 alone.
        task: TaskMetadata => with_task,
    }
}

record! {
    /// A message of the conversation.
    SamplingMessage {
        /// Who speaks.
        role: Role,
        /// What is said.
        content: SamplingContents as impl Into<SamplingContents>,
        ---
        /// What is said beside it; since 2025-11-25.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
    }
}

/// What is said in a message: one piece, or, since 2025-11-25, a list of them.
#[derive(Clone, Debug, PartialEq)]
pub enum SamplingContents {
    /// One, as every revision reads it.
    One(SamplingContent),
    /// A list.
    Many(Vec<SamplingContent>),
}

impl SamplingContents {
    /// The pieces, however they were written.
    #[must_use]
    pub fn as_slice(&self) -> &[SamplingContent] {
        match self {
            Self::One(content) => core::slice::from_ref(content),
            Self::Many(contents) => contents,
        }
    }
}

impl<T: Into<SamplingContent>> From<T> for SamplingContents {
    fn from(content: T) -> Self {
        Self::One(content.into())
    }
}

impl From<Vec<SamplingContent>> for SamplingContents {
    fn from(contents: Vec<SamplingContent>) -> Self {
        Self::Many(contents)
    }
}

impl Serialize for SamplingContents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(content) => content.serialize(serializer),
            Self::Many(contents) => contents.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SamplingContents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        if raw.kind() == Kind::Array {
            raw.decode().map(Self::Many).map_err(de::Error::custom)
        } else {
            raw.decode().map(Self::One).map_err(de::Error::custom)
        }
    }
}

union! {
    /// A piece of what is said to or by a model.
    SamplingContent by "type" {
        /// Text.
        "text" => Text(TextContent),
        /// A picture.
        "image" => Image(ImageContent),
        /// Sound; since 2025-03-26.
        "audio" => Audio(AudioContent),
        /// The model wants a tool to be called; since 2025-11-25.
        "tool_use" => ToolUse(ToolUseContent),
        /// What the tool gave; since 2025-11-25.
        "tool_result" => ToolResult(ToolResultContent),
    }
}

impl SamplingContent {
    /// A piece of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }
}

record! {
    /// The model wants a tool to be called.
    #[serde(tag = "type", rename = "tool_use")]
    ToolUseContent [meta] {
        /// The name of this call, by which its result speaks of it.
        id: String as impl Into<String>,
        /// The tool.
        name: String as impl Into<String>,
        /// Its arguments: an object.
        input: Raw,
        ---
    }
}

record! {
    /// What a tool gave that the model wanted to be called.
    #[serde(tag = "type", rename = "tool_result")]
    ToolResultContent [meta] {
        /// The name of the call.
        tool_use_id: String as impl Into<String>,
        /// What the tool gave.
        content: Vec<Content>,
        ---
        /// The same for a program. `null` is `Some`, an absent member is `None`.
        #[serde(deserialize_with = "record::present")]
        structured_content: Raw => with_structured_content,
        /// The tool has failed. Absent: it has not.
        is_error: bool => with_is_error,
    }
}

record! {
    /// Which model to take. Hints come first, then the three priorities, from 0 (does not matter) to 1.
    #[derive(Default)]
    ModelPreferences {
        ---
        /// Models, the best first.
        hints: Vec<ModelHint> => with_hints,
        /// That it is cheap.
        #[serde(serialize_with = "number::write_option")]
        cost_priority: f64 => with_cost_priority,
        /// That it is fast.
        #[serde(serialize_with = "number::write_option")]
        speed_priority: f64 => with_speed_priority,
        /// That it is clever.
        #[serde(serialize_with = "number::write_option")]
        intelligence_priority: f64 => with_intelligence_priority,
    }
}

record! {
    /// A model.
    #[derive(Default)]
    ModelHint {
        ---
        /// Its name or a part of it; the client may take another family's model of the same kind.
        name: String => with_name,
    }
}

open! {
    /// Which servers' context the client is asked to add.
    IncludeContext {
        /// None.
        None = "none",
        /// That of the server that asks.
        ThisServer = "thisServer",
        /// That of all servers.
        AllServers = "allServers",
    }
}

record! {
    /// Whether the model must use tools.
    #[derive(Default)]
    ToolChoice {
        ---
        /// Absent: as the model likes.
        mode: ToolChoiceMode => with_mode,
    }
}

open! {
    /// Whether the model must use tools.
    ToolChoiceMode {
        /// As it likes.
        Auto = "auto",
        /// At least one.
        Required = "required",
        /// None.
        None = "none",
    }
}

record! {
    /// Result of `sampling/createMessage`.
    CreateMessageResult [result] {
        /// Who speaks: the model.
        role: Role,
        /// What it says.
        content: SamplingContents as impl Into<SamplingContents>,
        /// Its name.
        model: String as impl Into<String>,
        ---
        /// Why it stopped, where that is known.
        stop_reason: StopReason => with_stop_reason,
    }
}

open! {
    /// Why a model stopped.
    StopReason {
        /// It had said what it had to say.
        EndTurn = "endTurn",
        /// It came to a stop sequence.
        StopSequence = "stopSequence",
        /// It had used its tokens up.
        MaxTokens = "maxTokens",
        /// It wants tools to be called.
        ToolUse = "toolUse",
    }
}
