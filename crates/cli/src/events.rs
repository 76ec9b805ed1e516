//! The library's [`tracing`] events and a server's log messages on standard error. With `-v` the events up to `INFO`, such as
//! reconnecting, with `-vv` up to `DEBUG`. Verbs that run until a signal always show warnings; the others tell without `-v`
//! that a server asks to wait.
//!
//! Installed by `connect::plan`, by `bridge`, and by `telemetry`, which exports the spans. Here only events are shown.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use mcpjoin::proto::types::{LogMessageParams, ProtocolType};
use mcpjoin::proto::{Method, Notification};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
#[cfg(feature = "otel")]
use tracing_subscriber::{Layer, Registry, filter::filter_fn, layer};

use crate::ui::Ui;

/// The prefix of the targets of the library's crates.
const LIBRARY: &str = "mcpjoin";

/// The target of events for authors of handlers. All handlers here are our own.
const HANDLERS: &str = "mcpjoin::handlers";

/// The target of events about a wait that a server asks for.
const WAITS: &str = "mcpjoin::waits";

/// The option that raises the limit of a message: the library knows the limit and not the option.
const LIMIT_OPTION: &str = "--max-message-size raises the limit";
/// The text where no option does.
const FRAME_LIMIT: &str = "it is that of a frame of Orchestra";

/// Shows the events of the library from now on, as far as `-v` asks for them.
pub(crate) fn show(ui: &Ui) {
    if let Some(level) = max_level(ui) {
        install(ui, level, LIMIT_OPTION);
    }
}

/// Tells from now on that a server asks to wait, once in this process, unless more is shown already.
pub(crate) fn show_waits(ui: &Ui) {
    install(ui, LevelFilter::OFF, LIMIT_OPTION);
}

/// Shows the warnings of the library from now on, unless more is shown already.
pub(crate) fn show_warnings(ui: &Ui) {
    install(ui, Level::WARN, LIMIT_OPTION);
}

/// [`show`] and the warnings, for Orchestra, where the limit of a message is that of a frame.
pub(crate) fn show_of_frames(ui: &Ui) {
    install(ui, max_level(ui).unwrap_or(Level::WARN), FRAME_LIMIT);
}

fn max_level(ui: &Ui) -> Option<Level> {
    match ui.verbosity() {
        0 => None,
        1 => Some(Level::INFO),
        _ => Some(Level::DEBUG),
    }
}

/// Shows the events of the library from now on, as far as `-v` asks for them and up to `level` without it, and gives its
/// spans to `spans`.
#[cfg(feature = "otel")]
pub(crate) fn show_beside(ui: &Ui, level: LevelFilter, spans: impl Layer<Registry> + Send + Sync) {
    use tracing_subscriber::layer::SubscriberExt as _;

    let max_level = max_level(ui).map_or(level, Into::into);
    let shown = Shown { ui: ui.clone(), max_level, limit: LIMIT_OPTION, has_waited: AtomicBool::new(false) };
    let is_span = filter_fn(|metadata| metadata.is_span() && metadata.target() == LIBRARY);
    let is_shown = filter_fn(move |metadata| is_shown(metadata, max_level));
    let subscriber = tracing_subscriber::registry().with(spans.with_filter(is_span));
    let _ = tracing::subscriber::set_global_default(subscriber.with(shown.with_filter(is_shown)));
}

fn install(ui: &Ui, max_level: impl Into<LevelFilter>, limit: &'static str) {
    let shown =
        Shown { ui: ui.clone(), max_level: max_level.into(), limit, has_waited: AtomicBool::new(false) };
    // The first installation wins, where two clients are made.
    let _ = tracing::subscriber::set_global_default(shown);
}

struct Shown {
    ui: Ui,
    /// The least important level that is shown.
    max_level: LevelFilter,
    /// The text about the limit of a message.
    limit: &'static str,
    /// A wait was reported.
    has_waited: AtomicBool,
}

fn is_shown(metadata: &Metadata<'_>, max_level: LevelFilter) -> bool {
    if max_level == LevelFilter::OFF {
        return metadata.target() == WAITS;
    }
    let is_for_us = max_level > LevelFilter::WARN || metadata.target() != HANDLERS;
    *metadata.level() <= max_level && metadata.target().starts_with(LIBRARY) && is_for_us
}

impl Shown {
    fn show(&self, event: &Event<'_>) {
        let mut words = Words { limit: self.limit, ..Words::default() };
        event.record(&mut words);
        let text = format!("{}{}", words.message, words.fields);
        let level = *event.metadata().level();
        if self.max_level == LevelFilter::OFF {
            if !self.has_waited.swap(true, Ordering::Relaxed) {
                self.ui.note(&text);
            }
            return;
        }
        if level <= Level::WARN && self.max_level == LevelFilter::WARN {
            // Without `-v` a warning of the library is printed as one of ours.
            return self.ui.warning(&text);
        }
        self.ui.detail_of(LIBRARY, &format!("[{}] {text}", level.as_str().to_lowercase()));
    }
}

#[cfg(feature = "otel")]
impl<S: Subscriber> Layer<S> for Shown {
    fn on_event(&self, event: &Event<'_>, _: layer::Context<'_, S>) {
        self.show(event);
    }
}

impl Subscriber for Shown {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_shown(metadata, self.max_level)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // That of a wait.
        Some(self.max_level.max(LevelFilter::INFO))
    }

    fn event(&self, event: &Event<'_>) {
        self.show(event);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // Any number except 0: spans are not shown.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event as text.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
    limit: &'static str,
}

/// Shows a log message of the server.
pub(crate) fn show_log_message(ui: &Ui, notification: &Notification) {
    if notification.method != Method::LogMessage {
        return;
    }
    let message = notification.params.as_ref().map(|params| LogMessageParams::read(params.raw()));
    let Some(Ok(message)) = message else { return };
    let text = message.data.to_string_value();
    let text = text.as_deref().unwrap_or_else(|| message.data.as_str());
    ui.server_line(&format!("[{}] {text}", message.level.as_str()));
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "limit" if format!("{value:?}") == r#""message""# => write!(self.fields, "; {}", self.limit),
            name => write!(self.fields, ", {name}: {value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::{LIMIT_OPTION, Level, Words};

    /// Collects the events.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<String>>>);

    impl tracing::Subscriber for Kept {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            *metadata.level() <= Level::DEBUG
        }

        fn event(&self, event: &tracing::Event<'_>) {
            let mut words = Words { limit: LIMIT_OPTION, ..Words::default() };
            event.record(&mut words);
            self.0.lock().unwrap().push(format!("[debug] {}{}", words.message, words.fields));
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn an_event_is_its_message_and_then_its_fields() {
        let kept = Kept::default();
        tracing::subscriber::with_default(kept.clone(), || {
            tracing::warn!(limit = "message", "too long");
            tracing::debug!(violation = %"a rule", count = 3, quoted = "q", "the peer broke {}", "it");
        });
        let said = kept.0.lock().unwrap().concat();
        assert_eq!(
            said,
            r#"[debug] too long; --max-message-size raises the limit[debug] the peer broke it, violation: a rule, count: 3, quoted: "q""#
        );
    }
}
