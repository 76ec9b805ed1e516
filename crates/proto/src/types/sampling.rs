//! Sampling: requests to a client's model.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/sampling>. Deprecated in 2026-07-28.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::content::{AudioContent, Content, ImageContent, Role, TextContent, join_lines};
use super::meta::Meta;
use super::task::TaskMetadata;
use super::tool::Tool;
use crate::{Kind, Raw};

record! {
    /// Parameters of `sampling/createMessage`.
    CreateMessageParams [request] {
        /// The conversation so far.
        messages: Vec<SamplingMessage>,
        /// The maximum number of tokens of the response.
        max_tokens: i64,
        ---
        /// Preferences for the choice of a model.
        model_preferences: ModelPreferences => with_model_preferences,
        /// The system prompt. The client may change or omit it.
        system_prompt: String => with_system_prompt,
        /// The servers whose context the client should add.
        include_context: IncludeContext => with_include_context,
        /// The sampling temperature.
        temperature: f64 | number => with_temperature,
        /// Sequences that end the response.
        stop_sequences: Vec<String> => with_stop_sequences,
        /// Metadata for the model provider, in a format of its own.
        metadata: Raw => with_metadata,
        /// The tools that the model may use; since 2025-11-25.
        tools: Vec<Tool> => with_tools,
        /// Whether the model must use tools; since 2025-11-25.
        tool_choice: ToolChoice => with_tool_choice,
        /// Requests a task instead of the result; 2025-11-25 alone.
        task: TaskMetadata => with_task,
    }
}

impl CreateMessageParams {
    /// A request to answer one text of the user.
    #[must_use]
    pub fn text(text: impl Into<String>, max_tokens: i64) -> Self {
        let message = SamplingMessage::new(Role::User, SamplingContent::text(text));
        Self::new([message].into(), max_tokens)
    }

    /// The texts of all messages, joined by line feeds. Content of other kinds is left out.
    #[must_use]
    pub fn to_text(&self) -> String {
        let contents = self.messages.iter().flat_map(|message| message.content.as_slice());
        join_lines(contents.filter_map(SamplingContent::as_text))
    }
}

record! {
    /// A message of the conversation.
    SamplingMessage {
        /// The sender.
        role: Role,
        /// The content.
        content: SamplingContents as impl Into<SamplingContents>,
        ---
        /// Metadata; since 2025-11-25.
        meta "_meta": Meta => with_meta,
    }
}

/// The content of a message: one piece or, since 2025-11-25, a list.
#[derive(Clone, Debug, PartialEq)]
pub enum SamplingContents {
    /// One piece, as in every revision.
    One(SamplingContent),
    /// A list.
    Many(Vec<SamplingContent>),
}

impl SamplingContents {
    /// The pieces in both cases.
    #[must_use]
    pub fn as_slice(&self) -> &[SamplingContent] {
        match self {
            Self::One(content) => core::slice::from_ref(content),
            Self::Many(contents) => contents,
        }
    }

    /// The texts of all pieces, joined by line feeds. Content of other kinds is left out.
    #[must_use]
    pub fn to_text(&self) -> String {
        join_lines(self.as_slice().iter().filter_map(SamplingContent::as_text))
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
    /// A piece of content in a conversation with a model.
    SamplingContent {
        /// Text.
        "text" => Text(TextContent),
        /// An image.
        "image" => Image(ImageContent),
        /// Audio; since 2025-03-26.
        "audio" => Audio(AudioContent),
        /// A tool call of the model; since 2025-11-25.
        "tool_use" => ToolUse(ToolUseContent),
        /// The result of a tool call; since 2025-11-25.
        "tool_result" => ToolResult(ToolResultContent),
    }
}

impl SamplingContent {
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

impl From<&str> for SamplingContent {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for SamplingContent {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

record! {
    /// A tool call of the model.
    ToolUseContent "type": "tool_use" [meta] {
        /// The id of this call, which its result refers to.
        id: String as impl Into<String>,
        /// The tool.
        name: String as impl Into<String>,
        /// The arguments: an object.
        input: Raw,
        ---
    }
}

record! {
    /// The result of a tool call of the model.
    ToolResultContent "type": "tool_result" [meta] {
        /// The id of the call.
        tool_use_id: String as impl Into<String>,
        /// The content of the result.
        content: Vec<Content>,
        ---
        /// The structured result, for programs. `null` is `Some`, an absent member is `None`.
        structured_content: Raw | null => with_structured_content,
        /// Whether the tool failed. Absent: `false`.
        is_error: bool => with_is_error,
    }
}

record! {
    /// Preferences for the choice of a model. Hints come first, then the three priorities, from 0 (irrelevant) to 1.
    #[derive(Default)]
    ModelPreferences {
        ---
        /// Model hints in order of preference.
        hints: Vec<ModelHint> => with_hints,
        /// The priority of low cost.
        cost_priority: f64 | number => with_cost_priority,
        /// The priority of speed.
        speed_priority: f64 | number => with_speed_priority,
        /// The priority of capability.
        intelligence_priority: f64 | number => with_intelligence_priority,
    }
}

record! {
    /// A model hint.
    #[derive(Default)]
    ModelHint {
        ---
        /// The name of a model or a part of it. The client may use an equivalent model of another family.
        name: String => with_name,
    }
}

open! {
    /// The servers whose context the client should add.
    IncludeContext {
        /// None.
        None = "none",
        /// The server that sent the request.
        ThisServer = "thisServer",
        /// All servers.
        AllServers = "allServers",
    }
}

record! {
    /// Whether the model must use tools.
    #[derive(Default)]
    ToolChoice {
        ---
        /// Absent: `auto`.
        mode: ToolChoiceMode => with_mode,
    }
}

open! {
    /// Whether the model must use tools.
    ToolChoiceMode {
        /// The model decides.
        Auto = "auto",
        /// At least one tool.
        Required = "required",
        /// No tool.
        None = "none",
    }
}

record! {
    /// Result of `sampling/createMessage`.
    CreateMessageResult [result] {
        /// The sender: the model.
        role: Role,
        /// The content.
        content: SamplingContents as impl Into<SamplingContents>,
        /// The name of the model.
        model: String as impl Into<String>,
        ---
        /// Why the model stopped, if known.
        stop_reason: StopReason => with_stop_reason,
    }
}

impl CreateMessageResult {
    /// The texts of the message, joined by line feeds. Content of other kinds is left out.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.content.to_text()
    }

    /// A text that the model with this name has written.
    #[must_use]
    pub fn text(text: impl Into<String>, model: impl Into<String>) -> Self {
        Self::new(Role::Assistant, SamplingContent::text(text), model)
    }
}

open! {
    /// Why a model stopped.
    StopReason {
        /// The response is complete.
        EndTurn = "endTurn",
        /// A stop sequence was generated.
        StopSequence = "stopSequence",
        /// The maximum number of tokens was reached.
        MaxTokens = "maxTokens",
        /// The model calls tools.
        ToolUse = "toolUse",
    }
}
