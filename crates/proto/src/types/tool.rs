//! Tools: functions of a server that a model can call.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/tools>. Schemas, arguments and structured results
//! stay JSON text and are not validated here.

use alloc::string::String;
use alloc::vec::Vec;

use super::content::Content;
use super::lifecycle::Icon;
use super::task::TaskMetadata;
use crate::{Raw, json};

record! {
    /// A tool.
    Tool [item] {
        /// The name, which identifies the tool.
        name: String as impl Into<String>,
        /// The JSON Schema of the arguments: an object schema.
        input_schema: Raw,
        ---
        /// The display name; since 2025-06-18.
        title: String => with_title,
        /// The description, for a model.
        description: String => with_description,
        /// The JSON Schema of the structured result; since 2025-06-18. Until 2025-11-25 an object schema.
        output_schema: Raw => with_output_schema,
        /// The effects of the tool; since 2025-03-26.
        annotations: ToolAnnotations => with_annotations,
        /// Icons; since 2025-11-25.
        icons: Vec<Icon> => with_icons,
        /// How the tool may be run; 2025-11-25 alone.
        execution: ToolExecution => with_execution,
    }
}

record! {
    /// The effects of a tool, as the server describes them: hints that a client must not rely on unless it trusts the
    /// server. The specification defines the defaults.
    #[derive(Default)]
    ToolAnnotations {
        ---
        /// The display name, when the tool itself has no title.
        title: String => with_title,
        /// The tool modifies nothing. Absent: `false`.
        read_only_hint: bool => with_read_only_hint,
        /// The tool may destroy data, and not only add some. Absent: `true`.
        destructive_hint: bool => with_destructive_hint,
        /// A repeated call with the same arguments has no further effect. Absent: `false`.
        idempotent_hint: bool => with_idempotent_hint,
        /// The tool interacts with entities outside the server. Absent: `true`.
        open_world_hint: bool => with_open_world_hint,
    }
}

record! {
    /// How a tool may be run; 2025-11-25 alone.
    #[derive(Default)]
    ToolExecution {
        ---
        /// Whether the tool can run as a task. Absent: `forbidden`.
        task_support: TaskSupport => with_task_support,
    }
}

open! {
    /// Whether a tool can run as a task.
    TaskSupport {
        /// Never.
        Forbidden = "forbidden",
        /// If the client asks for it.
        Optional = "optional",
        /// Always.
        Required = "required",
    }
}

record! {
    /// Result of `tools/list`.
    ListToolsResult [page cached result] {
        /// The tools of this page.
        tools: Vec<Tool>,
        ---
    }
}

record! {
    /// Parameters of `tools/call`.
    CallToolParams [retry request] {
        /// The name of the tool.
        name: String as impl Into<String>,
        ---
        /// The arguments: an object.
        arguments: Raw => with_arguments,
        /// Requests a task instead of the result; 2025-11-25 alone.
        task: TaskMetadata => with_task,
    }
}

record! {
    /// Result of `tools/call`.
    CallToolResult [result] {
        /// The content, for a model. Read as empty when it is absent: some servers omit it beside a structured result.
        content: Vec<Content> | default,
        ---
        /// The structured result, for programs, as the tool's output schema describes it; since 2025-06-18. An object
        /// until 2025-11-25, any value since then. `null` is `Some`, an absent member is `None`.
        structured_content: Raw | null => with_structured_content,
        /// The tool failed, and the content says why. Absent: `false`.
        is_error: bool => with_is_error,
    }
}

impl CallToolResult {
    /// A result with one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(alloc::vec![Content::text(text)])
    }

    /// A result with one text as JSON, which is the same in all revisions. A large text is converted in place, without
    /// a second copy.
    #[must_use]
    pub fn text_json(text: String) -> Raw {
        json::raw_with_string(br#"{"content":[{"type":"text","text":"#, text, b"}]}")
    }

    /// A failed result. The text should help the model to correct its call.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self::text(text).with_is_error(true)
    }

    /// A structured result, and the same as text for clients without structured results.
    #[must_use]
    pub fn structured(value: Raw) -> Self {
        Self::text(value.as_str()).with_structured_content(value)
    }
}
