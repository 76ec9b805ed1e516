//! Subscription streams that a client opens.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>. Used by the session, which
//! sends only notifications that match the filter.

use alloc::string::String;
use alloc::vec::Vec;

use super::capability::ServerCapabilities;
use super::meta::Meta;
use super::resource::is_within;
use crate::Method;

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

impl SubscriptionFilter {
    /// Whether the stream delivers a notification. `about` is the URI of the resource, or the id of the task.
    #[must_use]
    pub fn selects(&self, method: &Method, about: Option<&str>) -> bool {
        match method {
            Method::ToolListChanged => self.tools_list_changed == Some(true),
            Method::PromptListChanged => self.prompts_list_changed == Some(true),
            Method::ResourceListChanged => self.resources_list_changed == Some(true),
            Method::ResourceUpdated => about.is_some_and(|uri| {
                self.resource_subscriptions.iter().flatten().any(|subscribed| is_within(uri, subscribed))
            }),
            Method::Tasks => {
                about.is_some_and(|task| self.task_ids.iter().flatten().any(|known| known == task))
            }
            _ => false,
        }
    }

    /// The part of the filter for which a server has declared the capabilities. Without the tasks.
    #[must_use]
    pub fn declared_by(mut self, server: &ServerCapabilities) -> Self {
        let resources = server.resources.as_ref();
        if server.tools.as_ref().and_then(|tools| tools.list_changed) != Some(true) {
            self.tools_list_changed = None;
        }
        if server.prompts.as_ref().and_then(|prompts| prompts.list_changed) != Some(true) {
            self.prompts_list_changed = None;
        }
        if resources.and_then(|resources| resources.list_changed) != Some(true) {
            self.resources_list_changed = None;
        }
        if resources.and_then(|resources| resources.subscribe) != Some(true) {
            self.resource_subscriptions = None;
        }
        self.task_ids = None;
        self
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
        meta "_meta": Meta => with_meta,
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
        meta "_meta": Meta => with_meta,
    }
}
