//! Waits for the response to one request, and shows its progress, its log messages and its task meanwhile.
//!
//! Used by `call`, `read` and `prompt`.

use mcpjoin::client::{Client, RoundTrip, RoundTripParams};
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::Raw;
use mcpjoin::proto::types::LoggingLevel;

use super::lists::Absent;
use crate::events::show_log_message;
use crate::failure::{Failure, Phase};
use crate::progress::Waiting;
use crate::target::shown;
use crate::ui::Ui;

/// The lowest level of the log messages that `-v` shows.
const LOG_LEVEL: LoggingLevel = LoggingLevel::Info;

/// Asks for log messages if they are shown and the server has them. `asked`: the level that the user has chosen, with which they
/// are shown without `-v`, too.
pub(super) async fn enable_logs(ui: &Ui, client: &Client, asked: Option<LoggingLevel>) {
    let Some(level) = asked.or_else(|| (ui.verbosity() > 0).then_some(LOG_LEVEL)) else { return };
    if client.peer().server_capabilities().is_none_or(|server| server.logging.is_none()) {
        if asked.is_some() {
            ui.note("this server does not declare logging: --log-level has no effect");
        }
        return;
    }
    if let Err(error) = client.set_level(level).await {
        ui.note(&format!("no log messages are shown: {error}"));
    }
}

/// Waits for the result, in as many rounds as the server needs, and returns it as it was sent.
pub(super) async fn result<P: RoundTripParams>(
    ui: &Ui,
    request: RoundTrip<P>,
    phase: Phase,
) -> Result<Raw, Failure> {
    // Progress may be requested from every server, although not every server sends it.
    let mut request = request.progress(true);
    show_events(ui, async || request.next_event().await, |waiting, event| show_event(ui, waiting, event))
        .await;
    request.raw().await.map_err(|error| Failure::client(&error, phase))
}

/// Passes all events to `on_event` until there are no more. Draws the line of progress meanwhile. `next` is cancel-safe.
pub(super) async fn show_events(
    ui: &Ui,
    mut next: impl AsyncFnMut() -> Option<CallEvent>,
    mut on_event: impl FnMut(&mut Waiting<'_>, CallEvent),
) {
    let mut waiting = Waiting::new(ui, "waiting");
    loop {
        tokio::select! {
            biased;
            event = next() => match event {
                Some(event) => on_event(&mut waiting, event),
                None => return,
            },
            () = waiting.tick() => {}
        }
    }
}

/// Shows an event.
pub(super) fn show_event(ui: &Ui, waiting: &mut Waiting<'_>, event: CallEvent) {
    match event {
        CallEvent::Progress(progress) => waiting.progress(progress),
        CallEvent::Notification(notification) => show_log_message(ui, &notification),
        CallEvent::Task(task) => waiting.task(&task),
        _ => {}
    }
}

/// Notes that the server does not list a name that is requested, if the name was probably mistyped.
pub(super) fn note_absent(ui: &Ui, what: &str, name: &str, absent: Absent) {
    if let Some((name, _)) = name.split_once('(').filter(|_| name.ends_with(')')) {
        // The spelling of mcporter: `add(a: 1)`.
        let name = shown(name.as_ref());
        ui.note(&format!("arguments are words behind the {what}: {name} a=VALUE"));
    } else if let Some(similar) = absent.similar {
        let (name, similar) = (shown(name.as_ref()), shown(similar.as_ref()));
        ui.note(&format!("the server has no {what} {name}; did you mean {similar}?"));
    }
}
