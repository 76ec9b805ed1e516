//! Tests of `mcpjoin auth`, and of how the other verbs use the stored logins, against a server that requires authorization.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::auth_guard::Company;
use super::authority::{Authority, MACHINE, PLANTED, SECRET, led, visited};
use super::support::{Ran, Running, command, scratch, start};

/// A separate folder of logins, and the server that the logins are for.
pub(super) struct Place {
    pub(super) authority: Authority,
    pub(super) folder: PathBuf,
}

impl Place {
    pub(super) fn new(name: &str) -> Self {
        let folder = scratch(&format!("auth-{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        Self { authority: Authority::new(), folder }
    }

    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = command(words);
        command.env("MCPJOIN_AUTH_DIR", &self.folder);
        command
    }

    /// Runs a command line with the server's URL appended. Asserts that no planted secret is printed.
    #[track_caller]
    pub(super) fn run(&self, line: &str) -> Ran {
        let url = self.authority.url();
        let words: Vec<&str> = line.split(' ').map(|word| if word == "URL" { &url } else { word }).collect();
        clean(start(self.command(&words)).finish())
    }

    /// Logs in, as a person does who copies the address into a browser.
    #[track_caller]
    pub(super) fn login(&self, options: &str) -> Ran {
        let url = self.authority.url();
        let line = format!("auth login --no-browser {options} {url}").replace("  ", " ");
        let mut login = Login::begin(self.command(&line.split(' ').collect::<Vec<_>>()));
        let back = led(&login.address());
        assert!(visited(&back).starts_with("HTTP/1.1 200"), "{back}");
        login.end().exits(0)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[track_caller]
pub(super) fn clean(ran: Ran) -> Ran {
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains(PLANTED), "{text}");
    }
    ran
}

/// A login process that waits for its browser.
pub(super) struct Login {
    pub(super) running: Running,
    stderr: BufReader<std::process::ChildStderr>,
    said: String,
}

impl Login {
    /// Starts the process with an open standard input, so that an address can be pasted.
    pub(super) fn begin(mut command: Command) -> Self {
        command.stdin(Stdio::piped());
        Self::of(command)
    }

    pub(super) fn of(command: Command) -> Self {
        let mut running = start(command);
        let stderr = BufReader::new(running.child.stderr.take().unwrap());
        Self { running, stderr, said: String::new() }
    }

    /// The address to open.
    #[track_caller]
    pub(super) fn address(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.stderr.read_line(&mut line).unwrap() > 0, "no address: {}", self.said);
            self.said.push_str(&line);
            if let Some(url) = line.strip_prefix("  http") {
                return format!("http{}", url.trim_end());
            }
        }
    }

    #[track_caller]
    pub(super) fn end(mut self) -> Ran {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        let mut ran = self.running.finish();
        ran.stderr = self.said + &rest;
        clean(ran)
    }
}

#[test]
fn a_person_logs_in_and_every_verb_uses_it_until_it_is_taken_back() {
    let place = Place::new("person");
    place.run("auth status URL").exits(3).says(&["(E_AUTH)", "no login", "mcpjoin auth login http"]);
    let line = format!("try      mcpjoin auth login {}", place.authority.url());
    place.run("list URL").exits(3).says(&["(E_AUTH)", "asked    Bearer resource_metadata=", &line]);
    assert!(place.run("auth status").exits(0).stdout.contains("no login"));

    let ran = place.login("-v --json");
    let result = ran.json();
    assert_eq!(result["resource"], place.authority.url().as_str());
    assert_eq!((&result["clientId"], &result["refreshable"]), (&"registered".into(), &true.into()));
    assert_eq!(result["scopes"], serde_json::json!(["tools"]));
    for step in ["resource-metadata:", "server-metadata:", "issuer:"] {
        assert!(ran.stderr.contains(step), "{step}: {}", ran.stderr);
    }
    assert_eq!(place.folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    for file in std::fs::read_dir(&place.folder).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let stored = place.run("auth status URL").exits(0).stdout;
    assert!(stored.contains("minutes") || stored.contains(" min"), "{stored}");
    assert_eq!(place.run("auth status --json").exits(0).json()["logins"].as_array().unwrap().len(), 1);

    let trace = scratch("auth-trace");
    let call = format!("call -vv --era legacy --trace {} URL whoami", trace.display());
    assert_eq!(place.run(&call).exits(0).stdout, "you\n");
    assert!(!std::fs::read_to_string(&trace).unwrap().contains(PLANTED));
    std::fs::remove_file(trace).unwrap();
    assert_eq!(place.authority.state().count("POST", "/token"), 1);
    place.run("ping -n 1 --no-auth URL").exits(3).says(&["(E_AUTH)", "leave out --no-auth"]);

    // A rejected token is refreshed once, without a message.
    place.authority.state().forget_tokens();
    assert!(place.run("list URL").exits(0).stdout.contains("whoami"));
    assert_eq!(place.authority.state().count("POST", "/token"), 2);
    place.run("ping -n 1 URL").exits(0);
    assert_eq!(place.authority.state().count("POST", "/token"), 2);

    let out = place.run("auth logout URL").exits(0).stdout;
    assert!(out.contains("revoked") && out.contains("deleted"), "{out}");
    assert!(place.authority.state().count("POST", "/revoke") > 0);
    place.run("auth status URL").exits(3);
    place.run("ping -n 1 URL").exits(3).says(&["(E_AUTH)", &line]);
    assert!(place.run("auth logout URL").exits(0).stdout.contains("no login was stored"));
}

#[test]
fn the_address_that_the_browser_ended_at_is_pasted() {
    let place = Place::new("pasted");
    let url = place.authority.url();
    let mut login = Login::begin(place.command(&["auth", "login", "-q", "--no-browser", &url]));
    let address = login.address();
    let mut stdin = login.running.child.stdin.take().unwrap();
    let back = led(&address);
    let other = back.replace("state=", "state=x");
    for line in ["", "what?", &other, &back] {
        writeln!(stdin, "{line}").unwrap();
    }
    let ran = login.end().exits(0).says(&["contains code=", "another login"]);
    assert!(ran.stdout.contains("registered"), "{}", ran.stdout);
    place.run("ping -n 1 URL").exits(0);
    assert!(place.run("auth logout --all").exits(0).stdout.contains("deleted"));
    place.run("ping -n 1 URL").exits(3);
}

#[test]
fn the_browser_of_the_user_is_opened_with_the_address_alone() {
    let place = Place::new("browser");
    let (script, pipe) = (scratch("auth-script"), scratch("auth-script-pipe"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::write(&script, format!("#!/bin/sh\nprintf '%s\\n' \"$#\" \"$1\" > {}\n", pipe.display()))
        .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = place.command(&["auth", "login", &place.authority.url()]);
    command.env("BROWSER", &script);
    let running = start(command);
    let given = std::fs::read_to_string(&pipe).unwrap();
    let (count, address) = given.trim_end().split_once('\n').unwrap();
    assert_eq!(count, "1");
    visited(&led(address));
    let ran = clean(running.finish()).exits(0);
    assert!(ran.stderr.contains("in the browser within"), "{}", ran.stderr);
    for path in [script, pipe] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn an_interrupted_login_stores_nothing_and_leaves_its_port() {
    let place = Place::new("interrupted");
    let mut login = Login::begin(place.command(&["auth", "login", "--no-browser", &place.authority.url()]));
    let back = led(&login.address());
    login.running.signal("INT");
    login.end().exits(130);
    let host = back.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let refused = std::net::TcpStream::connect(host).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    place.run("auth status URL").exits(3);
    assert_eq!(place.authority.state().count("POST", "/token"), 0);
}

#[test]
fn a_scope_that_is_missing_is_reported_with_the_line_that_asks_for_it() {
    let place = Place::new("scope");
    place.login("");
    place.authority.state().call_wants = Some("files:write");
    let line = format!("mcpjoin auth login --scope files:write {}", place.authority.url());
    let ran = place.run("call --era legacy URL whoami").exits(3).says(&["(E_AUTH)", "files:write", &line]);
    assert!(ran.stderr.contains("insufficient_scope"), "{}", ran.stderr);
    let failure = place.run("call --json --era legacy URL whoami").exits(3).failure();
    assert_eq!(failure["hint"], line.as_str());
    let ran = place.login("--scope files:write");
    assert!(ran.stdout.contains("files:write"), "{}", ran.stdout);
    assert_eq!(place.run("call --era legacy URL whoami").exits(0).stdout, "you\n");
}

#[test]
fn a_client_of_a_bridge_without_a_login_gets_the_command_for_one() {
    let place = Place::new("bridge");
    let url = place.authority.url();
    let mut command = place.command(&["bridge", "--era", "legacy", &url]);
    command.stdin(Stdio::piped());
    let mut running = start(command);
    let mut stdin = running.child.stdin.take().unwrap();
    let mut stdout = BufReader::new(running.child.stdout.take().unwrap());
    let mut ask = |id: u32, method: &str, params: &str| {
        writeln!(stdin, r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#).unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        line
    };
    let opening =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#;
    let told = ask(1, "initialize", opening);
    assert!(told.contains(&format!("mcpjoin auth login {url}")), "{told}");
    assert!(!told.contains(PLANTED), "{told}");
    drop(stdin);
    let ran = clean(running.finish());
    assert!(ran.stderr.contains(&format!("mcpjoin auth login {url}")), "{}", ran.stderr);
}

#[test]
fn a_listening_bridge_serves_clients_after_a_login_in_another_process() {
    let place = Place::new("listening");
    let url = place.authority.url();
    let mut running =
        start(place.command(&["bridge", "--era", "legacy", "--listen", "http://127.0.0.1:0/mcp", &url]));
    let mut stderr = BufReader::new(running.child.stderr.take().unwrap());
    let mut said = String::new();
    let address = loop {
        let mut line = String::new();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "no address: {said}");
        if let Some(address) = line.strip_prefix("listening on ") {
            break address.trim_end().to_owned();
        }
        said.push_str(&line);
    };
    let ask = || clean(start(place.command(&["list", "--era", "legacy", &address])).finish());
    let told = ask();
    assert_ne!(told.code, Some(0));
    assert!(told.stderr.contains(&format!("mcpjoin auth login {url}")), "{}", told.stderr);
    place.login("");
    assert!(ask().exits(0).stdout.contains("whoami"));
    running.signal("TERM");
    stderr.read_to_string(&mut said).unwrap();
    assert!(!said.contains(PLANTED), "{said}");
    running.finish().exits(143);
}

#[test]
fn one_list_shows_the_server_with_a_login_and_says_of_the_other_how_to_get_one() {
    let (place, other) = (Place::new("both"), Authority::new());
    place.login("");
    let file = scratch("auth-both.json");
    let servers =
        format!(r#"{{"in": {{"url": "{}"}}, "out": {{"url": "{}"}}}}"#, place.authority.url(), other.url());
    std::fs::write(&file, format!(r#"{{"mcpServers": {servers}}}"#)).unwrap();
    let config = format!("--config {}", file.display());
    let ran = place.run(&format!("list {config}"));
    assert_ne!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("in   ok ") && ran.stdout.contains("\nout  failed "), "{}", ran.stdout);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains(&format!("mcpjoin auth login {}", other.url())), "{said}");
    assert!(!said.contains(&format!("mcpjoin auth login {}", place.authority.url())), "{said}");
    // A request does not log in to the other server by itself.
    assert_eq!(other.state().count("POST", "/token"), 0);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_client_that_a_document_describes_is_known_by_its_address_and_not_registered() {
    const DOCUMENT: &str = "https://client.example/mcpjoin.json";
    let place = Place::new("document");
    place.authority.state().metadata.insert("client_id_metadata_document_supported", true.into());
    let ran = place.login(&format!("--json --client-metadata-url {DOCUMENT}"));
    assert_eq!(ran.json()["clientId"], DOCUMENT);
    assert_eq!(place.authority.state().count("POST", "/register"), 0);
    assert_eq!(place.run("call --era legacy URL whoami").exits(0).stdout, "you\n");
}

#[test]
fn the_doctor_says_which_step_to_a_login_fails() {
    let place = Place::new("doctor");
    place.authority.state().resource = Some("https://elsewhere.example/mcp".into());
    let ran = place.run("doctor --json URL").exits(1);
    assert!(ran.stdout.contains("login-broken"), "{}", ran.stdout);
    assert!(ran.stdout.contains("elsewhere.example"), "{}", ran.stdout);
}

#[test]
fn a_machine_logs_in_with_a_secret_that_is_nowhere_shown() {
    let place = Place::new("machine");
    let file = scratch("auth-secret");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    let login = format!("auth login -v --client-credentials --client-id {MACHINE}");
    place.run(&format!("{login} --client-secret {SECRET} URL")).exits(2).says(&["(E_USAGE)", "@FILE"]);
    place.run(&format!("{login} URL")).exits(2).says(&["(E_USAGE)", "needs a secret or a key"]);
    place.run("auth login --client-credentials URL").exits(2).says(&["needs a registered client"]);
    let ran = place.run(&format!("{login} --client-secret @{} URL", file.display())).exits(0);
    assert!(ran.stdout.contains(MACHINE), "{}", ran.stdout);
    assert_eq!(place.run("call --era legacy URL whoami").exits(0).stdout, "you\n");
    std::fs::write(&file, format!("{PLANTED}-but-wrong")).unwrap();
    let ran = place.run(&format!("{login} --client-secret @{} URL", file.display())).exits(3);
    ran.says(&["(E_AUTH_TOKEN)", "invalid_client"]);
    std::fs::remove_file(file).unwrap();
    let mut command = place.command(&login.split(' ').chain([&*place.authority.url()]).collect::<Vec<_>>());
    command.env("MCPJOIN_CLIENT_SECRET", SECRET);
    clean(start(command).finish()).exits(0);
}

#[test]
fn a_machine_logs_in_with_a_key_that_never_leaves_it() {
    let place = Place::new("key");
    let methods = serde_json::json!(["private_key_jwt"]);
    place.authority.state().metadata.insert("token_endpoint_auth_methods_supported", methods);
    let file = scratch("auth-key.pem");
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    std::fs::write(&file, &key).unwrap();
    let login =
        format!("auth login --client-credentials --client-id {MACHINE} --private-key {} URL", file.display());
    let ran = place.run(&login).exits(0);
    assert!(ran.stdout.contains(MACHINE), "{}", ran.stdout);
    assert_eq!(place.run("call --era legacy URL whoami").exits(0).stdout, "you\n");
    let secret = key.lines().nth(1).unwrap();
    for (_, _, body) in &place.authority.state().asked {
        assert!(!body.contains(&secret[..24]), "{body}");
    }
    std::fs::write(&file, "no key").unwrap();
    let ran = place.run(&login);
    assert_ne!(ran.code, Some(0));
    assert!(ran.stderr.contains("auth-key.pem"), "{}", ran.stderr);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn an_entry_says_how_it_is_logged_in_to() {
    let place = Place::new("entry");
    let file = scratch("auth-entry.json");
    let url = place.authority.url();
    let oauth = format!(r#"{{"clientId": "{MACHINE}", "clientSecret": "{SECRET}", "scopes": "a b"}}"#);
    std::fs::write(&file, format!(r#"{{"mcpServers": {{"x": {{"url": "{url}", "oauth": {oauth}}}}}}}"#))
        .unwrap();
    let config = format!("--config {}", file.display());
    let line = format!("mcpjoin auth login {config} x");
    place.run(&format!("ping {config} x")).exits(3).says(&["(E_AUTH)", &line]);
    let ran = place.run(&format!("auth login --client-credentials {config} x")).exits(0);
    assert!(ran.stdout.contains("a b"), "{}", ran.stdout);
    place.run(&format!("ping -n 1 {config} x")).exits(0);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn the_steps_to_a_login_are_explained_up_to_the_one_that_fails() {
    let place = Place::new("explain");
    let ran = place.run("auth explain URL").exits(0);
    for part in ["401", "a client can log in", "RFC 9728", "RFC 8414", "mcpjoin auth login"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let found = place.run("auth explain --json URL").exits(0).json();
    assert_eq!((&found["canLogIn"], &found["issuer"]), (&true.into(), &place.authority.base.as_str().into()));
    // No client was registered, and no login was started.
    assert_eq!(place.authority.state().count("POST", "/register"), 0);

    place.authority.state().resource = Some("https://elsewhere.example/mcp".into());
    let ran = place.run("auth explain URL").exits(1);
    for part in ["no client can log in", "elsewhere.example", "RFC 9728"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let found = place.run("auth explain --json URL").exits(1).json();
    assert_eq!((&found["canLogIn"], &found["failed"]["step"]), (&false.into(), &"resource".into()));
    let ran = place.run("auth login --no-browser URL").exits(3);
    ran.says(&["(E_AUTH_DISCOVERY)", "elsewhere.example", "mcpjoin auth explain http"]);

    place.authority.state().resource = None;
    place.authority.state().metadata.insert("code_challenge_methods_supported", serde_json::Value::Null);
    let found = place.run("auth explain --json URL").exits(1).json();
    assert_eq!(found["failed"]["step"], "pkce");
}

#[test]
fn what_is_no_server_over_http_is_not_logged_in_to() {
    let place = Place::new("misused");
    place.run("auth login").exits(2).says(&["no server is named"]);
    for target in ["demo:", "tcp://127.0.0.1:1", "no-such-entry", "./server"] {
        place.run(&format!("auth login {target}")).exits(2).says(&["(E_USAGE)", "http"]);
    }
    for words in [
        "auth login --client-secret @x URL",
        "auth login --private-key x URL",
        "auth login --scope a,\"b URL",
        "auth login --callback-url https://example.com/ URL",
        "auth login --client-id a --client-metadata-url https://example.com/ URL",
        "auth logout --all URL",
    ] {
        place.run(words).exits(2);
    }
    place.run("auth logout").exits(2).says(&["no server is named"]);
    assert!(!Path::new(&place.folder).exists());
}

/// Whether the text matches the pattern, in which `…` matches any text.
fn fits(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        let found = if parts.peek().is_none() { rest.rfind(part) } else { rest.find(part) };
        let Some(at) = found else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

#[test]
fn what_the_page_on_authorization_shows_is_printed() {
    const SITE: &str = "https://tools.example.com";
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/authorization.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut commands: Vec<(&str, String)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            match line.strip_prefix("$ ") {
                Some(command) => commands.push((command, String::new())),
                None => {
                    let (_, output) = commands.last_mut().unwrap();
                    output.push_str(&(line.to_owned() + "\n"));
                }
            }
        }
    }
    assert_eq!(commands.len(), 9);
    let place = Place::new("page");
    let company = Company::new("page");
    let timeless = |text: &str| {
        let words = text.split(' ').map(|word| if word.parse::<u32>().is_ok() { "#" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    let binary = Path::new(env!("CARGO_BIN_EXE_mcpjoin")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(std::iter::once(binary).chain(std::env::split_paths(&path))).unwrap();
    let mut calls = 0;
    for (line, expected) in commands {
        // The server is set up as the page describes it between its examples.
        if line.contains("call") {
            calls += 1;
            place.authority.state().call_wants = (calls == 2).then_some("files:write");
        }
        if line.contains("call") && calls == 2 {
            // The machine's login replaced the person's login.
            place.run("auth logout URL").exits(0);
            place.login("");
        }
        if line.contains("explain") {
            place.authority.state().resource = Some("https://elsewhere.example/mcp".into());
        }
        let typed = line.replace(SITE, &place.authority.base).replace('…', SECRET);
        let typed = company.read(&typed).replace("127.0.0.1:8080", "127.0.0.1:0");
        let serves = typed.starts_with("mcpjoin serve");
        // With `exec`, the signal reaches the server and not the shell.
        let exec = if serves { "exec " } else { "" };
        let mut shell = super::support::program("sh", ["-c", &format!("exec 2>&1; {exec}{typed}")]);
        // Standard input is open, as for a person who can paste an address.
        shell.env("PATH", &path).env("MCPJOIN_AUTH_DIR", &place.folder).stdin(Stdio::piped());
        let mut running = start(shell);
        let mut stdout = BufReader::new(running.child.stdout.take().unwrap());
        let mut printed = String::new();
        loop {
            let mut said = String::new();
            if stdout.read_line(&mut said).unwrap() == 0 {
                break;
            }
            if serves && said.starts_with("requires tokens") {
                company.is_asked();
                running.signal("TERM");
            }
            if let Some(url) = said.strip_prefix("  http").filter(|_| line.contains("--no-browser")) {
                visited(&led(&format!("http{}", url.trim_end())));
            }
            printed.push_str(&said);
        }
        running.finish();
        assert!(!printed.contains(PLANTED), "{line} printed:\n{printed}");
        let printed = company.written(&printed.replace(&place.authority.base, SITE));
        let (printed, expected) = (timeless(&printed), timeless(&expected));
        assert!(
            fits(printed.trim_end(), expected.trim_end()),
            "{line} printed:\n{printed}\nand not:\n{expected}"
        );
    }
}
