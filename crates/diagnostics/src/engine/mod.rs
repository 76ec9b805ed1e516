//! The engine of the examinations: connects, sends, measures times and records what crosses.
//!
//! [`validate`](crate::validate) runs its sessions over it, and [`doctor`](crate::doctor) sends its own HTTP requests
//! with its client. A [`Session`] is one conversation with a server: [`LineSession`] over a link that carries lines,
//! [`http::HttpSession`] over HTTP. Both record the same events ([`mcpjoin_rules::Run`]), under the same limits. The
//! engine checks nothing: it does not know the rules, and it decides only when to stop waiting.

pub(crate) mod http;
mod line_session;
mod link;
pub(crate) mod message;
mod session;

pub(crate) use self::line_session::{Delivery, LineSession};
pub(crate) use self::link::RecordedLink;
pub use self::session::Progress;
pub(crate) use self::session::{
    Outcome, ProgressFn, Reporter, RunState, Session, Traffic, only_request, request_in,
};
