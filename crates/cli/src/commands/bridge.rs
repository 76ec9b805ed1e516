//! `mcpjoin bridge`: any side to any side. What it does is decided by the side on which it listens.

mod go;
mod host;
mod orchestrator;

pub(super) use go::{Typed, read as read_go};

use crate::args::Bridge;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::Ui;

/// Joins both sides until one of them, or a signal, ends it. `escaped`: `--` stood before the first word.
pub(crate) fn run(ui: &Ui, args: Bridge, escaped: bool) -> Result<Exit, Failure> {
    if args.orchestrator_addr.is_some() || args.tcp_addr.is_some() {
        return orchestrator::run(ui, &args);
    }
    host::run(ui, args, escaped)
}
