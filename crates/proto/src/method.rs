//! The methods of the protocol, in one table: what each is, who sends it, in which revisions, and what must
//! have been declared for it.
//!
//! Taken from the official schemas of the five revisions
//! (<https://github.com/modelcontextprotocol/modelcontextprotocol/tree/main/schema>).

use alloc::boxed::Box;
use core::fmt;

use crate::Version;

/// Who sends a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The client asks or tells the server.
    ToServer,
    /// The server asks or tells the client.
    ToClient,
    /// Either side.
    Both,
}

/// Whether a method is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    /// It has a response.
    Request,
    /// It has none.
    Notification,
    /// It is no message of its own in any revision that it is part of: it travels inside the `inputRequests`
    /// of a result (2026-07-28), and as a request up to 2025-11-25.
    Input,
}

/// A capability that must have been declared before a method may be used: the declaring side, and the path
/// of the member, as in `resources.subscribe`.
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
    /// The name on the wire.
    pub name: &'static str,
    /// Whether it is answered.
    pub kind: MethodKind,
    /// Who sends it.
    pub direction: Direction,
    /// The first revision that has it.
    pub since: Version,
    /// The last revision that has it.
    pub until: Version,
    /// What must have been declared.
    pub needs: Needs,
}

impl MethodFacts {
    /// Whether a revision has this method as a message. Unknown revisions have none.
    #[must_use]
    pub fn exists_in(&self, version: &Version) -> bool {
        match (self.since.rank(), version.rank(), self.until.rank()) {
            (Some(since), Some(rank), Some(until)) => since <= rank && rank <= until,
            _ => false,
        }
    }
}

/// Writes the enum, its names and its table from one list, so that none can lack a row.
macro_rules! methods {
    ($( $(#[$doc:meta])* $variant:ident = $name:literal, $kind:ident, $direction:ident, $since:ident ..= $until:ident, $needs:expr; )*) => {
        /// A method by name.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Method {
            $( $(#[$doc])* $variant, )*
            /// A method that no revision knows, under the name it was sent with.
            Other(Box<str>),
        }

        impl Method {
            /// Every method of every revision.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// The method of that name.
            #[must_use]
            pub fn parse(name: &str) -> Self {
                match name {
                    $( $name => Self::$variant, )*
                    other => Self::Other(other.into()),
                }
            }

            /// The same from the bytes of the name; `None` for one that no revision knows.
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

            /// The name on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $name, )*
                    Self::Other(name) => name,
                }
            }

            /// The bytes of a name that its sender has chosen: none where it is known.
            pub(crate) fn held(&self) -> usize {
                match self {
                    Self::Other(name) => name.len(),
                    _ => 0,
                }
            }

            /// The method's row; `None` for one that no revision knows.
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
    /// Whether a result of this method may ask for input instead
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
    /// The client has accepted the answer to `initialize`.
    Initialized = "notifications/initialized", Notification, ToServer, V2024_11_05 ..= V2025_11_25, Nothing;
    /// Is the peer alive?
    Ping = "ping", Request, Both, V2024_11_05 ..= V2025_11_25, Nothing;
    /// What a modern server is and speaks.
    Discover = "server/discover", Request, ToServer, V2026_07_28 ..= V2026_07_28, Nothing;
    /// Opens a stream of notifications.
    Listen = "subscriptions/listen", Request, ToServer, V2026_07_28 ..= V2026_07_28, Nothing;
    /// The first message of such a stream: what of the filter the server honours.
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged", Notification, ToClient, V2026_07_28 ..= V2026_07_28, Nothing;
    /// The sender no longer wants the answer.
    Cancelled = "notifications/cancelled", Notification, Both, V2024_11_05 ..= V2026_07_28, Nothing;
    /// How far a request is.
    Progress = "notifications/progress", Notification, Both, V2024_11_05 ..= V2026_07_28, Nothing;
    /// A page of tools.
    ListTools = "tools/list", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("tools");
    /// Runs a tool.
    CallTool = "tools/call", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("tools");
    /// The list of tools is another one now.
    ToolListChanged = "notifications/tools/list_changed", Notification, ToClient, V2024_11_05 ..= V2026_07_28, Server("tools.listChanged");
    /// A page of resources.
    ListResources = "resources/list", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("resources");
    /// A page of resource templates.
    ListResourceTemplates = "resources/templates/list", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("resources");
    /// The contents of a resource.
    ReadResource = "resources/read", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("resources");
    /// Asks to be told when a resource changes.
    Subscribe = "resources/subscribe", Request, ToServer, V2024_11_05 ..= V2025_11_25, Server("resources.subscribe");
    /// Takes that back.
    Unsubscribe = "resources/unsubscribe", Request, ToServer, V2024_11_05 ..= V2025_11_25, Server("resources.subscribe");
    /// A resource has changed.
    ResourceUpdated = "notifications/resources/updated", Notification, ToClient, V2024_11_05 ..= V2026_07_28, Server("resources.subscribe");
    /// The list of resources is another one now.
    ResourceListChanged = "notifications/resources/list_changed", Notification, ToClient, V2024_11_05 ..= V2026_07_28, Server("resources.listChanged");
    /// A page of prompts.
    ListPrompts = "prompts/list", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("prompts");
    /// A prompt with its arguments filled in.
    GetPrompt = "prompts/get", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("prompts");
    /// The list of prompts is another one now.
    PromptListChanged = "notifications/prompts/list_changed", Notification, ToClient, V2024_11_05 ..= V2026_07_28, Server("prompts.listChanged");
    /// Proposals for the value of an argument. The capability `completions` came with 2025-03-26; before, any
    /// server could be asked, so the session does not hold this row against a 2024-11-05 server.
    Complete = "completion/complete", Request, ToServer, V2024_11_05 ..= V2026_07_28, Server("completions");
    /// From which level on the client wants log messages.
    SetLevel = "logging/setLevel", Request, ToServer, V2024_11_05 ..= V2025_11_25, Server("logging");
    /// A log message.
    LogMessage = "notifications/message", Notification, ToClient, V2024_11_05 ..= V2026_07_28, Server("logging");
    /// Asks the client's model for a message.
    CreateMessage = "sampling/createMessage", Input, ToClient, V2024_11_05 ..= V2025_11_25, Client("sampling");
    /// Asks the client's user for input.
    Elicit = "elicitation/create", Input, ToClient, V2025_06_18 ..= V2025_11_25, Client("elicitation");
    /// The user has done what a URL elicitation asked for.
    ElicitationComplete = "notifications/elicitation/complete", Notification, ToClient, V2025_11_25 ..= V2025_11_25, Client("elicitation.url");
    /// Asks the client for its roots.
    ListRoots = "roots/list", Input, ToClient, V2024_11_05 ..= V2025_11_25, Client("roots");
    /// The client's roots are others now.
    RootsListChanged = "notifications/roots/list_changed", Notification, ToServer, V2024_11_05 ..= V2025_11_25, Client("roots.listChanged");
    /// How a task stands. Part of the core in 2025-11-25, of an extension in 2026-07-28.
    GetTask = "tasks/get", Request, Both, V2025_11_25 ..= V2026_07_28, Nothing;
    /// The result of a task, waited for: 2025-11-25 alone.
    GetTaskResult = "tasks/result", Request, Both, V2025_11_25 ..= V2025_11_25, Nothing;
    /// A page of tasks: 2025-11-25 alone.
    ListTasks = "tasks/list", Request, Both, V2025_11_25 ..= V2025_11_25, Nothing;
    /// Ends a task early.
    CancelTask = "tasks/cancel", Request, Both, V2025_11_25 ..= V2026_07_28, Nothing;
    /// Gives a task the input it asked for: the extension of 2026-07-28.
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
