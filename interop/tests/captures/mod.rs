//! The output of mcpjoin on a terminal of 80 columns and on one of 60, as `pyte` renders it: `docs/captures` has it as text and
//! as pictures. `interop/captures/captures.py` looks for characters that must not appear, also with a hostile server.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether the script found no fault in this binary's output, and the script's messages.
fn captured(binary: &Path) -> (bool, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(interop::server("venv/bin/python").unwrap())
        .arg(root.join("captures/captures.py"))
        .arg(binary)
        .arg(root.join("../docs/captures"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn i167_i175_a_terminal_shows_what_is_kept_and_nothing_drives_it() {
    let (right, said) = captured(&interop::mcpjoin().unwrap());
    assert!(right, "{said}");
}

#[test]
fn captures_of_a_program_that_drives_the_terminal_are_refused() {
    let folder = interop::Folder::new("captures");
    let program = folder.path().join("mcpjoin");
    let wide = "many words ".repeat(10);
    let script =
        format!("#!/bin/sh\nprintf '\\033[38;5;196mred\\033[0m\\033[2J\\033]0;title\\007\\n{wide}\\n'\n");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (right, said) = captured(&program);
    assert!(!right, "{said}");
    for problem in [
        "help, 80 columns: a style or colour that not every terminal has: 38;5;196",
        "help, 80 columns: a terminal would obey or hide '\\x1b'",
        "changed: erase_in_display",
        "the title was changed: 'title'",
        "help, 60 columns: a row of 1",
        "has another text",
    ] {
        assert!(said.contains(problem), "{problem:?} is missing in {said}");
    }
}
