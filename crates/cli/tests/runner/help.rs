//! Compares all help texts with the reference file, so that a change is visible in a review.

use std::fmt::Write;

use super::support::{line, program, run, start};

#[test]
fn the_reference_is_what_is_checked_in() {
    let mut reference = String::new();
    for words in [
        "--help",
        "validate --help",
        "list --help",
        "info --help",
        "diff --help",
        "search --help",
        "tool --help",
        "call --help",
        "read --help",
        "prompt --help",
        "complete --help",
        "ping --help",
        "shell --help",
        "doctor --help",
        "auth --help",
        "auth login --help",
        "auth status --help",
        "auth logout --help",
        "auth explain --help",
        "bridge --help",
        "servers --help",
        "servers convert --help",
        "servers add --help",
        "servers remove --help",
        "servers trust --help",
        "servers untrust --help",
        "servers trusted --help",
        "serve --help",
        "completions --help",
        "man --help",
        "help targets",
        "help options",
        "help quic",
        "help orchestra",
        "-h",
        "validate -h",
        "list -h",
        "call -h",
        "bridge -h",
        "auth login -h",
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
    for (one, other) in [
        ("help", "--help"),
        ("help list", "list --help"),
        ("help call", "call --help"),
        ("help servers convert", "servers convert --help"),
        ("help servers", "servers --help"),
    ] {
        assert_eq!(line(one).exits(0).stdout, line(other).exits(0).stdout, "{one}");
    }
    assert_eq!(line("--version").exits(0).stdout, format!("mcpjoin {}\n", env!("CARGO_PKG_VERSION")));
    run(["-V"]).exits(0);
    line("help servers nothing")
        .exits(2)
        .says(&["there is no help on servers nothing", "mcpjoin help servers"]);
    line("help nothing").exits(2).says(&["there is no help on nothing", "try      mcpjoin help"]);
}

#[test]
fn what_can_be_typed_is_shown_under_the_name_of_the_program() {
    let link = super::support::scratch("other-name");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mcpjoin"), &link).unwrap();
    for words in
        [&["servers", "convert", "--help"][..], &["list", "--no-such"], &["-h"], &["servers", "convert"]]
    {
        let ran = start(program(link.to_str().unwrap(), words)).finish();
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(text.contains("Usage: mcpjoin") && !text.contains("other-name"), "{words:?}: {text}");
    }
    std::fs::remove_file(&link).unwrap();
}

#[test]
fn what_is_not_built_is_not_in_the_help() {
    let reference = include_str!("../reference.txt");
    for word in ["--oauth", "mcpjoin record", "mcpjoin replay"] {
        assert!(!reference.contains(word), "{word}");
    }
}
