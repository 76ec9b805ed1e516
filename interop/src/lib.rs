//! Where the published servers and the binary `mcpjoin` are. The tests are in `tests/published_servers.rs`.
//!
//! The servers are pinned in `package-lock.json` and `requirements.txt` and installed by `cargo xtask interop install`;
//! `cargo xtask test` does so itself.
