//! Subscription streams that a client opens.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>. Used by the session, which
//! sends only notifications that match the filter.

use alloc::string::String;
use alloc::vec::Vec;

use super::meta::Meta;

record! {
    /// The notifications of a stream. An absent member means no.
    #[derive(Default)]
    SubscriptionFilter {
        ---
        /// Changes of the tool list.
        tools_list_changed: bool => with_tools_list_changed,
        /// Changes of the prompt list.
        prompts_list_changed: bool => with_prompts_list_changed,
        /// Changes of the resource list.
        resources_list_changed: bool => with_resources_list_changed,
        /// Changes of the resources with these URIs, and of their sub-resources.
        resource_subscriptions: Vec<String> => with_resource_subscriptions,
        /// Changes of these tasks: the extension [`EXTENSION`](super::task::EXTENSION).
        task_ids: Vec<String> => with_task_ids,
    }
}

record! {
    /// Parameters of `subscriptions/listen`.
    ListenParams [request] {
        /// The notifications to send.
        notifications: SubscriptionFilter,
        ---
    }
}

record! {
    /// Parameters of `notifications/subscriptions/acknowledged`, the first message of a stream.
    AcknowledgedParams {
        /// The part of the filter that the server supports.
        notifications: SubscriptionFilter,
        ---
        /// Metadata of the notification: the id of the subscription.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
    }
}

record! {
    /// Result of `subscriptions/listen`: the server has ended the stream.
    #[derive(Default)]
    ListenResult {
        ---
        /// Set by the session's envelope; `None` when written by hand.
        result_type: String,
        /// Metadata of the result: the id of the subscription.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
    }
}
