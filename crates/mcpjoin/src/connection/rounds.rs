//! The bounds of asking in rounds, the same on both sides: our client, which a server asks for input before it gives a
//! result, and our server, which plays such rounds for handlers that ask by hand.
//! See <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>.

use std::time::Duration;

/// Rounds before it is given up: as many as the official Inspector allows.
pub const MAX_ROUNDS: usize = 10;

/// The pause before asking again when only a state was given and no question; it doubles from time to time.
pub const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest such pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(10);
