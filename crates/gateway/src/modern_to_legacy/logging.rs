//! The level of log messages: each request's own in the modern era, the session's in the legacy era.
//!
//! Called by `rounds` before a call is made. The server is told the lowest level that any call under way wants, so it is
//! never raised while a call wants less; a request that wants no log messages changes nothing.
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#setting-log-level>

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use mcpjoin_proto::types::LoggingLevel;
use tokio::sync::Mutex;

/// What one run of a server was told.
#[derive(Default)]
pub(super) struct Level {
    told: Mutex<Option<LoggingLevel>>,
    /// It does not take levels.
    refused: AtomicBool,
}

impl Level {
    /// Has the server told what the calls under way want, where that is not what it was told last. `lowest` is looked at
    /// when it is this call's turn; `tell` says whether the server has taken the level.
    pub(super) async fn settle<F: Future<Output = bool>>(
        &self,
        lowest: impl Fn() -> Option<LoggingLevel>,
        tell: impl FnOnce(LoggingLevel) -> F,
    ) {
        if self.refused.load(Ordering::Relaxed) {
            return;
        }
        let mut told = self.told.lock().await;
        let Some(wanted) = lowest() else { return };
        if *told == Some(wanted) || self.refused.load(Ordering::Relaxed) {
            return;
        }
        // When this is dropped on the way nobody knows what the server was told.
        *told = None;
        if tell(wanted).await {
            *told = Some(wanted);
        } else {
            // Asked once more with each request it would cost a round trip each time.
            self.refused.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn the_server_is_told_what_is_new_and_asked_no_more_when_it_refuses() {
        let (level, told) = (Level::default(), RefCell::new(Vec::new()));
        let wants = [
            (None, true),
            (Some(LoggingLevel::Warning), true),
            (Some(LoggingLevel::Warning), true),
            (Some(LoggingLevel::Debug), true),
            (None, true),
            (Some(LoggingLevel::Error), false),
            (Some(LoggingLevel::Debug), true),
        ];
        for (wanted, takes) in wants {
            let tell = |level: LoggingLevel| {
                told.borrow_mut().push(level.as_str());
                async move { takes }
            };
            level.settle(|| wanted, tell).await;
        }
        assert_eq!(*told.borrow(), ["warning", "debug", "error"]);
    }
}
