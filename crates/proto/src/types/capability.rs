//! What a client and a server say that they can do.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#capability-negotiation>. Used by the
//! session, which refuses what was not declared. Names that this crate does not know are kept, at every level:
//! a capability is an invitation, and a gateway passes on invitations that it does not understand.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::members::Members;
use crate::{Method, Raw};

/// Declares an object of capabilities: each known name optional (`null` reads as absent), the unknown ones kept
/// behind them in their order.
macro_rules! capability {
    ($(#[$attribute:meta])* $name:ident {
        $($(#[$doc:meta])* $word:literal $field:ident: $type:ty => $setter:ident,)*
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: Option<$type>,)*
            /// Members with names that this crate does not know, in their order.
            pub other: Members<Raw>,
        }

        impl $name {
            $(
                #[doc = concat!("The same with `", $word, "`.")]
                #[must_use]
                pub fn $setter(mut self, $field: impl Into<$type>) -> Self {
                    self.$field = Some($field.into());
                    self
                }
            )*
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut object = serializer.serialize_map(None)?;
                $(
                    if let Some(value) = &self.$field {
                        object.serialize_entry($word, value)?;
                    }
                )*
                for (name, value) in self.other.iter() {
                    object.serialize_entry(name, value)?;
                }
                object.end()
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Object;

                impl<'de> Visitor<'de> for Object {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object of capabilities")
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<$name, A::Error> {
                        let mut read = $name::default();
                        while let Some(name) = object.next_key::<String>()? {
                            match name.as_str() {
                                $(
                                    $word if read.$field.is_some() => {
                                        return Err(de::Error::duplicate_field($word));
                                    }
                                    $word => read.$field = object.next_value()?,
                                )*
                                _ => read.other.push(name, object.next_value()?),
                            }
                        }
                        read.other.refuse_duplicates()?;
                        Ok(read)
                    }
                }

                deserializer.deserialize_map(Object)
            }
        }
    };
}

capability! {
    /// What a client can do.
    ClientCapabilities {
        /// What is outside the specification, by name.
        "experimental" experimental: BTreeMap<String, Raw> => with_experimental,
        /// It has roots. Deprecated in 2026-07-28.
        "roots" roots: RootsCapability => with_roots,
        /// It can ask a model. Deprecated in 2026-07-28.
        "sampling" sampling: SamplingCapability => with_sampling,
        /// It can ask its user; since 2025-06-18.
        "elicitation" elicitation: ElicitationCapability => with_elicitation,
        /// It answers requests with tasks; 2025-11-25 alone.
        "tasks" tasks: Box<TasksCapability> => with_tasks,
        /// The extensions that it speaks, by name, with their settings; since 2026-07-28.
        "extensions" extensions: BTreeMap<String, Raw> => with_extensions,
    }
}

capability! {
    /// What a server can do.
    ServerCapabilities {
        /// What is outside the specification, by name.
        "experimental" experimental: BTreeMap<String, Raw> => with_experimental,
        /// It sends log messages. Deprecated in 2026-07-28.
        "logging" logging: Raw => with_logging,
        /// It proposes values for arguments; since 2025-03-26.
        "completions" completions: Raw => with_completions,
        /// It has prompts.
        "prompts" prompts: PromptsCapability => with_prompts,
        /// It has resources.
        "resources" resources: ResourcesCapability => with_resources,
        /// It has tools.
        "tools" tools: ToolsCapability => with_tools,
        /// It answers requests with tasks; 2025-11-25 alone.
        "tasks" tasks: Box<TasksCapability> => with_tasks,
        /// The extensions that it speaks, by name, with their settings; since 2026-07-28.
        "extensions" extensions: BTreeMap<String, Raw> => with_extensions,
    }
}

capability! {
    /// What a client does with roots.
    RootsCapability {
        /// It tells when they change; until 2025-11-25.
        "listChanged" list_changed: bool => with_list_changed,
    }
}

capability! {
    /// How a client asks a model.
    SamplingCapability {
        /// It adds context from servers when asked to (`includeContext`).
        "context" context: Raw => with_context,
        /// It lets the model use tools that the request brings along; since 2025-11-25.
        "tools" tools: Raw => with_tools,
    }
}

capability! {
    /// How a client asks its user. One that declares neither kind means forms.
    ElicitationCapability {
        /// With a form.
        "form" form: Raw => with_form,
        /// With a page in a browser; since 2025-11-25.
        "url" url: Raw => with_url,
    }
}

capability! {
    /// What a server does with its prompts.
    PromptsCapability {
        /// It tells when the list changes.
        "listChanged" list_changed: bool => with_list_changed,
    }
}

capability! {
    /// What a server does with its resources.
    ResourcesCapability {
        /// It tells when a resource changes that somebody has subscribed to.
        "subscribe" subscribe: bool => with_subscribe,
        /// It tells when the list changes.
        "listChanged" list_changed: bool => with_list_changed,
    }
}

capability! {
    /// What a server does with its tools.
    ToolsCapability {
        /// It tells when the list changes.
        "listChanged" list_changed: bool => with_list_changed,
    }
}

capability! {
    /// What a peer of 2025-11-25 does with tasks.
    TasksCapability {
        /// It answers `tasks/list`.
        "list" list: Raw => with_list,
        /// It answers `tasks/cancel`.
        "cancel" cancel: Raw => with_cancel,
        /// The requests that it answers with a task when asked to.
        "requests" requests: TaskRequestsCapability => with_requests,
    }
}

capability! {
    /// The requests that a peer of 2025-11-25 answers with a task, by the first half of their method's name.
    TaskRequestsCapability {
        /// A server's: `call`.
        "tools" tools: Raw => with_tools,
        /// A client's: `createMessage`.
        "sampling" sampling: Raw => with_sampling,
        /// A client's: `create`.
        "elicitation" elicitation: Raw => with_elicitation,
    }
}

impl TasksCapability {
    /// Whether a request of that method may ask for a task.
    #[must_use]
    pub fn covers(&self, method: &Method) -> bool {
        let Some(requests) = &self.requests else { return false };
        let Some((chapter, action)) = method.as_str().split_once('/') else { return false };
        let chapter = match chapter {
            "tools" => requests.tools.as_ref(),
            "sampling" => requests.sampling.as_ref(),
            "elicitation" => requests.elicitation.as_ref(),
            other => requests.other.get(other),
        };
        chapter.is_some_and(|chapter| chapter.member(action).is_some())
    }
}
