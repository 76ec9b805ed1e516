//! Tests of `mcpjoin doctor` without a target, which checks the machine, the configuration and each configured server. The
//! finding for each fault of a machine is tested in the library.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use super::config::Folder;
use super::support::{Ran, line, start};

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");
const RUNTIMES: [&str; 9] = ["node", "npx", "npm", "python3", "uv", "uvx", "docker", "deno", "bun"];

/// A home with every runtime, found from any start directory. The doctor does not look at those parts of the real machine
/// that could be faulty.
fn machine(name: &str) -> Folder {
    furnished(Folder::new(name))
}

fn furnished(folder: Folder) -> Folder {
    for runtime in RUNTIMES {
        program(&folder, &format!("../.local/bin/{runtime}"), "echo v22.1.0");
    }
    folder.file("../.profile", "PATH=\"$HOME/.local/bin:$PATH\"\n");
    let certificate = rcgen::generate_simple_self_signed(["test".to_owned()]).unwrap();
    folder.file("../ca.pem", certificate.cert.pem());
    fs::create_dir_all(folder.path().join("tmp")).unwrap();
    folder
}

fn program(folder: &Folder, path: &str, body: &str) {
    let path = folder.file(path, format!("#!/bin/sh\n{body}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A command of the binary on that machine.
fn on(folder: &Folder, words: &[&str]) -> Command {
    let mut command = folder.command(words);
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    for name in ["SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "DENO_CERT"] {
        command.env_remove(name);
    }
    for name in ["npm_config_cache", "NPM_CONFIG_CACHE", "UV_CACHE_DIR", "XDG_CACHE_HOME", "NVM_DIR"] {
        command.env_remove(name);
    }
    command.env("PATH", format!("{}/.local/bin:/usr/bin:/bin", folder.path().display()));
    command.env("SHELL", "/bin/bash");
    command.env("SSL_CERT_FILE", folder.path().join("ca.pem")).env("TMPDIR", folder.path().join("tmp"));
    command
}

#[track_caller]
fn doctor(folder: &Folder, words: &[&str]) -> Ran {
    start(on(folder, &[&["doctor"], words].concat())).finish()
}

fn ids(findings: &Value) -> Vec<&str> {
    findings.as_array().unwrap().iter().map(|finding| finding["id"].as_str().unwrap()).collect()
}

#[test]
fn r72_a_healthy_machine_is_reported_in_a_line_for_each_part() {
    let folder = machine("doctor-healthy");
    let ran = doctor(&folder, &["--environment"]).exits(0);
    let parts: Vec<&str> = ran.stdout.lines().take(8).map(|line| line[..10].trim_end()).collect();
    let expected = ["path", "runtimes", "caches", "proxy", "certs", "loopback", "clock", "room"];
    assert_eq!(parts, expected, "{}", ran.stdout);
    let last = ran.stdout.lines().last().unwrap();
    assert_eq!(last, "no fault found");
    assert_eq!(ran.stderr, "");
    let ran = doctor(&folder, &["--environment", "-v"]).exits(0);
    let last = ran.stdout.lines().last().unwrap();
    assert!(last.starts_with("no fault found: ") && last.contains(" not run ("), "{last}");
    let ran = doctor(&folder, &["--environment", "--json"]).exits(0);
    let document = ran.json();
    assert_eq!(document["healthy"], true, "{document}");
    assert_eq!(document["checks"].as_array().unwrap().len(), 25);
    let npx = &document["runtimes"][1];
    let path = folder.path().join(".local/bin/npx").display().to_string();
    assert_eq!(
        (npx["version"].as_str(), npx["found"]["login-shell"]["path"].as_str()),
        (Some("v22.1.0"), Some(path.as_str()))
    );
    // Without a configuration there are no further findings.
    let ran = doctor(&folder, &["-v"]).exits(0);
    assert!(ran.stdout.contains("there is no configuration)"), "{}", ran.stdout);
    line("doctor --environment demo:").exits(2);
    line("doctor --environment -e A=B").exits(2).says(&["-e is for a server"]);
}

#[test]
fn f25_a_broken_machine_is_reported_without_the_secrets_of_its_variables() {
    let folder = machine("doctor-broken");
    for words in [&["--environment"][..], &["--environment", "--json", "-vv"], &["-v"]] {
        let mut command = on(&folder, &[&["doctor"], words].concat());
        command
            .env("https_proxy", "http://me:hunter2hunter2@127.0.0.1:1")
            .env("SSL_CERT_FILE", "/nowhere/ca.pem");
        command.env("NO_PROXY", "localhost,127.0.0.1");
        let ran = start(command).finish().exits(1);
        for id in ["proxy-unreachable", "certificates-named-wrong"] {
            assert!(ran.stdout.contains(id), "{}", ran.stdout);
        }
        assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{}", ran.stdout);
    }
}

#[test]
fn r72_without_a_target_every_server_of_the_configuration_is_examined() {
    let folder = machine("doctor-everything");
    folder.file(
        ".mcp.json",
        format!(
            r#"{{"mcpServers": {{
  "demo": {{"command": "{BINARY}", "args": ["serve", "demo"]}},
  "dies": {{"command": "sh", "args": ["-c", "echo no key $TOKEN >&2; exit 3"], "env": {{"TOKEN": "hunter2hunter2"}}}},
  "unset": {{"command": "sh", "args": ["-c", "echo was-run >> ran; echo ${{MCPJOIN_NOT_SET}}"]}},
  "off": {{"command": "sh", "args": ["-c", "echo was-run >> ran"], "disabled": true}}
}}}}"#
        ),
    );
    folder.file(".cursor/mcp.json", r#"{"mcpServers": {"demo": {"command": "x"}}}"#);
    folder.file("../.codex/config.toml", "[mcp_servers.bad\n");
    let ran = doctor(&folder, &[]).exits(1);
    for part in [
        "This machine\n",
        ".mcp.json            4 entries (mcp-servers)",
        "mcpjoin-demo 0.1.0, protocol 2026-07-28, ",
        "off                - not run: disabled",
        "unset              - not run: the entry is unusable",
        "demo               - not run: an earlier entry has the same name",
        ".codex/config.toml:1:",
        "unset: .mcp.json:4:45: the variable MCPJOIN_NOT_SET is not set (entry-variable-missing)",
        "fault 3 of 3: dies: the server ended: exit code 3, before the session was open (died)",
        "  stderr   no key ***",
        "\ndies  ",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} is missing in {}", ran.stdout);
    }
    // An unreadable file gives a finding and no additional warning, because the configuration is read once.
    assert!(!ran.stderr.contains(".codex/config.toml"), "{}", ran.stderr);
    assert!(!folder.path().join("here/ran").exists());
    let ran = doctor(&folder, &["--json"]).exits(1);
    assert!(!ran.stdout.contains("hunter2"), "{}", ran.stdout);
    let document = ran.json();
    assert_eq!(document["healthy"], false);
    assert_eq!(document["environment"]["healthy"], true, "{}", document["environment"]);
    assert_eq!(ids(&document["configuration"]["findings"]), ["entry-variable-missing", "config-unreadable"]);
    let servers = document["servers"].as_array().unwrap();
    assert_eq!(servers[0]["report"]["healthy"], true);
    assert_eq!(servers[0]["path"], ".mcp.json:2");
    assert_eq!(ids(&servers[1]["report"]["findings"]), ["died"]);
    assert_eq!(servers[2]["notRun"], "the entry is unusable");
    // Arguments inside `command` are not part of the program's name.
    let typed = r#"{"mcpServers": {"line": {"command": "npx -y pkg"}}}"#;
    let ran = doctor(&folder, &["--mcp-config", typed]).exits(1);
    assert!(
        ran.stdout.contains("line has the whole command 'npx -y pkg' as its program (entry-command-line)"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.starts_with("fault: "), "{}", ran.stdout);
    // A missing file is an error of usage if the user named it.
    doctor(&folder, &["--config", "nowhere.json"]).exits(2);
}

#[test]
fn r85_nothing_of_a_folder_that_is_not_trusted_is_run() {
    let folder = furnished(Folder::untrusted("doctor-trust"));
    let entry = |command: &str| {
        format!(
            r#"{{"mcpServers": {{"a": {{"command": "{command}", "args": ["-c", "echo was-run >> ran"]}}}}}}"#
        )
    };
    folder.file(".mcp.json", entry("sh"));
    let ran = doctor(&folder, &[]).exits(0);
    for part in [
        "a                  - not run: not trusted",
        "nothing of .mcp.json was started: you have not trusted the current definition (mcpjoin servers trust ",
        "no fault found, but no server was started: you have not trusted the current definition (mcpjoin servers trust ",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} is missing in {}", ran.stdout);
    }
    // A missing program is detected without running the entry.
    folder.file(".mcp.json", entry("mcpjoin-no-such-program"));
    let ran = doctor(&folder, &[]).exits(1);
    let seen = ".mcp.json:1: a runs mcpjoin-no-such-program, which is not found (entry-program-missing)";
    assert!(ran.stdout.contains(seen), "{}", ran.stdout);
    assert!(!folder.path().join("here/ran").exists());
}

#[test]
fn a_program_of_a_client_on_the_desktop_has_to_be_found_there() {
    let folder = machine("doctor-desktop");
    program(&folder, "../tools/my-tool", &format!("exec {BINARY} serve demo"));
    folder.file(
        "../config/Claude/claude_desktop_config.json",
        "{\"mcpServers\": {\n\"mine\": {\"command\": \"my-tool\"}}}",
    );
    let mut command = on(&folder, &["doctor", "--json"]);
    command.env("PATH", format!("{0}/tools:{0}/.local/bin:/usr/bin:/bin", folder.path().display()));
    let document = start(command).finish().exits(1).json();
    let findings = &document["configuration"]["findings"];
    assert_eq!(ids(findings), ["entry-not-on-desktop"]);
    let advice = findings[0]["advice"].as_str().unwrap();
    assert!(advice.starts_with(&format!("write {}/tools/my-tool", folder.path().display())), "{advice}");
    assert!(
        findings[0]["seen"].as_str().unwrap().contains("claude_desktop_config.json:2: mine runs my-tool")
    );
    assert_eq!(document["servers"][0]["report"]["healthy"], true);
}

#[test]
fn a_target_that_your_login_shell_finds_is_reported_with_its_place() {
    let folder = machine("doctor-target");
    program(&folder, "../.local/bin/my-tool", "exit 3");
    let mut command = on(&folder, &["doctor", "my-tool"]);
    command.env("PATH", "/usr/bin:/bin");
    let ran = start(command).finish().exits(1);
    for part in [
        "fault 1 of 2: cannot start my-tool: no such program",
        "fault 2 of 2: my-tool is found by your login shell",
        "(not-found-here)",
        "try      it is installed: the next fault shows its path",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} is missing in {}", ran.stdout);
    }
    let mut command = on(&folder, &["doctor", "--json", "my-tool"]);
    command.env("PATH", "/usr/bin:/bin");
    let document = start(command).finish().exits(1).json();
    assert_eq!(ids(&document["surroundings"]), ["not-found-here"]);
}

/// The shell runs if PATH is needed, and the report says so. `--no-shell` prevents it in all cases.
#[test]
fn the_login_shell_is_run_unless_that_is_forbidden() {
    let folder = machine("doctor-shell");
    program(&folder, "../bin/zsh", "echo \"$1\" >> \"$HOME/runs\"\nPATH=$HOME/.local/bin:$PATH\neval \"$2\"");
    program(&folder, "../.local/bin/my-tool", "exit 3");
    let (shell, runs) = (folder.path().join("bin/zsh"), folder.path().join("runs"));
    let run = |words: &[&str]| {
        let mut command = on(&folder, &[&["doctor"], words].concat());
        command.env("SHELL", &shell).env("PATH", "/usr/bin:/bin");
        let ran = start(command).finish();
        let mut options: Vec<String> =
            fs::read_to_string(&runs).unwrap_or_default().lines().map(str::to_owned).collect();
        options.sort();
        let _ = fs::remove_file(&runs);
        (ran, options)
    };
    for words in [&["--environment"][..], &["my-tool"], &[]] {
        let (ran, options) = run(&[&["--no-shell"], words].concat());
        assert!(options.is_empty(), "{words:?}: {options:?}");
        assert!(!ran.stdout.contains("not-found-here"), "{words:?}: {}", ran.stdout);
        let (ran, options) = run(words);
        assert_eq!(options, ["-ilc", "-lc"], "{words:?}");
        assert!(ran.stdout.contains("not-found-here"), "{words:?}: {}", ran.stdout);
        let (says, shell) = (ran.stdout.split_whitespace().collect::<Vec<_>>().join(" "), shell.display());
        let (one, several) =
            (format!("ran {shell} -ilc and {shell} -lc"), format!("ran {shell} -ilc, {shell} -lc"));
        assert!(says.contains(if words == ["my-tool"] { &one } else { &several }), "{words:?}: {says}");
    }
    let (ran, _) = run(&["--environment", "--json", "--no-shell"]);
    let document = ran.json();
    let paths = document["paths"].as_array().unwrap();
    assert_eq!(paths[1]["details"]["unknown"][0], "no shell was run (--no-shell)");
    assert!(document["checks"].as_array().unwrap().iter().any(|check| {
        check["check"] == "path-here" && check["why"] == "the PATH of your login shell is unknown"
    }));
    let (ran, _) = run(&["--environment", "-v"]);
    let command = format!("{} -ilc 'command printf \"%s=%s=%s\" MARKER \"$PATH\" MARKER'", shell.display());
    assert!(ran.stdout.contains(&command), "{}", ran.stdout);
    let (ran, _) = run(&["--environment", "--json"]);
    assert_eq!(ran.json()["paths"][1]["details"]["ran"], format!("{} -ilc", shell.display()));
}

/// Set-ups of configurations as people have them: the file, its content, the first finding, and a word of its advice.
#[test]
fn each_configuration_is_diagnosed_with_its_advice() {
    const FINE: &str = r#"{"command": "sh", "args": ["-c", "exit 0"], "disabled": true}"#;
    for (what, file, content, id, advice) in [
        (
            "a comma before a bracket",
            "../config/Claude/claude_desktop_config.json",
            format!("{{\"mcpServers\": {{\n\"a\": {FINE},\n}}}}"),
            "config-not-strict",
            "no comma before a closing bracket",
        ),
        (
            "a comment",
            ".mcp.json",
            format!("{{\n// mine\n\"mcpServers\": {{\"a\": {FINE}}}}}"),
            "config-not-strict",
            "no comments",
        ),
        (
            "single quotes",
            "../.claude.json",
            format!("{{'mcpServers': {{\"a\": {FINE}}}}}"),
            "config-not-strict",
            "double quotes",
        ),
        (
            "a file that is cut off",
            ".cursor/mcp.json",
            "{\"mcpServers\": {".to_owned(),
            "config-unreadable",
            "fix the file at this place",
        ),
        (
            "TOML that is cut off",
            "../.codex/config.toml",
            "[mcp_servers.bad\n".to_owned(),
            "config-unreadable",
            "fix the file at this place",
        ),
        (
            "arguments in the command",
            ".mcp.json",
            r#"{"mcpServers": {"a": {"command": "sh -c true"}}}"#.to_owned(),
            "entry-command-line",
            "write sh as the command",
        ),
        (
            "a variable that is not set",
            ".mcp.json",
            r#"{"mcpServers": {"a": {"command": "sh", "args": ["${MCPJOIN_NOT_SET}"]}}}"#.to_owned(),
            "entry-variable-missing",
            "set the variable",
        ),
        (
            "a program that does not exist",
            "../.cursor/mcp.json",
            r#"{"mcpServers": {"a": {"command": "mcpjoin-no-such-program"}}}"#.to_owned(),
            "program-missing",
            "install the program",
        ),
    ] {
        let folder = machine("doctor-setups");
        folder.file(file, &content);
        let document = doctor(&folder, &["--json"]).exits(1).json();
        let of_files = document["configuration"]["findings"].as_array().unwrap().iter();
        let of_servers = document["servers"].as_array().unwrap().iter();
        let of_servers =
            of_servers.flat_map(|server| server["report"]["findings"].as_array().into_iter().flatten());
        let found: Vec<&Value> = of_files.chain(of_servers).collect();
        assert_eq!(found.len(), 1, "{what}: {document}");
        assert_eq!(found[0]["id"], id, "{what}: {}", found[0]);
        assert!(found[0]["advice"].as_str().unwrap().contains(advice), "{what}: {}", found[0]);
    }
    // A misspelled name is told.
    let typed = r#"{"mcpServers": {"a": {"comand": "sh"}}}"#;
    let ran = doctor(&machine("doctor-comand"), &["--mcp-config", typed]).exits(1);
    let says = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(says.contains(r#"did you mean "command" instead of comand? (entry-unusable)"#), "{}", ran.stdout);
    // The place is that of the comma.
    let folder = machine("doctor-strict");
    folder.file(".mcp.json", format!("{{\"mcpServers\": {{\n\"a\": {FINE},\n}}}}"));
    let ran = doctor(&folder, &[]).exits(1);
    let seen = ".mcp.json:2:67: a trailing comma: Claude Code reads strict JSON, and ignores the whole file";
    assert!(ran.stdout.contains(seen), "{}", ran.stdout);
    folder.run(&["list", "a"]).says(&[&format!("warning: {seen}")]);
}

#[test]
fn inputs_of_vs_code_are_no_fault() {
    let folder = machine("doctor-inputs");
    folder.file(
        ".vscode/mcp.json",
        r#"{"inputs": [{"id": "tok", "type": "promptString", "description": "t"}],
            "servers": {"remote": {"command": "sh", "args": ["-c", "exit 0", "${input:tok}"]}}}"#,
    );
    let ran = doctor(&folder, &[]).exits(0);
    let says = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "remote was not tried: VS Code would ask for its inputs; set MCPJOIN_INPUT_TOK to try it here",
        "remote - not run: VS Code asks for its inputs",
        "no fault found",
    ] {
        assert!(says.contains(part), "{part}: {}", ran.stdout);
    }
}

/// Servers that are slow only while others start: each takes its time when it does not run alone.
#[test]
fn a_slow_server_is_measured_alone_before_it_is_blamed() {
    let folder = machine("doctor-load");
    // The first start of each takes more than 5 s, and its second less.
    let slow = format!("[ -e seen-$1 ] || {{ touch seen-$1; sleep 5.5; }}; exec {BINARY} serve demo");
    let entry =
        |name: &str| format!(r#""{name}": {{"command": "sh", "args": ["-c", "{slow}", "sh", "{name}"]}}"#);
    folder.file(".mcp.json", format!("{{\"mcpServers\": {{{}, {}}}}}", entry("a"), entry("b")));
    let ran = doctor(&folder, &[]).exits(0);
    assert!(!ran.stdout.contains("slow-start"), "{}", ran.stdout);
    assert!(folder.path().join("here/seen-a").exists());
}
