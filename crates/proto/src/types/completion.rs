//! Proposals for the value of an argument while its user types it.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion>.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

record! {
    /// Parameters of `completion/complete`.
    CompleteParams [request] {
        /// Whose argument it is.
        #[serde(rename = "ref")]
        reference: Reference as impl Into<Reference>,
        /// The argument.
        argument: CompleteArgument,
        ---
        /// What is known already; since 2025-06-18.
        context: CompleteContext => with_context,
    }
}

union! {
    /// Whose argument is to be completed.
    Reference by "type" {
        /// A prompt's.
        "ref/prompt" => Prompt(PromptReference),
        /// A resource template's.
        "ref/resource" => Resource(ResourceTemplateReference),
    }
}

record! {
    /// Names a prompt.
    #[serde(tag = "type", rename = "ref/prompt")]
    PromptReference {
        /// Its name, for programs.
        name: String as impl Into<String>,
        ---
        /// Its name, for people; since 2025-06-18.
        title: String => with_title,
    }
}

record! {
    /// Names a resource or a resource template.
    #[serde(tag = "type", rename = "ref/resource")]
    ResourceTemplateReference {
        /// Its URI or its URI template.
        uri: String as impl Into<String>,
        ---
    }
}

record! {
    /// The argument to complete.
    CompleteArgument {
        /// Its name.
        name: String as impl Into<String>,
        /// What has been typed of its value.
        value: String as impl Into<String>,
        ---
    }
}

record! {
    /// What is known already.
    #[derive(Default)]
    CompleteContext {
        ---
        /// The arguments that have their values.
        arguments: BTreeMap<String, String> => with_arguments,
    }
}

record! {
    /// Result of `completion/complete`.
    CompleteResult [result] {
        /// The proposals.
        completion: Completion,
        ---
    }
}

record! {
    /// Proposals for a value.
    Completion {
        /// The best ones, in order; at most [`Completion::MAX_VALUES`].
        values: Vec<String>,
        ---
        /// How many there are in all.
        total: i64 => with_total,
        /// Whether there are more than these.
        has_more: bool => with_has_more,
    }
}

impl Completion {
    /// How many values a result may have, by the specification.
    pub const MAX_VALUES: usize = 100;
}
