//! The rules about clients, in the chapters of the rules about servers. They apply to a [`Trace`](crate::Trace) in which
//! we are the server.
//!
//! [`What::Received`](crate::What::Received) is a message of the client, [`What::Sent`](crate::What::Sent) one of ours.
//! Over HTTP, [`What::Requested`](crate::What::Requested) is the client's request, before the message in it. The rules
//! check what the client did by itself and how it handled our probes. No rule is about what a client shows to its user:
//! that is not visible in a trace.

pub(crate) mod features;
pub(crate) mod http;
pub(crate) mod lifecycle;
pub(crate) mod messages;
pub(crate) mod pages;
pub(crate) mod stdio;
pub(crate) mod streams;
pub(crate) mod tasks;
pub(crate) mod utilities;

use std::time::Duration;

/// A message of ours that is not older than this may have crossed with a message of the client.
const CROSSING: Duration = Duration::from_secs(1);
