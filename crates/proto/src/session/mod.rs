//! The session.
mod limits;
mod link;
pub use limits::Limits;
pub use link::{Inbound, LinkCaps, LinkEnd, LinkEndKind, LinkError, Origin, Outbound, ProcessExit, Route};
