//! Tests of large results and arguments, and of the environment of a call: nothing but the result on standard output, closed
//! standard streams, and a home that is not writable.

use std::path::Path;
use std::process::Stdio;

use super::support::{Ran, command, legacy, line, program, run, start};

const MIB: usize = 1024 * 1024;

/// Calls a tool in this case of `fixtures/bytes.py`.
fn bytes(options: &[&str], case: &str) -> Ran {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test-support/fixtures/bytes.py");
    let mut call = command(["call", "--era", "legacy", "--force"]);
    call.args(options).args([case, "--", "python3"]).arg(path);
    start(call).finish()
}

#[test]
fn a4_a_result_of_9_mib_is_right_and_one_of_11_names_the_limit_and_the_flag() {
    let nine = bytes(&[], "nine").exits(0);
    assert!((9 * MIB - 200..9 * MIB).contains(&nine.stdout.len()), "{}", nine.stdout.len());
    assert!(nine.stdout.trim_end().bytes().all(|byte| byte == b'x'));

    let eleven = bytes(&[], "eleven").exits(4);
    assert_eq!(eleven.stdout, "");
    eleven.says(&["(E_TOO_LARGE)", "10485760", "--max-message-size", "doing    call"]);
    let raised = bytes(&["--max-message-size", "12MiB"], "eleven").exits(0);
    assert!((11 * MIB - 200..11 * MIB).contains(&raised.stdout.len()), "{}", raised.stdout.len());
}

#[test]
fn a16_a_server_that_prints_beside_its_messages_works_and_is_reported_with_vv() {
    let ran = bytes(&[], "log_text").exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("fine\n", ""));
    let ran = bytes(&["-vv"], "log_text").exits(0);
    assert_eq!(ran.stdout, "fine\n");
    ran.says(&["the peer broke a rule, violation: not a message", "INFO"]);
}

#[test]
fn i174_f23_nothing_but_the_result_is_on_standard_output() {
    // A server that writes to all its outputs, and a tool that sends progress and log messages.
    for words in [
        "call OPTIONS demo:full test_tool_with_logging",
        "call OPTIONS demo:full test_tool_with_progress",
        "call OPTIONS demo:full test_error_handling",
    ] {
        for json in ["", "--json "] {
            let with = |options: &str| line(&words.replace("OPTIONS ", &format!("{json}{options}"))).stdout;
            let quiet = with("-q ");
            assert!(!quiet.is_empty(), "{words}");
            assert_eq!(with(""), quiet, "{words}");
            assert_eq!(with("-vv "), quiet, "{words}");
            if !json.is_empty() {
                serde_json::from_str::<serde_json::Value>(&quiet).unwrap();
            }
        }
    }
    // A failed command prints no result in any format.
    for words in ["list mcpjoin-no-such-program", "call demo:full no-such-tool", "list http://h/"] {
        for option in ["", "--json ", "-vv "] {
            let ran = line(&words.replacen(' ', &format!(" {option}"), 1));
            assert_eq!(ran.stdout, "", "{words}");
            if option == "--json " {
                ran.failure();
            }
        }
    }
}

#[test]
fn i171_standard_input_may_be_closed_a_file_or_anything() {
    let mcpjoin = env!("CARGO_BIN_EXE_mcpjoin");
    let shell = |line: String| start(program("sh", ["-c", &line])).finish();
    for input in ["<&-", "</dev/null", "</dev/zero"] {
        let ran = shell(format!("'{mcpjoin}' call demo: echo message=hi {input}")).exits(0);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("hi\n", ""), "{input}");
        shell(format!("'{mcpjoin}' list demo: {input}")).exits(0);
    }
    // Arguments from standard input or a file: closed, endless, too large.
    shell(format!("'{mcpjoin}' call demo: echo - <&-")).exits(2).says(&["(E_USAGE)"]);
    let endless = shell(format!("'{mcpjoin}' call demo: echo - </dev/zero")).exits(2);
    endless.says(&["longer than the limit of 10485760 bytes", "--max-message-size"]);
    let endless = shell(format!("'{mcpjoin}' call demo: echo @/dev/zero")).exits(2);
    endless.says(&["longer than the limit of 10485760 bytes"]);
    // All three streams are closed: no message can be printed, and no process is left.
    shell(format!("'{mcpjoin}' list demo: <&- >&- 2>&-; test $? -le 5")).exits(0);
}

#[test]
fn i176_a_home_that_cannot_be_written_to_and_a_full_disk_change_nothing() {
    let script = legacy(
        r#"read -r line; printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}'; cat >/dev/null"#,
    );
    for home in ["/proc", "/dev/full", "/no/such/home", ""] {
        let mut list = command(["list", "--era", "legacy", "sh", "-c", &script]);
        for variable in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR"] {
            list.env(variable, home);
        }
        assert_eq!(
            start(list).finish().exits(0).stdout,
            "the server has no tools, resources or prompts\n",
            "{home}"
        );
    }
    for words in
        [&["list", "demo:"][..], &["list", "--json", "demo:"], &["call", "demo:", "echo", "message=hi"]]
    {
        let mut full = command(words);
        full.stdout(Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap()));
        start(full).finish().exits(2).says(&["E_OUTPUT", "No space left"]);
    }
}

#[test]
fn f32_odd_words_and_variables_panic_nowhere() {
    for words in [
        &["list", "-e", "A=\n", "demo:"][..],
        &["list", "--cwd", "", "demo:"],
        &["call", "demo:", "echo", "message=\u{0}".trim_end_matches('\u{0}')],
        &["list", ""],
        &["call", "", "tool"],
        &["list", "--", ""],
        &["list", "/dev/null"],
    ] {
        let ran = run(words);
        assert!(ran.code.is_some_and(|code| [0, 2, 4, 5].contains(&code)), "{words:?}: {:?}", ran.code);
        assert!(!ran.stderr.contains("panicked"), "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn a_file_without_end_is_read_up_to_its_limit() {
    let pin = format!("sha256:{}", "ab".repeat(32));
    for words in [
        &["validate", "--baseline", "/dev/zero", "demo:"][..],
        &["list", "--pin", &pin, "--cert", "/dev/zero", "--key", "/dev/zero", "quic://127.0.0.1:1"],
    ] {
        run(words).exits(2).says(&["/dev/zero", "larger than the limit of 16 MiB"]);
    }
}
