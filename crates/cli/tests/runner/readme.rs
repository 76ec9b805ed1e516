//! What the README and the pages of `docs/` show is what the binary prints.
//!
//! In their `console` blocks a line `$ mcpjoin ...` with lines below it is a promise: the command is run in a shell, as the
//! reader would, and both outputs together must be those lines. Times and processes differ from run to run, so every number
//! before ` ms` or ` s`, and after `process `, counts as the same.

use std::path::Path;
use std::process::Command;

/// The commands of the README that have an output, each with it.
fn shown(readme: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    let mut in_block = false;
    for line in readme.lines() {
        if line.starts_with("```") {
            in_block = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_block) {
            commands.push((command.to_owned(), String::new()));
        } else if in_block {
            let (_, output) = commands.last_mut().expect("a block begins with a command");
            output.push_str(line);
            output.push('\n');
        }
    }
    commands.retain(|(_, output)| !output.is_empty());
    commands
}

/// The text with every measured time replaced by a sign.
fn timeless(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n']);
    let mut out: Vec<String> = Vec::new();
    for word in words {
        if matches!(word.trim_end().trim_end_matches([',', ';', ':', ')']), "ms" | "s")
            && let Some(number) = out.last_mut()
            && number.trim_start_matches('(').trim_end().parse::<f64>().is_ok()
        {
            "# ".clone_into(number);
            out.push(word.replacen("ms", "s", 1));
        } else if out.last().is_some_and(|before| before == "process ")
            && word.trim_end().parse::<u32>().is_ok()
        {
            out.push(word.replace(|c: char| c.is_ascii_digit(), ""));
        } else {
            out.push(word.to_owned());
        }
    }
    // Columns of times are aligned by their digits. Where a program lies is the machine's own.
    let out = out.concat();
    let lines = out.lines().map(|line| if line.starts_with("resolve ") { "resolve" } else { line });
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
}

fn page(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

fn readme() -> String {
    page("README.md")
}

#[test]
fn what_the_readme_shows_is_printed() {
    printed(&readme(), 3);
}

#[test]
fn what_the_page_on_closed_connections_shows_is_printed() {
    printed(&page("docs/connection-closed.md"), 6);
}

/// Runs every command of the page whose output it shows; there are at least so many.
fn printed(page: &str, least: usize) {
    let commands = shown(page);
    assert!(commands.len() >= least, "the page shows {} commands with their output", commands.len());
    let folder = Path::new(env!("CARGO_BIN_EXE_mcpjoin")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(std::iter::once(folder.into()).chain(std::env::split_paths(&path))).unwrap();
    for (command, expected) in commands {
        assert!(command.starts_with("mcpjoin "), "{command} is none of ours");
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("{command} 2>&1"))
            .env("PATH", &path)
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(timeless(&printed), timeless(&expected), "{command} printed:\n{printed}");
    }
}

#[test]
fn the_two_commands_of_the_set_up_are_there() {
    let readme = readme();
    for command in ["cargo run --release -- validate demo:", "cargo xtask test"] {
        assert!(readme.contains(&format!("$ {command}\n")), "{command}");
    }
}

#[test]
fn times_are_no_difference() {
    assert_eq!(timeless("a 12 ms, b  3.4 s\nc (5 ms)\n"), timeless("a 1 ms, b 17 ms\nc (1.2 s)\n"));
    assert_ne!(timeless("a 12 tools"), timeless("a 13 tools"));
    assert_ne!(timeless("a 12 ms"), timeless("a ms"));
}
