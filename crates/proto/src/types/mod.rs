//! The protocol types: params, results and their parts, one file per chapter of the
//! [specification](https://modelcontextprotocol.io/specification).
//!
//! There is one type per concept, with all members of the five revisions; members that some revision lacks are
//! optional. The session adds and removes the members of an era's envelope (`resultType`, reserved keys of `_meta`).
//! The types also have these members, so that a complete message survives decoding and encoding. Used by the session
//! and by every reader of a [`Raw`](crate::Raw). The types do not check who may send what.
//!
//! Unknown members are ignored, except in extensible objects: capabilities, `_meta`, and unions, which keep an unknown
//! kind unchanged. An unknown word of an enumeration is kept as `Other`, because a later revision may add words.
//!
//! ```
//! use mcpjoin_proto::Raw;
//! use mcpjoin_proto::types::{CallToolResult, Content, Tool};
//!
//! let tool = Tool::new("add", Raw::parse(r#"{"type":"object"}"#)?).with_title("Add two numbers");
//! assert_eq!(
//!     Raw::from_value(&tool)?.as_str(),
//!     r#"{"name":"add","inputSchema":{"type":"object"},"title":"Add two numbers"}"#
//! );
//!
//! let result: CallToolResult = Raw::parse(r#"{"content":[{"type":"text","text":"3"}]}"#)?.decode()?;
//! assert_eq!(result.content.first().and_then(Content::as_text), Some("3"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[macro_use]
pub(crate) mod record;

pub mod capability;
pub mod completion;
pub mod content;
pub mod elicitation;
mod fields;
pub mod input;
pub mod lifecycle;
pub mod logging;
mod members;
pub mod meta;
pub mod page;
pub mod progress;
pub mod prompt;
mod protocol_type;
pub mod resource;
pub mod roots;
pub mod sampling;
pub mod schema;
pub mod subscription;
pub mod task;
pub mod tool;
mod tool_value;

pub use capability::{
    ClientCapabilities, ElicitationCapability, PromptsCapability, ResourcesCapability, RootsCapability,
    SamplingCapability, ServerCapabilities, TaskRequestsCapability, TasksCapability, ToolsCapability,
};
pub use completion::{
    CompleteArgument, CompleteContext, CompleteParams, CompleteResult, Completion, PromptReference,
    Reference, ResourceTemplateReference,
};
pub use content::{
    Annotations, AudioContent, BlobResourceContents, Content, EmbeddedResource, ImageContent,
    ResourceContents, ResourceLink, Role, TextContent, TextResourceContents,
};
pub use elicitation::{
    ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitUrlParams, ElicitationCompleteParams,
    ElicitationMode, UrlElicitationRequiredData,
};
pub use input::{InputRequest, InputRequests, InputRequired, InputResponse, InputResponses};
pub use lifecycle::{
    CancelledParams, DiscoverResult, Icon, IconTheme, Implementation, InitializeParams, InitializeResult,
    MissingCapabilityData, UnsupportedVersionData,
};
pub use logging::{LogMessageParams, LoggingLevel, SetLevelParams};
pub use members::Members;
pub use meta::{EmptyResult, Meta, NotificationParams, RequestParams};
pub use page::{CacheScope, PageParams};
pub use progress::ProgressParams;
pub use prompt::{
    GetPromptParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
};
pub use protocol_type::ProtocolType;
pub use resource::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceParams, ReadResourceResult, Resource,
    ResourceTemplate, ResourceUpdatedParams, SubscribeParams, UnsubscribeParams,
};
pub use roots::{ListRootsParams, ListRootsResult, Root};
pub use sampling::{
    CreateMessageParams, CreateMessageResult, IncludeContext, ModelHint, ModelPreferences, SamplingContent,
    SamplingContents, SamplingMessage, StopReason, ToolChoice, ToolChoiceMode, ToolResultContent,
    ToolUseContent,
};
pub use schema::{
    BooleanSchema, ElicitationSchema, EnumOption, LegacyTitledEnumSchema, NumberSchema, NumberType,
    PrimitiveSchema, StringFormat, StringSchema, TitledItems, TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema, UntitledItems, UntitledMultiSelectEnumSchema,
    UntitledSingleSelectEnumSchema,
};
pub use subscription::{AcknowledgedParams, ListenParams, ListenResult, SubscriptionFilter};
pub use task::{
    CancelTaskParams, CancelTaskResult, CreateTaskResult, ExtensionTask, GetTaskParams, GetTaskPayloadParams,
    GetTaskResult, ListTasksResult, RelatedTask, Task, TaskMetadata, TaskParams, TaskStatus,
    TaskStatusParams, UpdateTaskParams,
};
pub use tool::{
    CallToolParams, CallToolResult, ListToolsResult, TaskSupport, Tool, ToolAnnotations, ToolExecution,
};
pub use tool_value::ToolValueError;

#[cfg(test)]
mod tests;
