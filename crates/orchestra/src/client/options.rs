//! How an orchestrator is reached, and how long anything may take. Each number is a bound that a test sets.

use std::time::Duration;

use mcpjoin_quic::endpoint::QuicOptions;

/// How calls to an orchestrator are made, and what bounds them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OrchestratorOptions {
    /// How long a call of a tool may take, everything included: 10 min. Orchestra's own client has no bound.
    pub tool_call: Duration,
    /// How long any other exchange may take, everything included: 60 s.
    pub read: Duration,
    /// How long a call waits for a connection while there is none, before it fails and says why: 4 s.
    pub wait: Duration,
    /// How many exchanges are under way at once: 100, which is what Orchestra's servers allow. One of them is kept for
    /// asking whether the far end still lives. Others wait.
    pub streams: usize,
    /// How many calls may wait for their turn: 1,024. Those beyond fail at once.
    pub waiting: usize,
    /// How long one attempt to connect may take: 3 s.
    pub connect: Duration,
    /// A connection is lost when nothing has come for so long: 10 s. The time begins anew with the first thing that is sent
    /// after something came ([RFC 9000, 10.1](https://www.rfc-editor.org/rfc/rfc9000#section-10.1)): a peer that is gone is
    /// noticed after this and `keep_alive` together, 15 s, at the latest.
    pub idle: Duration,
    /// So often something is sent when there is nothing to say: 5 s.
    pub keep_alive: Duration,
    /// When nothing at all has come for so long after something was sent, another connection is tried beside the silent
    /// one, and takes its place when that still says nothing: 1 s, and for a near peer 8 times as long as there and back,
    /// but at least 250 ms. While an answer is waited for, the far end is asked how it is whenever nothing has come for all
    /// of this time.
    pub silence: Duration,
    /// When no answer has come for so long, a call of a tool is preceded by the question whether the far end is there:
    /// 10 ms, in which nobody is ended, started again and listening. What goes into a dead connection is lost, and a call cannot be made again.
    pub doubt: Duration,
}

impl Default for OrchestratorOptions {
    fn default() -> Self {
        Self {
            tool_call: Duration::from_secs(600),
            read: Duration::from_secs(60),
            wait: Duration::from_secs(4),
            streams: 100,
            waiting: 1024,
            connect: Duration::from_secs(3),
            idle: Duration::from_secs(10),
            keep_alive: Duration::from_secs(5),
            silence: Duration::from_secs(1),
            doubt: Duration::from_millis(10),
        }
    }
}

impl OrchestratorOptions {
    pub(super) fn quic(&self) -> QuicOptions {
        let mut options = QuicOptions::default();
        options.connect_timeout = self.connect;
        options.idle = self.idle;
        options.keep_alive = self.keep_alive;
        options
    }
}
