//! What the verbs share that ask a server for one thing: what comes before the result is shown while it is waited for.
//!
//! Called by `call`, `read` and `prompt`, and `hear_logs` by whoever waits for a server.

use mcpjoin::client::{Client, RoundTrip, RoundTripParams};
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::Raw;
use mcpjoin::proto::types::LoggingLevel;

use super::list::Absent;
use crate::connect::show;
use crate::failure::{Failure, Phase};
use crate::progress::Waiting;
use crate::target::shown;
use crate::ui::Ui;

/// From this level on log messages are asked for with `-v`.
const LOG_LEVEL: LoggingLevel = LoggingLevel::Info;

/// Asks for log messages, where they are shown and the server has them.
pub(super) async fn hear_logs(ui: &Ui, client: &Client) {
    if ui.verbosity() == 0
        || client.peer().server_capabilities().is_none_or(|server| server.logging.is_none())
    {
        return;
    }
    if let Err(error) = client.set_level(LOG_LEVEL).await {
        ui.note(&format!("there will be no log messages: {error}"));
    }
}

/// Waits for the result, in as many rounds as the server needs, and gives it as it was sent.
pub(super) async fn result<P: RoundTripParams>(
    ui: &Ui,
    request: RoundTrip<P>,
    phase: Phase,
) -> Result<Raw, Failure> {
    // Not every server tells, but every one may be asked.
    let mut request = request.progress(true);
    let mut waiting = Waiting::new(ui, "waiting");
    loop {
        tokio::select! {
            biased;
            event = request.next_event() => match event {
                Some(event) => show_event(ui, &mut waiting, event),
                None => break,
            },
            () = waiting.tick() => {}
        }
    }
    drop(waiting);
    request.raw().await.map_err(|error| Failure::client(&error, phase))
}

/// Shows what comes before a result.
pub(super) fn show_event(ui: &Ui, waiting: &mut Waiting<'_>, event: CallEvent) {
    match event {
        CallEvent::Progress(progress) => waiting.progress(progress),
        CallEvent::Notification(notification) => show(ui, &notification),
        CallEvent::Task(task) => waiting.task(&task),
        _ => {}
    }
}

/// Says that the server does not list what is asked for all the same, where it was probably mistyped.
pub(super) fn say_absent(ui: &Ui, what: &str, name: &str, absent: Absent) {
    if let Some(similar) = absent.similar {
        let (name, similar) = (shown(name.as_ref()), shown(similar.as_ref()));
        ui.note(&format!("the server lists no {what} {name}; did you mean {similar}?"));
    }
}
