//! Receives the `tracing` events of the library.

use std::sync::Once;

use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

/// Runs `body`, with `subscriber` as the subscriber of this thread.
///
/// For every callsite, `tracing` caches whether a subscriber is interested, and asks only the subscriber of the thread that
/// reaches the callsite first. If that is the thread of another test, without a subscriber, the callsite stays disabled. So
/// there is a global subscriber that keeps every callsite undecided.
pub fn hearing<T>(subscriber: impl Subscriber + Send + Sync + 'static, body: impl FnOnce() -> T) -> T {
    static ASKED_EACH_TIME: Once = Once::new();
    ASKED_EACH_TIME.call_once(|| {
        tracing::subscriber::set_global_default(AskedEachTime).expect("nothing else listens to all threads");
    });
    tracing::subscriber::with_default(subscriber, body)
}

/// Records nothing, and makes `tracing` ask again for each event.
struct AskedEachTime;

impl Subscriber for AskedEachTime {
    /// Disables all callsites until a test sets its subscriber. Between its creation and its installation as the global one,
    /// this is the only subscriber and belongs to no thread: a callsite that is reached in that time would find no interested
    /// subscriber, and might cache that.
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

/// Receives the library's `tracing` events at the level of `-v` and above.
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
