//! The binary `mcpjoin`. What it does stands in `lib.rs`, so that the fuzz targets reach it, too.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcpjoin_cli::run()
}
