//! Roots: the directories and files of the client that a server may use.
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
    /// A root.
    Root [item] {
        /// A `file:` URI.
        uri: String as impl Into<String>,
        ---
        /// The display name.
        name: String => with_name,
    }
}
