//! Tests of questions of a server: forms on a terminal, answers of scripts, roots and sampling.

use std::fs;

use super::support::{legacy, legacy_with, line, run, scratch};
use super::terminal::{remaining, seen};

const ERAS: [&str; 2] = ["legacy", "modern"];

#[test]
fn a_form_is_filled_in_on_the_terminal() {
    for era in ERAS {
        let keys = "Ada\nada\nada@example.com\n\n";
        let call = ["call", "--era", era, "demo:full", "test_elicitation", "message=Who are you?"];
        let seen = seen(&[("NO_COLOR", "1")], "(username)", keys, &call);
        assert_eq!(seen.exit, 0, "{}", seen.shown);
        let shown = remaining(&seen.shown);
        for part in [
            "demo:full asks:\n  Who are you?\n",
            "Name (username): text, required\n",
            "Address for mail (email): email address, required\n",
            "  ada is not an email address, as ada@example.com\n",
            "Send this answer? [Y]es, [e]dit, [d]ecline, [c]ancel ",
            "action: accept, content: {\"username\":\"Ada\",\"email\":\"ada@example.com\"}",
        ] {
            assert!(shown.contains(part), "{part:?} is missing in: {shown}");
        }
    }
}

#[test]
fn a_form_can_be_declined_and_its_defaults_taken() {
    let call = ["call", "demo:full", "test_elicitation_sep1034_defaults"];
    let declined = seen(&[], "(Enter accepts", ":decline\n", &call);
    assert!(declined.shown.contains("action=decline"), "{}", declined.shown);
    let taken = seen(&[], "(Enter accepts", "\n\n\n2\nno\ny\n", &call);
    let content = r#"{"name":"John Doe","age":30,"score":95.5,"status":"inactive","verified":false}"#;
    assert!(taken.shown.contains(&format!("action=accept, content={content}")), "{}", taken.shown);
}

#[test]
fn ctrl_c_ends_the_command_while_it_asks() {
    let call = ["call", "demo:full", "test_elicitation", "message=x"];
    let seen = seen(&[], "(username)", "^C", &call);
    assert_eq!(seen.exit, 130, "{}", seen.shown);
}

#[test]
fn no_input_does_not_ask_on_a_terminal() {
    let call = ["call", "--no-input", "demo:full", "test_elicitation", "message=x"];
    let seen = seen(&[], "", "", &call);
    assert!(seen.shown.contains("action: decline"), "{}", seen.shown);
    assert!(seen.shown.contains("demo:full asks: x (declined: --no-input"), "{}", seen.shown);
}

#[test]
fn a_script_answers_with_a_file() {
    let file = scratch("answers.json");
    fs::write(&file, r#"[{"username":"Ada","email":"ada@example.com"}]"#).unwrap();
    for era in ERAS {
        let file = file.to_str().unwrap();
        let ran = run(["call", "--era", era, "--answer", file, "demo:full", "test_elicitation", "message=x"])
            .exits(0);
        assert!(ran.stdout.contains(r#"action: accept, content: {"username":"Ada""#), "{}", ran.stdout);
        assert_eq!(ran.stderr, "");
        // Two questions one after another, and one answer.
        let one = r#"[{"name":"Ada"}]"#;
        let ran = run([
            "call",
            "--era",
            era,
            "--answer",
            one,
            "demo:full",
            "test_input_required_result_multi_round",
        ]);
        ran.says(&["(declined: --answer has no more answers)"]);
    }
}

#[test]
fn an_answer_that_does_not_fit_is_an_error() {
    for era in ERAS {
        let call = [
            "call",
            "--era",
            era,
            "--answer",
            r#"{"usrname":"Ada"}"#,
            "demo:full",
            "test_elicitation",
            "message=x",
        ];
        run(call)
            .exits(5)
            .says(&["--answer does not fit the form of demo:full: ", "username: missing, violates required"]);
    }
    let wrong = run(["call", "--answer", "[7]", "demo:full", "test_elicitation", "message=x"]).exits(2);
    wrong.says(&["--answer: an answer is an object of values", "(E_USAGE)"]);
    line("call --answer {} --no-input demo: echo").exits(2);
}

#[test]
fn without_a_terminal_the_failure_names_the_cure() {
    line("call --era modern demo:full test_elicitation message=x").exits(5).says(&["--answer FILE"]);
    line("call --era modern demo:full test_sampling prompt=x").exits(5).says(&["--sampler COMMAND"]);
    line("call --era modern demo:full test_input_required_result_list_roots").exits(5).says(&["--root DIR"]);
    for era in ERAS {
        let declined =
            line(&format!("call --no-input --era {era} demo:full test_elicitation message=x")).exits(0);
        assert!(declined.stdout.contains("action: decline"), "{}", declined.stdout);
        declined.says(&["demo:full asks: x (declined: --no-input is set; --answer FILE answers it)"]);
    }
}

#[test]
fn a_page_is_accepted_by_a_script_and_its_address_shown() {
    let question = r#"{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{"mode":"url","elicitationId":"1","message":"Pay","url":"https://pay.example/\u001b[2J"}}"#;
    let result = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"done"}]}}"#;
    let body = format!(
        "read -r line; printf '%s\\n' '{question}'; read -r line; echo \"received $line\" >&2; \
         printf '%s\\n' '{result}'; cat >/dev/null"
    );
    let script = legacy_with(r#""tools":{}"#, &body);
    let ran = run([
        "call",
        "-v",
        "--era",
        "legacy",
        "--force",
        "--answer",
        r#"["accept"]"#,
        "x",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    ran.exits(0).says(&[r#""action":"accept""#, "asks you to open https://pay.example/\\u{1b}[2J\n"]);
}

#[test]
fn roots_are_the_folders_that_are_named() {
    let folder = scratch("root");
    fs::create_dir_all(&folder).unwrap();
    let name = folder.to_str().unwrap();
    for era in ERAS {
        let ran = run([
            "call",
            "--era",
            era,
            "--root",
            name,
            "--root",
            "/",
            "demo:full",
            "test_input_required_result_list_roots",
        ]);
        assert!(ran.stdout.contains(&format!("file://{name}")), "{} {}", ran.stdout, ran.stderr);
        ran.exits(0);
    }
    fs::remove_dir(&folder).unwrap();
    run(["call", "--root", name, "demo:", "echo"]).exits(2).says(&["--root ", "where DIR is a folder"]);
}

#[test]
fn a_command_answers_for_a_model() {
    for era in ERAS {
        let sample = |command: &str| {
            run([
                "call",
                "--era",
                era,
                "--sampler",
                command,
                "demo:full",
                "test_sampling",
                "prompt=Which city?",
            ])
        };
        let text = sample("grep -q 'Which city?' && echo Paris").exits(0);
        assert_eq!(text.stdout, "LLM response: Paris\n");
        let json = sample(r#"cat >/dev/null; echo '{"model":"m","content":{"type":"text","text":"Rome"}}'"#)
            .exits(0);
        assert_eq!(json.stdout, "LLM response: Rome\n");
        let plain = sample(r#"echo '{"content":"Bonn"}'"#).exits(0);
        assert_eq!(plain.stdout, "LLM response: Bonn\n");
        sample("echo no key >&2; exit 3").exits(5).says(&["it ended with exit code 3: no key"]);
        sample("true").exits(5).says(&["it printed nothing"]);
        sample("sleep 1000 & yes").exits(5).says(&["it printed more than 64 KiB"]);
    }
}

#[test]
fn a_terminal_declares_forms_and_a_script_does_not() {
    let script =
        legacy("cat >/dev/null").replacen("read -r line", "read -r line; echo \"received $line\" >&2", 1);
    let ping = ["info", "-v", "--era", "legacy", "--", "sh", "-c", &script];
    let mut timed: Vec<&str> = ping[..2].to_vec();
    timed.extend(["-t", "1s"]);
    timed.extend(&ping[2..]);
    assert!(!run(&timed).stderr.contains("elicitation"));
    let shown = seen(&[("COLUMNS", "500")], "", "", &timed).shown;
    assert!(shown.contains("elicitation"), "{shown}");
}
