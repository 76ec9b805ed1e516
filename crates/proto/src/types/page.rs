//! Pagination and cache lifetime of results.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>. Used by every list.

use alloc::string::String;

record! {
    /// Parameters of a request for one page of a list.
    #[derive(Default)]
    PageParams [request] {
        ---
        /// The `nextCursor` of the previous page, unchanged. Absent for the first page.
        cursor: String => with_cursor,
    }
}

open! {
    /// Which clients may share a cached result.
    CacheScope {
        /// All clients.
        Public = "public",
        /// Clients with the same authorization as the one that sent the request.
        Private = "private",
    }
}
