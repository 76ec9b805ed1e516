//! Tools: what a model can have a server do.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/tools>. Schemas, arguments and structured
//! results stay JSON texts: nothing here validates one against the other.

use alloc::string::String;
use alloc::vec::Vec;

use super::content::Content;
use super::lifecycle::Icon;
use super::record;
use super::task::TaskMetadata;
use crate::{Raw, json};

record! {
    /// A tool.
    Tool [item] {
        /// Its name, by which it is called.
        name: String as impl Into<String>,
        /// The JSON Schema of its arguments: an object schema.
        input_schema: Raw,
        ---
        /// Its name, for people; since 2025-06-18.
        title: String => with_title,
        /// What it does, for a model.
        description: String => with_description,
        /// The JSON Schema of its structured result; since 2025-06-18. Until 2025-11-25 an object schema.
        output_schema: Raw => with_output_schema,
        /// What it does to the world; since 2025-03-26.
        annotations: ToolAnnotations => with_annotations,
        /// Its pictures; since 2025-11-25.
        icons: Vec<Icon> => with_icons,
        /// How it may be run; 2025-11-25 alone.
        execution: ToolExecution => with_execution,
    }
}

record! {
    /// What a tool does to the world, in the server's words: hints, not to be relied on unless the server is
    /// trusted. The specification says what an absent one means.
    #[derive(Default)]
    ToolAnnotations {
        ---
        /// Its name, for people, where the tool itself has no title.
        title: String => with_title,
        /// It changes nothing. Absent: `false`.
        read_only_hint: bool => with_read_only_hint,
        /// It may destroy and not only add. Absent: `true`.
        destructive_hint: bool => with_destructive_hint,
        /// Doing it again with the same arguments changes nothing more. Absent: `false`.
        idempotent_hint: bool => with_idempotent_hint,
        /// It deals with things outside the server's own world. Absent: `true`.
        open_world_hint: bool => with_open_world_hint,
    }
}

record! {
    /// How a tool may be run; 2025-11-25 alone.
    #[derive(Default)]
    ToolExecution {
        ---
        /// Whether it can be run as a task. Absent: not.
        task_support: TaskSupport => with_task_support,
    }
}

open! {
    /// Whether a tool can be run as a task.
    TaskSupport {
        /// It cannot.
        Forbidden = "forbidden",
        /// It can.
        Optional = "optional",
        /// It cannot be run otherwise.
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
        /// The tool.
        name: String as impl Into<String>,
        ---
        /// Its arguments: an object.
        arguments: Raw => with_arguments,
        /// Asks for a task instead of the result; 2025-11-25 alone.
        task: TaskMetadata => with_task,
    }
}

record! {
    /// Result of `tools/call`.
    CallToolResult [result] {
        /// What the tool gives, for a model. Read as empty when it is absent: not every server writes it
        /// beside a structured result.
        #[serde(default)]
        content: Vec<Content>,
        ---
        /// The same for a program: what the tool's output schema describes; since 2025-06-18. An object until
        /// 2025-11-25, any value after that, `null` too: that is `Some`, an absent member is `None`.
        #[serde(deserialize_with = "record::present")]
        structured_content: Raw => with_structured_content,
        /// The tool has failed, and the content says how. Absent: it has not.
        is_error: bool => with_is_error,
    }
}

impl CallToolResult {
    /// A result of one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(alloc::vec![Content::text(text)])
    }

    /// A result of one text as JSON, which is the same in all revisions. A large text becomes its result where it
    /// lies, without a second one beside it.
    #[must_use]
    pub fn written_text(text: String) -> Raw {
        const BEFORE: &[u8] = br#"{"content":[{"type":"text","text":"#;
        const AFTER: &[u8] = b"}]}";
        // A smaller one is written sooner than it is moved.
        const LARGE: usize = 16 * 1024;
        let written = if text.len() < LARGE {
            let mut written = Vec::with_capacity(BEFORE.len() + text.len() + 128);
            written.extend_from_slice(BEFORE);
            json::append_string(&text, &mut written);
            written.extend_from_slice(AFTER);
            written
        } else {
            json::enclose_string(text, BEFORE, AFTER)
        };
        Raw::trusted(written.into())
    }

    /// The tool has failed: the text says how, in a way that lets a model do better.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self::text(text).with_is_error(true)
    }

    /// A structured result, and the same as text for those who read no structured results.
    #[must_use]
    pub fn structured(value: Raw) -> Self {
        Self::text(value.as_str()).with_structured_content(value)
    }
}
