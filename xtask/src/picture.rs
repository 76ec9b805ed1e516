//! `cargo xtask picture`: records the terminal session that the README shows, as `docs/images/terminal.svg`.
//!
//! The commands run in a terminal of 80 columns (`terminal.py` of the test fixtures, which needs python3), and `anstyle-svg` draws
//! what they print. `crates/cli/tests/runner/readme.rs` reads commands and output from the picture, and fails when the binary
//! prints something else.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anstyle_svg::{Term, WIN10_CONSOLE};
use anyhow::{Context, Result, ensure};

use crate::steps::{cargo, stdout, succeed};
use crate::tools::target;

/// What the picture shows: the parameters of a tool, its call, and the cause of a failure.
const COMMANDS: [&str; 3] = [
    "mcpjoin tool demo: add",
    "mcpjoin call demo: add a=2 b=40",
    r#"mcpjoin doctor sh -c 'echo "Error: API_KEY is not set" >&2; exit 1'"#,
];

/// Returns to the first column and clears the line: the end of a transient line.
const CLEARED: &str = "\r\u{1b}[K";

/// Builds the binary, records the session and writes the picture.
pub(crate) fn run(root: &Path) -> Result<()> {
    succeed(&mut cargo(root, &["build", "--package", "mcpjoin-cli"]))?;
    let folder = target(root)?.join("debug");
    let mut session = String::new();
    for command in COMMANDS {
        if !session.is_empty() {
            session.push('\n');
        }
        let output = recorded(root, &folder, command)?;
        session.push_str(&format!("$ \u{1b}[1m{command}\u{1b}[0m\n{output}"));
    }
    let picture = root.join("docs/images/terminal.svg");
    fs::create_dir_all(picture.parent().context("a file is in a folder")?)?;
    fs::write(&picture, drawn(&session)).with_context(|| format!("cannot write {}", picture.display()))?;
    println!("    {}", picture.display());
    Ok(())
}

/// What a command leaves on a terminal, with its colours.
fn recorded(root: &Path, folder: &Path, command: &str) -> Result<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path)))?;
    let mut terminal = Command::new("python3");
    terminal.arg(root.join("crates/test-support/fixtures/terminal.py")).args(["", "", "sh", "-c", command]);
    terminal.env("PATH", path).env("TERM", "xterm-256color").stdin(Stdio::null());
    for variable in ["CI", "CLICOLOR", "COLUMNS", "NO_COLOR"] {
        terminal.env_remove(variable);
    }
    let report: serde_json::Value = serde_json::from_str(&stdout(&mut terminal)?)?;
    let shown = report["shown"].as_str().context("the terminal showed nothing")?;
    ensure!(!shown.is_empty(), "{command} printed nothing");
    Ok(remaining(shown))
}

/// The lines that a terminal keeps, without transient ones.
fn remaining(shown: &str) -> String {
    let lines = shown.split("\r\n").map(|line| line.rsplit(CLEARED).next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn drawn(session: &str) -> String {
    Term::new().palette(WIN10_CONSOLE).render_svg(session.trim_end())
}

#[cfg(test)]
mod tests {
    use super::{drawn, remaining};

    #[test]
    fn transient_lines_are_not_in_the_picture() {
        let shown = "\r\u{1b}[Kspawn ...\r\u{1b}[K\u{1b}[1mspawn\u{1b}[0m 4 ms\r\n\r\nend\r\n";
        assert_eq!(remaining(shown), "\u{1b}[1mspawn\u{1b}[0m 4 ms\n\nend\n");
    }

    #[test]
    fn a_session_is_drawn_with_its_colours_and_the_same_each_time() {
        let session = "$ \u{1b}[1mmcpjoin a <b> & \"c\"\u{1b}[0m\n\u{1b}[31mfault\u{1b}[0m\n";
        let picture = drawn(session);
        assert!(picture.contains("mcpjoin a &lt;b&gt; &amp; "), "{picture}");
        assert!(picture.contains("class=\"fg-red\">fault<") && !picture.contains('\u{1b}'), "{picture}");
        assert_eq!(picture, drawn(session));
    }
}
