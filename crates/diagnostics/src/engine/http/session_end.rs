//! Ends a session at the server when its examination is dropped, because a signal has stopped it for example. An examination that
//! runs to its end does this itself, and records it.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>

use std::sync::Arc;
use std::time::Duration;

use mcpjoin::internal::HttpOpen;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::target::{Head, Target};

/// How long the request may take: as long as a client has to close a link.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends the request that ends a session when it is dropped.
pub(super) struct SessionEnd(Option<(Arc<Target>, Head, HttpOpen)>);

impl SessionEnd {
    /// `head`: that of the request.
    pub(super) fn new(target: &Arc<Target>, head: Head) -> Self {
        let open = HttpOpen::of(&target.handle);
        Self(Some((Arc::clone(target), head, open)))
    }

    /// The request is sent elsewhere.
    pub(super) fn cancel(mut self) {
        self.0 = None;
    }
}

impl Drop for SessionEnd {
    fn drop(&mut self) {
        // Without a runtime nothing can be sent any more.
        let (Some((target, head, open)), Ok(runtime)) = (self.0.take(), Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move {
            // The server may not answer, or have no such request.
            let _ = timeout(END_TIMEOUT, target.send(&head, None)).await;
            drop(open);
        });
    }
}
