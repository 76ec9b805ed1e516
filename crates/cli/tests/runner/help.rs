//! The reference: every help text as one file, so that a change is seen.

use std::fmt::Write;

use super::support::{line, run};

#[test]
fn the_reference_is_what_is_checked_in() {
    let mut reference = String::new();
    for words in [
        "--help",
        "validate --help",
        "list --help",
        "info --help",
        "search --help",
        "tool --help",
        "call --help",
        "read --help",
        "prompt --help",
        "complete --help",
        "ping --help",
        "doctor --help",
        "bridge --help",
        "servers --help",
        "servers convert --help",
        "servers trust --help",
        "serve --help",
        "completions --help",
        "man --help",
        "help targets",
        "-h",
    ] {
        let ran = line(words).exits(0);
        assert_eq!(ran.stderr, "", "{words}");
        let _ = write!(reference, "$ mcpjoin {words}\n{}\n", ran.stdout);
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference.txt");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, &reference).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap();
    assert_eq!(reference, known, "the help has changed: UPDATE_REFERENCE=1 writes {}", path.display());
}

#[test]
fn help_is_found_in_every_way() {
    for (one, other) in [("help", "--help"), ("help list", "list --help"), ("help call", "call --help")] {
        assert_eq!(line(one).exits(0).stdout, line(other).exits(0).stdout, "{one}");
    }
    assert_eq!(line("--version").exits(0).stdout, format!("mcpjoin {}\n", env!("CARGO_PKG_VERSION")));
    run(["-V"]).exits(0);
}

#[test]
fn what_is_not_built_is_not_in_the_help() {
    let reference = include_str!("../reference.txt");
    for word in ["auth login", "--oauth"] {
        assert!(!reference.contains(word), "{word}");
    }
}
