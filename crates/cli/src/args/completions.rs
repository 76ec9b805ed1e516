//! `mcpjoin completions`: what can be typed.

use clap::Args;
use clap_complete::Shell;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    mcpjoin completions bash > ~/.local/share/bash-completion/completions/mcpjoin\n  \
    mcpjoin completions zsh > \"${fpath[1]}/_mcpjoin\"\n  \
    mcpjoin completions fish > ~/.config/fish/completions/mcpjoin.fish")]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}
