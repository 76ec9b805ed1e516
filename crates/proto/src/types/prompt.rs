//! Prompts: messages for a model that a server has ready for its user.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/prompts>.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::content::{Content, Role};
use super::lifecycle::Icon;

record! {
    /// A prompt.
    Prompt [item] {
        /// Its name, by which it is asked for.
        name: String as impl Into<String>,
        ---
        /// Its name, for people; since 2025-06-18.
        title: String => with_title,
        /// What it is for.
        description: String => with_description,
        /// What can be filled in.
        arguments: Vec<PromptArgument> => with_arguments,
        /// Its pictures; since 2025-11-25.
        icons: Vec<Icon> => with_icons,
    }
}

record! {
    /// What can be filled in.
    PromptArgument {
        /// Its name, for programs.
        name: String as impl Into<String>,
        ---
        /// Its name, for people; since 2025-06-18.
        title: String => with_title,
        /// What belongs there.
        description: String => with_description,
        /// Whether it must be filled in. Absent: not.
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
        /// The prompt.
        name: String as impl Into<String>,
        ---
        /// What is filled in.
        arguments: BTreeMap<String, String> => with_arguments,
    }
}

record! {
    /// Result of `prompts/get`.
    GetPromptResult [result] {
        /// The messages.
        messages: Vec<PromptMessage>,
        ---
        /// What the prompt is for.
        description: String => with_description,
    }
}

record! {
    /// A message of a prompt.
    PromptMessage {
        /// Who speaks.
        role: Role,
        /// What is said.
        content: Content as impl Into<Content>,
        ---
    }
}
