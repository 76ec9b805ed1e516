//! Relays one request to the other side: its progress and notifications, its result and its cancellation.
//!
//! Used for every request that crosses the gateway, in both directions. It never reads parameters or results.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use mcpjoin_proto::session::{Call, CallError, Limits, Reply};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Raw};

use mcpjoin::connection::{CallEvent, Calling, Context};

/// Messages that are forwarded at a time before the task yields, so that a server that floods does not block others.
pub(super) const FORWARDED_PER_POLL: usize = 64;

/// A call made for a request of the other side. When the handler of that request is dropped, it cancels the call with
/// the reason that the request was cancelled with.
struct CancelOnDrop<'a> {
    calling: Option<Calling>,
    cx: &'a Context,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(calling) = self.calling.take() {
            calling.cancel(self.cx.cancel_reason().as_deref());
        }
    }
}

/// The call that relays a request. It asks for progress if the request does. `timeout` limits the time without
/// progress; the total time is not limited.
pub(super) fn call(method: Method, params: Option<Payload>, cx: &Context, timeout: Duration) -> Call {
    let mut call = Call::new(method);
    call.progress = wants_progress(params.as_ref(), cx);
    call.params = params;
    call.timeout = Some(timeout);
    call.total = Some(Duration::MAX);
    call
}

/// Whether a request asks for progress. One that the gateway makes for a request of a client has no token, although the
/// request of the client may have one.
pub(super) fn wants_progress(params: Option<&Payload>, cx: &Context) -> bool {
    let has_token = |meta: Raw| meta.member(key::PROGRESS_TOKEN).is_some();
    cx.request().is_some_and(|request| request.progress_token.is_some())
        && params.and_then(Payload::meta).is_some_and(has_token)
}

/// Waits for the result, and forwards the progress and notifications that precede it to `cx`.
pub(super) async fn forward(calling: Calling, cx: &Context) -> Result<Payload, CallError> {
    forward_to(calling, cx, |notification| notify(cx, notification)).await
}

/// Does the same, and gives notifications other than progress to `sink`.
pub(super) async fn forward_to(
    calling: Calling,
    cx: &Context,
    sink: impl Fn(Notification),
) -> Result<Payload, CallError> {
    let mut call = CancelOnDrop { calling: Some(calling), cx };
    let reply = poll_fn(|task| {
        let Some(calling) = &mut call.calling else { return Poll::Ready(Err(CallError::Cancelled)) };
        for _ in 0..FORWARDED_PER_POLL {
            let Poll::Ready(event) = calling.poll_event(task) else { return Poll::Pending };
            let Some(event) = event else { return Pin::new(calling).poll(task) };
            forward_event(event, cx, &sink);
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    // It has ended, so there is nothing to cancel.
    call.calling = None;
    match reply? {
        Reply::Verbatim(result) => Ok(result),
        Reply::Complete(result) | Reply::Task(result) => Ok(Payload::from_raw(result)),
        Reply::NeedInput(input) => Payload::from_value(&*input).map_err(|error| CallError::InvalidResponse {
            method: Method::Other("".into()),
            problem: error.to_string().into(),
        }),
    }
}

/// Forwards an event of a call: progress to `cx`, other notifications to `sink`.
pub(super) fn forward_event(event: CallEvent, cx: &Context, sink: impl Fn(Notification)) {
    let CallEvent::Notification(notification) = event else { return };
    if notification.method != Method::Progress {
        sink(notification);
    } else if let Some(progress) = progress_for(cx, notification) {
        notify(cx, progress);
    }
}

/// The notification that a resource may have changed.
pub(super) fn resource_updated(uri: &Raw) -> Notification {
    let params = Payload::from_raw(Raw::empty_object()).with_member("uri", uri);
    Notification { method: Method::ResourceUpdated, params: Some(params) }
}

/// A notification of the stream that the request with this id has opened.
pub(super) fn with_subscription_id(notification: Notification, id: &Raw) -> Notification {
    let params = notification.params.unwrap_or_else(|| Payload::from_raw(Raw::empty_object()));
    Notification { params: Some(params.with_meta_member(key::SUBSCRIPTION_ID, id)), ..notification }
}

/// Where the notifications of a stream go.
pub(super) type StreamSink = Arc<dyn Fn(Notification) + Send + Sync>;

/// Sends the notifications of a stream to the request that opened it.
pub(super) fn to_request(cx: &Context) -> StreamSink {
    let cx = cx.clone();
    Arc::new(move |notification| notify(&cx, notification))
}

/// Sends a notification that belongs to a request of the client.
pub(super) fn notify(cx: &Context, notification: Notification) {
    if let Err(error) = cx.notify(notification) {
        tracing::debug!(target: "mcpjoin", %error, "a notification of a request was not forwarded");
    }
}

/// Puts the name of a target before the message of an elicitation, so that the user knows which server asks.
pub(super) fn named(target: Option<&str>, params: Payload) -> Payload {
    let message = params.raw().member("message");
    match (target, message.as_ref().and_then(Raw::to_string_value)) {
        (Some(target), Some(message)) => {
            params.with_member("message", &Raw::string(&format!("[{target}] {message}")))
        }
        _ => params,
    }
}

/// Whether a result of a modern server may ask something. An escape could hide the word.
pub(super) fn may_ask(result: &Payload) -> bool {
    let text = result.raw().as_bytes();
    [&b"\"inputRequests\""[..], b"\\u"].iter().any(|sign| memchr::memmem::find(text, sign).is_some())
}

/// The progress with the token of the original request; `None` if that request has none.
fn progress_for(cx: &Context, progress: Notification) -> Option<Notification> {
    let token = cx.request()?.progress_token.as_ref()?;
    let token = Raw::from_value(token).ok()?;
    let params = progress.params?.with_member("progressToken", &token);
    Some(Notification { method: progress.method, params: Some(params) })
}

/// The error for a subscription whose URI is above the limit `subscription_bytes`; `None` if it is not.
pub(super) fn too_long_to_subscribe(uri: &str) -> Option<ErrorObject> {
    let limit = Limits::default().subscription_bytes;
    (uri.len() > limit).then(|| {
        ErrorObject::internal(format!(
            "the name of what is subscribed to is above the limit `subscription_bytes` of {limit}"
        ))
    })
}
