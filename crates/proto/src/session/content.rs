//! What the session itself reads in parameters and results, which it passes on as they are.
//!
//! Used by both eras; nothing here is kept. Log levels:
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#log-levels>.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};

use crate::types::resource::is_within;
use crate::types::{InputRequired, LoggingLevel, SubscriptionFilter};
use crate::{ErrorObject, Kind, Method, Notification, Payload, Raw};

/// A result is an object in every revision; anything else a handler made is its fault, not the peer's.
pub(super) fn result_object(result: Raw) -> Result<Payload, ErrorObject> {
    match result.kind() {
        Kind::Object => Ok(Payload::from_raw(result)),
        _ => Err(ErrorObject::internal("the handler's result is not an object".to_owned())),
    }
}

/// How serious a log message is, where it says so.
pub(super) fn log_level(notification: &Notification) -> Option<LoggingLevel> {
    notification.params.as_ref()?.raw().member("level")?.decode().ok()
}

/// The refusal of one subscription more than the bound.
pub(super) fn too_many_subscriptions(limit: usize) -> ErrorObject {
    ErrorObject::internal(format!("too many subscriptions: the limit `subscriptions` of {limit} is reached"))
}

/// The refusal of a subscription to something whose name is too long to keep.
pub(super) fn too_long_subscription(limit: usize) -> ErrorObject {
    ErrorObject::internal(format!(
        "the name of what is subscribed to is above the limit `subscription_bytes` of {limit}"
    ))
}

/// A result that asks for input, when it is one.
pub(super) fn read_input_required(method: &Method, result: &Raw) -> Result<InputRequired, String> {
    if !method.may_need_input() {
        return Err(format!("{method} may not be answered with `input_required`"));
    }
    let input: InputRequired = result.decode().map_err(|error| error.to_string())?;
    if input.input_requests.as_ref().is_none_or(|requests| requests.is_empty())
        && input.request_state.is_none()
    {
        return Err("`input_required` with neither `inputRequests` nor `requestState`".into());
    }
    Ok(input)
}

/// What a stream names: resources and tasks.
pub(super) fn names(filter: &SubscriptionFilter) -> impl Iterator<Item = &String> {
    filter.resource_subscriptions.iter().chain(&filter.task_ids).flatten()
}

/// Whether a stream asked for this. `about`: the URI of the resource, or the task.
pub(super) fn wants(filter: &SubscriptionFilter, method: &Method, about: Option<&str>) -> bool {
    match method {
        Method::ToolListChanged => filter.tools_list_changed == Some(true),
        Method::PromptListChanged => filter.prompts_list_changed == Some(true),
        Method::ResourceListChanged => filter.resources_list_changed == Some(true),
        Method::ResourceUpdated => about.is_some_and(|uri| {
            let subscribed = filter.resource_subscriptions.as_ref();
            subscribed
                .is_some_and(|subscribed| subscribed.iter().any(|subscribed| is_within(uri, subscribed)))
        }),
        Method::Tasks => about.is_some_and(|task| {
            filter.task_ids.as_ref().is_some_and(|known| known.iter().any(|known| known == task))
        }),
        _ => false,
    }
}
