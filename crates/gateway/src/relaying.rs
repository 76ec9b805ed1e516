//! Hands on what a call brings before its result.
//!
//! Called for every request that crosses, in whichever direction. Nothing here reads a parameter or a result.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use mcpjoin_proto::session::{Call, CallError, Limits, LinkEnd, ProcessExit, Reply};
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Raw};

use mcpjoin::connection::{CallEvent, Calling, Context};

/// So many messages are handed on at a time before others on the same thread have their turn: a server that floods keeps
/// nobody waiting.
pub(super) const AT_ONCE: usize = 64;

/// A call that is made for somebody else. Dropped with the handler of a request that is cancelled, it says why.
struct OnBehalf<'a> {
    calling: Option<Calling>,
    cx: &'a Context,
}

impl Drop for OnBehalf<'_> {
    fn drop(&mut self) {
        if let Some(calling) = self.calling.take() {
            calling.cancel(self.cx.cancel_reason().as_deref());
        }
    }
}

/// The call with what somebody else has asked: their progress is asked for, and it may take as long as it makes some.
pub(super) fn call(method: Method, params: Option<Payload>, cx: &Context, timeout: Duration) -> Call {
    let mut call = Call::new(method);
    call.params = params;
    call.progress = cx.request().is_some_and(|request| request.progress_token.is_some());
    call.timeout = Some(timeout);
    call.total = Some(Duration::MAX);
    call
}

/// Makes the call and hands on to `cx` what comes before its result: progress, and what else belongs to it.
pub(super) async fn forward(calling: Calling, cx: &Context) -> Result<Payload, CallError> {
    forward_with(calling, cx, |notification| notification).await
}

/// The same, and what is no progress is handed on as `change` makes it.
pub(super) async fn forward_with(
    calling: Calling,
    cx: &Context,
    change: impl Fn(Notification) -> Notification,
) -> Result<Payload, CallError> {
    let mut on_behalf = OnBehalf { calling: Some(calling), cx };
    let reply = poll_fn(|task| {
        let Some(calling) = &mut on_behalf.calling else { return Poll::Ready(Err(CallError::Cancelled)) };
        for _ in 0..AT_ONCE {
            let Poll::Ready(event) = calling.poll_event(task) else { return Poll::Pending };
            let Some(event) = event else { return Pin::new(calling).poll(task) };
            tell(event, cx, &change);
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    // It is over: there is nothing to cancel.
    on_behalf.calling = None;
    match reply? {
        Reply::Verbatim(result) => Ok(result),
        Reply::Complete(result) | Reply::Task(result) => Ok(Payload::from_raw(result)),
        Reply::NeedInput(input) => Payload::from_value(&*input).map_err(|error| CallError::BadReply {
            method: Method::Other("".into()),
            problem: error.to_string(),
        }),
    }
}

/// Hands on to `cx` what has come before a result: progress, and what else belongs to it as `change` makes it.
pub(super) fn tell(event: CallEvent, cx: &Context, change: impl Fn(Notification) -> Notification) {
    let CallEvent::Notification(notification) = event else { return };
    let told = match notification.method {
        Method::Progress => progress_for(cx, notification),
        _ => Some(change(notification)),
    };
    if let Some(Err(error)) = told.map(|told| cx.notify(told)) {
        tracing::debug!(target: "mcpjoin", %error, "what belongs to a request was not handed on");
    }
}

/// The same progress under the name that the asker has given; `None` when it wants none.
fn progress_for(cx: &Context, progress: Notification) -> Option<Notification> {
    let token = cx.request()?.progress_token.as_ref()?;
    let token = Raw::from_value(token).ok()?;
    let params = progress.params?.with_member("progressToken", &token);
    Some(Notification { method: progress.method, params: Some(params) })
}

/// The refusal of a subscription to a resource whose name is too long to be kept. `None`: it is short enough.
pub(super) fn too_long_to_subscribe(uri: &str) -> Option<ErrorObject> {
    let longest = Limits::default().subscription_bytes;
    (uri.len() > longest).then(|| {
        ErrorObject::internal(format!(
            "the name of what is subscribed to is above the limit `subscription_bytes` of {longest}"
        ))
    })
}

/// How a process has ended, as members of `data`.
pub(super) fn exit_of(end: Option<&LinkEnd>) -> Vec<(&'static str, String)> {
    match end.and_then(|end| end.exit) {
        Some(ProcessExit::Code(code)) => vec![("exitCode", code.to_string())],
        Some(ProcessExit::Signal(signal)) => vec![("signal", signal.to_string())],
        None => Vec::new(),
    }
}

pub(super) fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}

/// An error of the gateway's own: `data` has the kind of failure as `gateway`, and the facts beside it.
pub(super) fn failure(kind: &str, message: &str, facts: &[(&str, String)]) -> ErrorObject {
    let mut data = format!("{{\"gateway\":\"{kind}\"");
    for (name, number) in facts {
        data.push_str(&format!(",\"{name}\":{number}"));
    }
    data.push('}');
    let error = ErrorObject::internal(message);
    match Raw::parse(data) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    }
}
