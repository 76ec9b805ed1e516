//! Roots: the places that a client lets a server work in.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/roots>. Deprecated in 2026-07-28.

use alloc::string::String;
use alloc::vec::Vec;

use super::meta::Meta;

record! {
    /// Parameters of `roots/list`.
    #[derive(Default)]
    ListRootsParams {
        ---
        /// What is said beside the request.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
    }
}

record! {
    /// Result of `roots/list`.
    ListRootsResult {
        /// The roots.
        roots: Vec<Root>,
        ---
        /// Set by the session's envelope; `None` when written by hand.
        result_type: String,
        /// What is said beside the result.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
    }
}

record! {
    /// A place that a server may work in.
    Root {
        /// Where it is: a `file:` URI.
        uri: String as impl Into<String>,
        ---
        /// Its name, for people.
        name: String => with_name,
        /// What is said beside it; since 2025-06-18.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
    }
}
