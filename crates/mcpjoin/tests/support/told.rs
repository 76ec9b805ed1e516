//! Hears what the library tells of itself.

use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};

/// What the library tells through `tracing` about what it does, from the level on that `-v` shows.
pub(crate) struct Told(pub(crate) mpsc::UnboundedSender<String>);

impl tracing::Subscriber for Told {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO && metadata.target() == "mcpjoin"
    }

    fn event(&self, event: &tracing::Event<'_>) {
        struct Words(String);
        impl Visit for Words {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{}: {value:?}; ", field.name());
            }
        }
        let mut words = Words(String::new());
        event.record(&mut words);
        let _ = self.0.send(words.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
