//! Streams of notifications that a client opens.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>. Used by the session,
//! which sends nothing that a filter did not ask for.

use alloc::string::String;
use alloc::vec::Vec;

use super::meta::Meta;

record! {
    /// What a stream is to carry. Absent is no.
    #[derive(Default)]
    SubscriptionFilter {
        ---
        /// Changes of the list of tools.
        tools_list_changed: bool => with_tools_list_changed,
        /// Changes of the list of prompts.
        prompts_list_changed: bool => with_prompts_list_changed,
        /// Changes of the list of resources.
        resources_list_changed: bool => with_resources_list_changed,
        /// Changes of the resources with these URIs, and of those inside them.
        resource_subscriptions: Vec<String> => with_resource_subscriptions,
        /// Changes of these tasks: the extension [`EXTENSION`](super::task::EXTENSION).
        task_ids: Vec<String> => with_task_ids,
    }
}

record! {
    /// Parameters of `subscriptions/listen`.
    ListenParams [request] {
        /// What the stream is to carry.
        notifications: SubscriptionFilter,
        ---
    }
}

record! {
    /// Parameters of `notifications/subscriptions/acknowledged`, the first message of a stream.
    AcknowledgedParams {
        /// The part of what was asked for that the server honours.
        notifications: SubscriptionFilter,
        ---
        /// What is said beside the notification: the stream it belongs to.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
    }
}

record! {
    /// Result of `subscriptions/listen`: the stream has ended, by the server's wish.
    #[derive(Default)]
    ListenResult {
        ---
        /// Set by the session's envelope; `None` when written by hand.
        result_type: String,
        /// What is said beside the result: the stream that has ended.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
    }
}
