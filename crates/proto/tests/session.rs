//! Tests of the session state machine: the cases of the project's adversarial catalogue that need no process and no
//! socket (named after their number), the requirements for the session (`r54_...`), and random conversations. Time is
//! virtual; nothing here sleeps.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot do what it wants to has failed")]

#[path = "session/batches.rs"]
mod batches;
#[path = "session/common.rs"]
mod common;
#[path = "session/concurrency.rs"]
mod concurrency;
#[path = "session/lifecycle.rs"]
mod lifecycle;
#[path = "session/messages.rs"]
mod messages;
#[path = "session/random.rs"]
mod random;
#[path = "session/requirements.rs"]
mod requirements;
