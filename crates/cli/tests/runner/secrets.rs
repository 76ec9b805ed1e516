//! Tests that secrets given to a server are not printed: they are planted in its arguments and variables, and looked for in
//! all output.

use std::os::unix::fs::PermissionsExt;

use super::support::{call_legacy, command, legacy, program, run, scratch, start};

/// Arguments of a server that hold a secret.
const PLANTED: [&str; 10] = [
    "--api-key=s3cret-option",
    "--token",
    "s3cret-next",
    "--header",
    "Authorization: Bearer s3cret-header",
    "-H",
    "X-Tenant: s3cret-custom",
    "GITHUB_TOKEN=s3cret-variable",
    "https://s3cret-user:s3cret-pass@host/mcp",
    "https://host/mcp?api_key=s3cret-query&b=1",
];

#[test]
fn i166_secrets_in_a_servers_arguments_are_shown_nowhere() {
    // The server prints each argument on its standard error and its output.
    let dies = "for word in \"$@\"; do echo \"given $word\" >&2; echo \"given $word\"; done; exit 1";
    let hangs = "for word in \"$@\"; do echo \"given $word\"; done; cat >/dev/null";
    for script in [dies, hangs] {
        for option in ["-vv", "--json", "-q"] {
            let mut list = vec!["list", "--connect-timeout", "200ms", "--era", "legacy", option, "sh", "-c"];
            list.extend([script, "sh"]);
            list.extend(PLANTED);
            let ran = run(list).exits(4);
            assert!(!ran.stderr.contains("s3cret"), "{option}: {}", ran.stderr);
            assert!(ran.stderr.contains("***"), "{option}: {}", ran.stderr);
            assert_eq!(ran.stdout, "");
        }
    }
}

#[test]
fn i166_secrets_in_variables_are_shown_nowhere_whatever_becomes_of_the_call() {
    let planted = "s3cret-of-the-variable";
    let variable = format!("API_KEY={planted}");
    for body in [
        // Output with -vv that is no message, an exit during the call, and no response.
        r#"read -r line; echo "$API_KEY"; cat >/dev/null"#,
        r#"read -r line; echo "no $API_KEY" >&2; exit 3"#,
        r#"read -r line; echo "late $API_KEY" >&2; cat >/dev/null"#,
    ] {
        for options in [&["-vv"][..], &["-v", "--json"], &["-q"]] {
            let mut all = vec!["-e", &variable, "--timeout", "200ms"];
            all.extend(options);
            let ran = call_legacy(&all, body).exits(4);
            assert!(!ran.stderr.contains(planted), "{options:?}: {}", ran.stderr);
        }
    }
    // An inherited variable that is named on the command line.
    let script = legacy("read -r line; echo \"has $INHERITED\" >&2; exit 3");
    let mut call = command([
        "call",
        "-vv",
        "--env-clean",
        "-e",
        "INHERITED",
        "--era",
        "legacy",
        "--force",
        "x",
        "--",
        "sh",
        "-c",
    ]);
    call.arg(&script).env("INHERITED", planted);
    let ran = start(call).finish().exits(4);
    assert!(!ran.stderr.contains(planted) && ran.stderr.contains("has ***"), "{}", ran.stderr);
}

#[test]
fn i166_words_that_cannot_be_used_are_refused_without_their_secrets() {
    for words in [
        &["list", "https://s3cret-user:s3cret-pass@host/mcp"][..],
        &["call", "https://s3cret-user:s3cret-pass@host/mcp", "tool"],
        &["list", "-e", "=s3cret-pass", "demo:"],
    ] {
        let ran = run(words).exits(2);
        assert!(!ran.stderr.contains("s3cret"), "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn a_file_with_secrets_that_others_can_read_is_warned_of_once() {
    let url = "http://127.0.0.1:1";
    let file = scratch("open-headers");
    std::fs::write(&file, "Authorization: Bearer s3cret-header\n").unwrap();
    let at = format!("@{}", file.display());
    let warning =
        format!("warning: other users can read {}, which holds secrets (chmod 600)", file.display());
    for (mode, times) in [(0o644, 1), (0o640, 0), (0o600, 0)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        // A URL without a path is tried at two paths.
        let ran = run(["list", "-q", "-H", &at, url]).exits(4);
        let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(said.matches(&warning).count(), times, "{mode:o}: {}", ran.stderr);
    }
    std::fs::remove_file(file).unwrap();
    // A pipe has no readers but us.
    let piped = program(
        "bash",
        ["-c", r#"exec "$0" list -q -H @<(echo A: s3cret) "$1""#, env!("CARGO_BIN_EXE_mcpjoin"), url],
    );
    let ran = start(piped).finish().exits(4);
    assert!(!ran.stderr.contains("can read"), "{}", ran.stderr);
}
