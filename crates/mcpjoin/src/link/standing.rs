//! With whom a link connects, and in whose name: what a memory for results has to tell apart.
//!
//! Said by a link when a client begins to use it. <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-scope-field>

use std::fmt;
use std::sync::Arc;

/// What is known of the far end of a link before anything is said.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Where it is, when that has a name that no other server has.
    pub(crate) place: Option<String>,
    pub(crate) authorization: Authorization,
}

/// In whose name requests are made.
#[derive(Clone, Default)]
pub(crate) enum Authorization {
    /// One that nobody can name, and that stays the same as long as the link lives: that of a child is in its
    /// environment.
    #[default]
    Lasting,
    /// Whoever has this key has the same one. No secret: it is kept.
    Known(Arc<str>),
    /// It may change, and this says its key at every time; `None`: that cannot be told.
    Told(Arc<dyn Fn() -> Option<String> + Send + Sync>),
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lasting => "Lasting",
            Self::Known(_) => "Known",
            Self::Told(_) => "Told",
        })
    }
}
