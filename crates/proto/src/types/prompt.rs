//! Prompts: messages for a model that a server has ready for its user.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/prompts>.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::content::{Content, Role};
use super::input::InputResponses;
use super::lifecycle::Icon;
use super::meta::Meta;
use super::page::CacheScope;

record! {
    /// A prompt.
    Prompt {
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
        /// What is said beside it; since 2025-06-18.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
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
    ListPromptsResult {
        /// The prompts of this page.
        prompts: Vec<Prompt>,
        ---
        /// Where the next page begins; absent on the last one.
        next_cursor: String => with_next_cursor,
        /// How long the result stays fresh, in milliseconds from its arrival. Absent or negative: not at all.
        ttl_ms: i64 => with_ttl_ms,
        /// Who may be given the cached result.
        cache_scope: CacheScope => with_cache_scope,
        /// Set by the session's envelope; `None` when written by hand.
        result_type: String,
        /// What is said beside the result.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
    }
}

record! {
    /// Parameters of `prompts/get`.
    GetPromptParams {
        /// The prompt.
        name: String as impl Into<String>,
        ---
        /// What is filled in.
        arguments: BTreeMap<String, String> => with_arguments,
        /// The answers to what the server asked for in its last reply; since 2026-07-28.
        input_responses: InputResponses => with_input_responses,
        /// What the server's last reply said is to be given back, unchanged; since 2026-07-28.
        request_state: String => with_request_state,
        /// What is said beside the request.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
    }
}

record! {
    /// Result of `prompts/get`.
    GetPromptResult {
        /// The messages.
        messages: Vec<PromptMessage>,
        ---
        /// What the prompt is for.
        description: String => with_description,
        /// Set by the session's envelope; `None` when written by hand.
        result_type: String,
        /// What is said beside the result.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
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
