//! The table of methods: direction, kind, revisions, and required capability.
//!
//! From the official schemas of the five revisions
//! (<https://github.com/modelcontextprotocol/modelcontextprotocol/tree/main/schema>).

use alloc::boxed::Box;
use core::fmt;

use crate::Version;

/// Who sends a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The client sends it to the server.
    ToServer,
    /// The server sends it to the client.
    ToClient,
    /// Both sides send it.
    Both,
}

/// Whether a method has a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    /// It has a response.
    Request,
    /// It has none.
    Notification,
    /// A request until 2025-11-25, and an entry in the `inputRequests` of a result since 2026-07-28.
    Input,
}

/// The capability that a method needs: the side that declares it, and the path of the member, as in
/// `resources.subscribe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// A capability of the server.
    Server(&'static str),
    /// A capability of the client.
    Client(&'static str),
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodFacts {
    /// The name in messages.
    pub name: &'static str,
    /// Whether it has a response.
    pub kind: MethodKind,
    /// Who sends it.
    pub direction: Direction,
    /// The first revision that has it.
    pub since: Version,
    /// The last revision that has it.
    pub until: Version,
    /// The capability that must be declared.
    pub needs: Needs,
}

impl MethodFacts {
    /// Whether a revision has this method as a message. False for unknown revisions.
    #[must_use]
    pub fn exists_in(&self, version: &Version) -> bool {
        match (self.since.rank(), version.rank(), self.until.rank()) {
            (Some(since), Some(rank), Some(until)) => since <= rank && rank <= until,
            _ => false,
        }
    }
}

/// Declares the enum, the names and the table from one list.
macro_rules! methods {
    ($( $(#[$doc:meta])* $variant:ident = $name:literal, $kind:ident, $direction:ident, $since:ident ..= $until:ident, $needs:expr; )*) => {
        /// A method by name.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Method {
            $( $(#[$doc])* $variant, )*
            /// An unknown method.
            Other(Box<str>),
        }

        impl Method {
            /// All methods of all revisions.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// The method with this name.
            #[must_use]
            pub fn parse(name: &str) -> Self {
                match name {
                    $( $name => Self::$variant, )*
                    other => Self::Other(other.into()),
                }
            }

            /// The known method with this name, from bytes.
            #[allow(non_upper_case_globals, reason = "named after the variants")]
            pub(crate) fn known(name: &[u8]) -> Option<Self> {
                $(
                    const $variant: &[u8] = $name.as_bytes();
                )*
                match name {
                    $( $variant => Some(Self::$variant), )*
                    _ => None,
                }
            }

            /// The name in messages.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $name, )*
                    Self::Other(name) => name,
                }
            }

            /// The bytes of memory that the peer controls: none for a known method.
            pub(crate) fn held(&self) -> usize {
                match self {
                    Self::Other(name) => name.len(),
                    _ => 0,
                }
            }

            /// The row of the method; `None` for an unknown one.
            #[must_use]
            pub fn facts(&self) -> Option<&'static MethodFacts> {
                match self {
                    $( Self::$variant => {
                        static FACTS: MethodFacts = MethodFacts {
                            name: $name,
                            kind: MethodKind::$kind,
                            direction: Direction::$direction,
                            since: Version::$since,
                            until: Version::$until,
                            needs: $needs,
                        };
                        Some(&FACTS)
                    } )*
                    Self::Other(_) => None,
                }
            }
        }
    };
}

impl Method {
    /// Whether a result of this method may request input
    /// (<https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>).
    #[must_use]
    pub const fn may_need_input(&self) -> bool {
        matches!(self, Self::CallTool | Self::GetPrompt | Self::ReadResource)
    }

    /// Whether a result of this method carries caching hints
    /// (<https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>).
    #[must_use]
    pub const fn is_cacheable(&self) -> bool {
        matches!(
            self,
            Self::Discover
                | Self::ListTools
                | Self::ListPrompts
                | Self::ListResources
                | Self::ListResourceTemplates
                | Self::ReadResource
        )
    }
}

use Needs::{Client, Nothing, Server};

methods! {
    /// Opens a legacy session.
    Initialize = "initialize", Request, ToServer, V2024_11_05 ..= V2025_11_25, Nothing;
    /// The client has accepted the result of `initialize`.
    Initialized = "notifications/initialized", Notification, ToServer, V2024_11_05 ..= V2025_11_25, Nothing;
    /// Checks that the peer is alive.
    Ping = "ping", Request, Both, V2024_11_05 ..= V2025_11_25, Nothing;
    /// Describes a modern server.
    Discover = "server/discover", Request, ToServer, V2026_07_28 ..= V2026_07_28, Nothing;
    /// Opens a stream of notifications.
    Listen = "subscriptions/listen", Request, ToServer, V2026_07_28 ..= V2026_07_28, Nothing;
    /// The first message of such a stream: the supported part of the filter.
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged", Notification, ToClient, V2026_07_28 ..= V2026_07_28, Nothing;
    /// The sender does not wait for the response any more.
    Cancelled = "notifications/cancelled", Notification, Both, V2024_11_05 ..= V2026_07_28, Nothing;
    /// Progress of a request.
    Progress = "notifications/progress", Notification, Both, V2024_11_05 ..= V2026_07_28, Nothing;
    /// A page of tools.
    ListTools = "tools/list", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("tools");
    /// Runs a tool.
    CallTool = "tools/call", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("tools");
    /// The tool list has changed.
    ToolListChanged = "notifications/tools/list_changed", Notification, ToClient, V2024_11_05 ..= V2026_07_28, Server("tools.listChanged");
    /// A page of resources.
    ListResources = "resources/list", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("resources");
    /// A page of resource templates.
    ListResourceTemplates = "resources/templates/list", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("resources");
    /// The contents of a resource.
    ReadResource = "resources/read", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("resources");
    /// Subscribes to changes of a resource.
    Subscribe = "resources/subscribe", Request, ToServer, V2024_11_05 ..= V2025_11_25, Server("resources.subscribe");
    /// Ends this subscription.
    Unsubscribe = "resources/unsubscribe", Request, ToServer, V2024_11_05 ..= V2025_11_25, Server("resources.subscribe");
    /// A resource has changed.
    ResourceUpdated = "notifications/resources/updated", Notification, ToClient, V2024_11_05 ..= V2026_07_28, Server("resources.subscribe");
    /// The resource list has changed.
    ResourceListChanged = "notifications/resources/list_changed", Notification, ToClient, V2024_11_05 ..= V2026_07_28, Server("resources.listChanged");
    /// A page of prompts.
    ListPrompts = "prompts/list", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("prompts");
    /// A prompt with its arguments.
    GetPrompt = "prompts/get", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("prompts");
    /// The prompt list has changed.
    PromptListChanged = "notifications/prompts/list_changed", Notification, ToClient, V2024_11_05 ..= V2026_07_28, Server("prompts.listChanged");
    /// Suggested values for an argument. 2024-11-05 has no capability `completions`, so the session does not require it
    /// there.
    Complete = "completion/complete", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("completions");
    /// The minimum level of log messages.
    SetLevel = "logging/setLevel", Request, ToServer, V2024_11_05 ..= V2025_11_25, Server("logging");
    /// A log message.
    LogMessage = "notifications/message", Notification, ToClient, V2024_11_05 ..= V2026_07_28, Server("logging");
    /// Requests a message of the client's model.
    CreateMessage = "sampling/createMessage", Input, ToClient, V2024_11_05 ..= V2025_11_25, Client("sampling");
    /// Requests input of the client's user.
    Elicit = "elicitation/create", Input, ToClient, V2025_06_18 ..= V2025_11_25, Client("elicitation");
    /// The user has finished a URL elicitation.
    ElicitationComplete = "notifications/elicitation/complete", Notification, ToClient, V2025_11_25 ..= V2025_11_25, Client("elicitation.url");
    /// Requests the client's roots.
    ListRoots = "roots/list", Input, ToClient, V2024_11_05 ..= V2025_11_25, Client("roots");
    /// The client's roots have changed.
    RootsListChanged = "notifications/roots/list_changed", Notification, ToServer, V2024_11_05 ..= V2025_11_25, Client("roots.listChanged");
    /// The status of a task. A core method in 2025-11-25, of an extension in 2026-07-28.
    GetTask = "tasks/get", Request, Both, V2025_11_25 ..= V2026_07_28, Nothing;
    /// Waits for the result of a task: 2025-11-25 alone.
    GetTaskResult = "tasks/result", Request, Both, V2025_11_25 ..= V2025_11_25, Nothing;
    /// A page of tasks: 2025-11-25 alone.
    ListTasks = "tasks/list", Request, Both, V2025_11_25 ..= V2025_11_25, Nothing;
    /// Cancels a task.
    CancelTask = "tasks/cancel", Request, Both, V2025_11_25 ..= V2026_07_28, Nothing;
    /// Responds to the input requests of a task: the extension of 2026-07-28.
    UpdateTask = "tasks/update", Request, ToServer, V2026_07_28 ..= V2026_07_28, Nothing;
    /// A task has a new status: 2025-11-25.
    TaskStatus = "notifications/tasks/status", Notification, Both, V2025_11_25 ..= V2025_11_25, Nothing;
    /// A task has a new status: the extension of 2026-07-28.
    Tasks = "notifications/tasks", Notification, ToClient, V2026_07_28 ..= V2026_07_28, Nothing;
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_methods() {
        for method in Method::ALL {
            assert_eq!(Method::parse(method.as_str()), *method);
            assert_eq!(method.facts().map(|facts| facts.name), Some(method.as_str()));
        }
        assert_eq!(Method::parse("Tools/call"), Method::Other("Tools/call".into()));
    }

    #[test]
    fn until_is_never_before_since() {
        for facts in Method::ALL.iter().filter_map(Method::facts) {
            assert!(facts.exists_in(&facts.since), "{}", facts.name);
            assert!(facts.exists_in(&facts.until), "{}", facts.name);
        }
    }
}
