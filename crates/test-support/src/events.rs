//! Hears what the library tells of itself.

use std::sync::Once;

use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

/// What `body` does, with `subscriber` hearing what is traced on this thread meanwhile.
///
/// `tracing` remembers for every place that traces whether anybody listens, and asks the thread that gets there first: were that
/// another test's, with no subscriber, nobody would hear of the place again. So all threads have one that leaves it open.
pub fn hearing<T>(subscriber: impl Subscriber + Send + Sync + 'static, body: impl FnOnce() -> T) -> T {
    static ASKED_EACH_TIME: Once = Once::new();
    ASKED_EACH_TIME.call_once(|| {
        tracing::subscriber::set_global_default(AskedEachTime).expect("nothing else listens to all threads");
    });
    tracing::subscriber::with_default(subscriber, body)
}

/// Hears nothing, and wants to be asked about each event.
struct AskedEachTime;

impl Subscriber for AskedEachTime {
    /// Until a test hears, no place asks anybody. From its making to its being everybody's, this is the only subscriber and
    /// no thread's own: a place that asked meanwhile would be told that nobody listens, and might keep that.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }

    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// What the library tells through `tracing` about what it does, from the level on that `-v` shows.
pub struct Told(pub mpsc::UnboundedSender<String>);

impl Subscriber for Told {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO && metadata.target() == "mcpjoin"
    }

    fn event(&self, event: &Event<'_>) {
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
