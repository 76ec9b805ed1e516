//! The capabilities of clients and servers.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#capability-negotiation>. Used by the
//! session, which rejects undeclared methods. Unknown members are kept at every level, so that a gateway can forward
//! capabilities that it does not know.

use alloc::boxed::Box;
use core::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::fields::Fields;
use super::members::Members;
use crate::{Method, Raw};

/// Declares a capability object. Known members are optional (`null` reads as absent); unknown members are kept in their
/// order behind them.
macro_rules! capability {
    ($(#[$attribute:meta])* $name:ident {
        $($(#[$doc:meta])* $word:literal $field:ident: $type:ty => $setter:ident,)*
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: Option<$type>,)*
            /// Unknown members in their order.
            pub other: Members<Raw>,
        }

        impl $name {
            $(
                #[doc = concat!("Sets `", $word, "`.")]
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
                #[allow(non_camel_case_types, reason = "the names of the fields")]
                enum Field { $($field,)* }
                const NAMES: &[&str] = &[$($word),*];

                fn index(name: &str) -> Option<usize> {
                    NAMES.iter().position(|known| *known == name)
                }

                struct Object;

                impl<'de> Visitor<'de> for Object {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object of capabilities")
                    }

                    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<$name, A::Error> {
                        let mut read = $name::default();
                        let mut fields = Fields::new(object, NAMES, index);
                        while let Some(field) = fields.next_or_other(&mut read.other) {
                            $(if field == Field::$field as usize { fields.optional(&mut read.$field); })*
                        }
                        fields.end()?;
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
    /// The capabilities of a client.
    ClientCapabilities {
        /// Experimental capabilities by name.
        "experimental" experimental: Members<Raw> => with_experimental,
        /// Roots. Deprecated in 2026-07-28.
        "roots" roots: RootsCapability => with_roots,
        /// Sampling. Deprecated in 2026-07-28.
        "sampling" sampling: SamplingCapability => with_sampling,
        /// Elicitation; since 2025-06-18.
        "elicitation" elicitation: ElicitationCapability => with_elicitation,
        /// Tasks for requests; 2025-11-25 alone.
        "tasks" tasks: Box<TasksCapability> => with_tasks,
        /// The supported extensions by name, with their settings; since 2026-07-28.
        "extensions" extensions: Members<Raw> => with_extensions,
    }
}

capability! {
    /// The capabilities of a server.
    ServerCapabilities {
        /// Experimental capabilities by name.
        "experimental" experimental: Members<Raw> => with_experimental,
        /// Log messages. Deprecated in 2026-07-28.
        "logging" logging: Raw => with_logging,
        /// Argument completion; since 2025-03-26.
        "completions" completions: Raw => with_completions,
        /// Prompts.
        "prompts" prompts: PromptsCapability => with_prompts,
        /// Resources.
        "resources" resources: ResourcesCapability => with_resources,
        /// Tools.
        "tools" tools: ToolsCapability => with_tools,
        /// Tasks for requests; 2025-11-25 alone.
        "tasks" tasks: Box<TasksCapability> => with_tasks,
        /// The supported extensions by name, with their settings; since 2026-07-28.
        "extensions" extensions: Members<Raw> => with_extensions,
    }
}

capability! {
    /// The roots capability of a client.
    RootsCapability {
        /// The client notifies the server when the roots change; until 2025-11-25.
        "listChanged" list_changed: bool => with_list_changed,
    }
}

capability! {
    /// The sampling capability of a client.
    SamplingCapability {
        /// The client can add context of servers (`includeContext`).
        "context" context: Raw => with_context,
        /// The model may use the tools of the request; since 2025-11-25.
        "tools" tools: Raw => with_tools,
    }
}

capability! {
    /// The elicitation capability of a client. An empty object means forms.
    ElicitationCapability {
        /// Forms.
        "form" form: Raw => with_form,
        /// Web pages; since 2025-11-25.
        "url" url: Raw => with_url,
    }
}

capability! {
    /// The prompts capability of a server.
    PromptsCapability {
        /// The server notifies clients when the list changes.
        "listChanged" list_changed: bool => with_list_changed,
    }
}

capability! {
    /// The resources capability of a server.
    ResourcesCapability {
        /// Clients can subscribe to changes of a resource.
        "subscribe" subscribe: bool => with_subscribe,
        /// The server notifies clients when the list changes.
        "listChanged" list_changed: bool => with_list_changed,
    }
}

capability! {
    /// The tools capability of a server.
    ToolsCapability {
        /// The server notifies clients when the list changes.
        "listChanged" list_changed: bool => with_list_changed,
    }
}

capability! {
    /// The tasks capability of 2025-11-25.
    TasksCapability {
        /// `tasks/list` is supported.
        "list" list: Raw => with_list,
        /// `tasks/cancel` is supported.
        "cancel" cancel: Raw => with_cancel,
        /// The requests that may become tasks.
        "requests" requests: TaskRequestsCapability => with_requests,
    }
}

capability! {
    /// The requests that may become tasks in 2025-11-25, by the first part of their method.
    TaskRequestsCapability {
        /// Of a server: `call`.
        "tools" tools: Raw => with_tools,
        /// Of a client: `createMessage`.
        "sampling" sampling: Raw => with_sampling,
        /// Of a client: `create`.
        "elicitation" elicitation: Raw => with_elicitation,
    }
}

impl TasksCapability {
    /// Whether a request of this method may ask for a task.
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
