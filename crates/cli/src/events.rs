//! What the library says by itself, through [`tracing`], on standard error: with `-v` what it does about a connection that
//! is in trouble (up to `INFO`), with `-vv` everything that it notices (up to `DEBUG`); for verbs that run on, what it warns
//! of in any case.
//!
//! Installed by `connect::plan` and by `bridge`. Small on purpose: the library has events and no spans, and all that is done with them is
//! to show them.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::ui::Ui;

/// What the library's targets begin with: its crates' name.
const LIBRARY: &str = "mcpjoin";

/// The target of what is for those who write handlers. All handlers here are our own.
const HANDLERS: &str = "mcpjoin::handlers";

/// What raises the limit of a message. The library knows its bounds, and here is known how they are set.
const RAISED: &str = "--max-message-size raises the limit";
/// Where nothing does.
const FRAME: &str = "it is that of a frame of Orchestra";

/// From now on shows what the library says, as far as it was asked for.
pub(crate) fn show(ui: &Ui) {
    if let Some(most) = asked_for(ui) {
        install(ui, most, RAISED);
    }
}

/// From now on shows what the library warns of, unless it is to show more already.
pub(crate) fn show_warnings(ui: &Ui) {
    install(ui, Level::WARN, RAISED);
}

/// From now on shows what the library says as far as it was asked for, and warnings in any case, where a message is a frame
/// of Orchestra.
pub(crate) fn show_of_frames(ui: &Ui) {
    install(ui, asked_for(ui).unwrap_or(Level::WARN), FRAME);
}

fn asked_for(ui: &Ui) -> Option<Level> {
    match ui.verbosity() {
        0 => None,
        1 => Some(Level::INFO),
        _ => Some(Level::DEBUG),
    }
}

fn install(ui: &Ui, most: Level, limit: &'static str) {
    // Where a client is made twice, the second time changes nothing.
    let _ = tracing::subscriber::set_global_default(Shown { ui: ui.clone(), most, limit });
}

struct Shown {
    ui: Ui,
    /// The least important that is shown.
    most: Level,
    /// What is said about the limit of a message.
    limit: &'static str,
}

impl Subscriber for Shown {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_for_us = self.most > Level::WARN || metadata.target() != HANDLERS;
        *metadata.level() <= self.most && metadata.target().starts_with(LIBRARY) && is_for_us
    }

    fn event(&self, event: &Event<'_>) {
        let mut words = Words::new(self.limit);
        event.record(&mut words);
        let level = *event.metadata().level();
        if level <= Level::WARN && self.most == Level::WARN {
            // Nobody has asked for the library's words: they are ours then.
            return self.ui.warning(&words.sentence());
        }
        let level = level.as_str().to_lowercase();
        self.ui.detail_of(LIBRARY, &words.text(&level));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // Any number but 0: spans are not told apart, because they are not shown.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event in words.
struct Words {
    message: String,
    fields: String,
    limit: &'static str,
}

impl Words {
    const fn new(limit: &'static str) -> Self {
        Self { message: String::new(), fields: String::new(), limit }
    }

    /// Without a sign of where it comes from.
    fn sentence(&self) -> String {
        format!("{}{}", self.message, self.fields)
    }

    fn text(&self, level: &str) -> String {
        format!("[{level}] {}{}", self.message, self.fields)
    }
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

    use super::{Level, RAISED, Words};

    /// Keeps what was said.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<String>>>);

    impl tracing::Subscriber for Kept {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            *metadata.level() <= Level::DEBUG
        }

        fn event(&self, event: &tracing::Event<'_>) {
            let mut words = Words::new(RAISED);
            event.record(&mut words);
            self.0.lock().unwrap().push(words.text("debug"));
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
