//! The same look at a server that is reached over HTTP.
//!
//! Called by [`Validator::run`](super::Validator::run). Beside what is asked of every server, requests come without
//! their headers, with others, from pages of other origins, for other hosts, in sessions that have ended; streams are
//! opened, left and resumed. One that wants a token is looked at without one as well. A prompt is asked for by a name that no server has, where prompts are declared.

mod asking;
mod authorization;
mod heads;
mod lines;
mod live;
mod refusal;
mod resilience;
mod runs;
mod wire;

pub(super) use runs::Runs;

use mcpjoin::link::{Crossed, Way};

/// Sees the messages that cross.
pub(super) type Tap = Box<dyn FnMut(Way, Crossed<'_>) + Send>;
