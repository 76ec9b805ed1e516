//! Roots: the places that a client lets a server work in.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/roots>. Deprecated in 2026-07-28.

use alloc::string::String;
use alloc::vec::Vec;

record! {
    /// Parameters of `roots/list`.
    #[derive(Default)]
    ListRootsParams [request] {
        ---
    }
}

record! {
    /// Result of `roots/list`.
    ListRootsResult [result] {
        /// The roots.
        roots: Vec<Root>,
        ---
    }
}

record! {
    /// A place that a server may work in.
    Root [item] {
        /// Where it is: a `file:` URI.
        uri: String as impl Into<String>,
        ---
        /// Its name, for people.
        name: String => with_name,
    }
}
