//! Completion: suggested values for an argument while the user types it.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion>.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

record! {
    /// Parameters of `completion/complete`.
    CompleteParams [request] {
        /// The prompt or resource template of the argument.
        reference "ref": Reference as impl Into<Reference>,
        /// The argument.
        argument: CompleteArgument,
        ---
        /// Context for the completion; since 2025-06-18.
        context: CompleteContext => with_context,
    }
}

union! {
    /// The owner of an argument.
    Reference {
        /// A prompt.
        "ref/prompt" => Prompt(PromptReference),
        /// A resource template.
        "ref/resource" => Resource(ResourceTemplateReference),
    }
}

record! {
    /// A reference to a prompt.
    PromptReference "type": "ref/prompt" {
        /// The name, for programs.
        name: String as impl Into<String>,
        ---
        /// The display name; since 2025-06-18.
        title: String => with_title,
    }
}

record! {
    /// A reference to a resource or a resource template.
    ResourceTemplateReference "type": "ref/resource" {
        /// The URI or URI template.
        uri: String as impl Into<String>,
        ---
    }
}

record! {
    /// The argument to complete.
    CompleteArgument {
        /// The name.
        name: String as impl Into<String>,
        /// The value typed so far.
        value: String as impl Into<String>,
        ---
    }
}

record! {
    /// Context for a completion.
    #[derive(Default)]
    CompleteContext {
        ---
        /// The other arguments with their values.
        arguments: BTreeMap<String, String> => with_arguments,
    }
}

record! {
    /// Result of `completion/complete`.
    CompleteResult [result] {
        /// The suggestions.
        completion: Completion,
        ---
    }
}

record! {
    /// Suggested values.
    Completion {
        /// The best values in order; at most [`Completion::MAX_VALUES`].
        values: Vec<String>,
        ---
        /// The total number of suggestions.
        total: i64 => with_total,
        /// Whether there are more suggestions.
        has_more: bool => with_has_more,
    }
}

impl Completion {
    /// The maximum number of values in a result, by the specification.
    pub const MAX_VALUES: usize = 100;
}
