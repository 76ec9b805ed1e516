//! Lists that come in pages, and how long a result stays fresh.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>. Used by every list.

use alloc::string::String;

record! {
    /// Parameters of a request for a page of a list.
    #[derive(Default)]
    PageParams [request] {
        ---
        /// Where the page begins: the `nextCursor` of the page before it, unchanged. Absent for the first page.
        cursor: String => with_cursor,
    }
}

open! {
    /// Who may be given a cached result.
    CacheScope {
        /// Everyone.
        Public = "public",
        /// Only those who share the authorization of the one who asked.
        Private = "private",
    }
}
