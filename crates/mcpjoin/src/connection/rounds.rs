//! The limits of requests that take several rounds, for both sides: a client that is asked for input before it gets a
//! result, and a server that emulates rounds for clients of the legacy era.
//!
//! See <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>.

use std::time::Duration;

/// Maximum number of rounds of a request: as many as the official Inspector allows.
pub const MAX_ROUNDS: usize = 10;

/// The first pause before the next round, if the server returned only a state and asked for nothing. Each pause
/// doubles.
pub const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest such pause.
pub const MAX_PAUSE: Duration = Duration::from_secs(10);
