//! `cargo xtask beside`: runs mcpjoin's HTTP client in one process with reqwest, and with rustls on aws-lc-rs
//! (`interop/beside`).
//!
//! It builds about 200 packages four times, some of them again with other features, so it is part of `release-check` and
//! not of `test`.

use std::path::Path;

use anyhow::Result;

use crate::steps::{cargo, succeed};

/// The manifest of the package, which has a workspace of its own.
const MANIFEST: &str = "interop/beside/Cargo.toml";
/// The libraries that mcpjoin runs together with: each is a feature of the package.
const OTHERS: [&str; 4] = ["reqwest-without-tls", "reqwest-default", "rustls-aws-lc-rs", "mcpjoin-aws-lc-rs"];

pub(crate) fn run(root: &Path) -> Result<()> {
    for other in OTHERS {
        let options = ["run", "--quiet", "--locked", "--manifest-path", MANIFEST, "--features", other];
        succeed(&mut cargo(root, &options))?;
    }
    Ok(())
}
