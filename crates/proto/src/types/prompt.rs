//! Prompts: message templates of a server for its users.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/prompts>.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::content::{Content, Role, join_lines};
use super::lifecycle::Icon;

record! {
    /// A prompt.
    Prompt [item] {
        /// The name, which identifies the prompt.
        name: String as impl Into<String>,
        ---
        /// The display name; since 2025-06-18.
        title: String => with_title,
        /// The description.
        description: String => with_description,
        /// The arguments.
        arguments: Vec<PromptArgument> => with_arguments,
        /// Icons; since 2025-11-25.
        icons: Vec<Icon> => with_icons,
    }
}

record! {
    /// An argument of a prompt.
    PromptArgument {
        /// The name, for programs.
        name: String as impl Into<String>,
        ---
        /// The display name; since 2025-06-18.
        title: String => with_title,
        /// The description of the expected value.
        description: String => with_description,
        /// Whether the argument is required. Absent: `false`.
        required: bool => with_required,
    }
}

record! {
    /// Result of `prompts/list`.
    ListPromptsResult [page cached result] {
        /// The prompts of this page.
        prompts: Vec<Prompt>,
        ---
    }
}

record! {
    /// Parameters of `prompts/get`.
    GetPromptParams [retry request] {
        /// The name of the prompt.
        name: String as impl Into<String>,
        ---
        /// The values of the arguments.
        arguments: BTreeMap<String, String> => with_arguments,
    }
}

record! {
    /// Result of `prompts/get`.
    GetPromptResult [result] {
        /// The messages.
        messages: Vec<PromptMessage>,
        ---
        /// The description of the prompt.
        description: String => with_description,
    }
}

impl GetPromptResult {
    /// The texts of all messages, joined by line feeds. Content of other kinds is left out.
    #[must_use]
    pub fn to_text(&self) -> String {
        join_lines(self.messages.iter().filter_map(|message| message.content.as_text()))
    }
}

record! {
    /// A message of a prompt.
    PromptMessage {
        /// The sender.
        role: Role,
        /// The content.
        content: Content as impl Into<Content>,
        ---
    }
}
