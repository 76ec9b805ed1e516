//! `mcpjoin bridge`: any side to any side. What it does is decided by the side on which it listens.

mod host;

use crate::args::Bridge;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::Ui;

/// Joins both sides until one of them, or a signal, ends it. `escaped`: `--` stood before the first word.
pub(crate) fn run(ui: &Ui, args: Bridge, escaped: bool) -> Result<Exit, Failure> {
    host::run(ui, args, escaped)
}
