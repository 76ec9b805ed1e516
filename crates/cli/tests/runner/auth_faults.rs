//! Tests of `mcpjoin auth` in a failing environment: an authorization server that is down, a folder that is not writable,
//! no person who can paste an address, and a store that mcpjoin did not write.

use std::path::Path;
use std::process::{Command, Stdio};

use super::auth::{Login, Place, clean};
use super::auth_guard::Company;
use super::authority::{PLANTED, led, visited};
use super::http::answering;
use super::sockets::Demo;
use super::support::{command, program, scratch, start};

/// An address on which no server listens.
const DOWN: &str = "http://127.0.0.1:1";

#[test]
fn an_authorization_server_that_is_down_is_no_connection_and_no_refusal() {
    let place = Place::new("down");
    place.authority.state().issuer = Some(DOWN.into());
    let ran = place.run("auth login --no-browser URL").exits(4).says(&[
        "(E_CONNECT)",
        "the authorization server cannot be reached",
        &format!("{DOWN}/.well-known/oauth-authorization-server"),
        "mcpjoin auth explain http",
    ]);
    assert!(!ran.stderr.contains("open this address"), "{}", ran.stderr);
    let failure = place.run("auth login -q --no-browser --json URL").exits(4).failure();
    assert_eq!((&failure["id"], &failure["exitCode"]), (&"E_CONNECT".into(), &4.into()));
    place.authority.state().issuer = None;

    // The metadata is available, but the endpoints are down.
    let endpoint = |path: &str| serde_json::json!(format!("{DOWN}/{path}"));
    place.authority.state().metadata.insert("registration_endpoint", endpoint("register"));
    place
        .run("auth login --no-browser URL")
        .exits(4)
        .says(&["(E_CONNECT)", &format!("POST {DOWN}/register")]);
    place.authority.state().metadata.remove("registration_endpoint");
    place.authority.state().metadata.insert("token_endpoint", endpoint("token"));
    let url = place.authority.url();
    let mut login = Login::begin(place.command(&["auth", "login", "--no-browser", &url]));
    visited(&led(&login.address()));
    login.end().exits(4).says(&["(E_CONNECT)", "the authorization server", &format!("POST {DOWN}/token")]);
}

#[test]
fn a_token_that_is_not_renewed_for_the_network_is_no_refusal() {
    let place = Place::new("unrenewed");
    place.login("");
    place.stored(|text| {
        let to = format!("\"{}/token\"", place.authority.base);
        assert!(text.contains(&to), "{text}");
        text.replace(&to, &format!("\"{DOWN}/token\""))
    });
    place.authority.state().forget_tokens();
    for verb in ["list URL", "list --era legacy URL", "call --era legacy URL whoami", "ping -n 1 URL"] {
        place.run(verb).exits(4).says(&[
            "(E_CONNECT)",
            "the authorization server cannot be reached",
            &format!("POST {DOWN}/token"),
            "runs and is reachable",
        ]);
    }
    // The stored token expired long ago, so it is refreshed before the request.
    place.stored(|text| expired(&text));
    for verb in ["list URL", "validate URL", "info URL"] {
        let ran = place.run(verb).exits(4);
        ran.says(&["(E_CONNECT)", &format!("POST {DOWN}/token")]);
    }
    let out = place.run("doctor URL").exits(1).stdout;
    assert!(out.contains("(authorization-unreached)") && out.contains(DOWN), "{out}");
    let failure = place.run("list --json URL").exits(4).failure();
    assert!(failure["message"].as_str().unwrap().contains(DOWN), "{failure}");
    // A refresh token that is refused stays refused.
    place.stored(|text| {
        text.replace(&format!("\"{DOWN}/token\""), &format!("\"{}/token\"", place.authority.base))
    });
    place.stored(|text| text.replace(&format!("{PLANTED}-refresh"), &format!("{PLANTED}-other")));
    place.run("list URL").exits(3).says(&["(E_AUTH)", "mcpjoin auth login http"]);
}

/// Sets the expiry of a stored token to 2001.
fn expired(text: &str) -> String {
    let (before, after) = text.split_once("\"expires_at\": ").unwrap();
    let digits = after.find(|one: char| !one.is_ascii_digit()).unwrap();
    format!("{before}\"expires_at\": 1000000000{}", &after[digits..])
}

#[test]
fn a_store_that_cannot_be_written_is_reported_before_anybody_logs_in() {
    let place = Place::new("unwritable");
    let url = place.authority.url();
    let file = scratch("auth-no-folder");
    std::fs::write(&file, "no folder").unwrap();
    let below = file.join("logins");
    let words = ["auth", "login", "--no-browser", &url];
    let within = |folder: &Path| {
        let mut command = command(words);
        command.env("MCPJOIN_AUTH_DIR", folder);
        (command, folder.display().to_string())
    };
    let mut homeless = command(words);
    homeless.env_remove("HOME").env_remove("XDG_STATE_HOME");
    // An empty file can be created there, but writes to it fail, as on a full disk.
    let line = format!(
        "trap '' 25; ulimit -f 0; exec {} auth login --no-browser {url}",
        env!("CARGO_BIN_EXE_mcpjoin")
    );
    let mut full = program("sh", ["-c", &line]);
    full.env("MCPJOIN_AUTH_DIR", &place.folder);
    let commands = [
        within(&file),
        within(&below),
        within(Path::new("/proc/mcpjoin-logins")),
        (homeless, "MCPJOIN_AUTH_DIR".into()),
        (full, place.folder.display().to_string()),
    ];
    for (command, named) in commands {
        let ran =
            clean(start(command).finish()).exits(2).says(&["(E_AUTH_STORE)", &named, "MCPJOIN_AUTH_DIR"]);
        assert!(!ran.stderr.contains("open this address"), "{}", ran.stderr);
    }
    assert_eq!(place.authority.state().count("POST", "/register"), 0);
    // Temporary files are removed after the failed write.
    for entry in std::fs::read_dir(&place.folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(path.extension().unwrap(), "lock", "{}", path.display());
    }
    std::fs::remove_file(file).unwrap();
    place.login("");
}

#[test]
fn pasting_is_offered_on_a_terminal_and_the_time_is_shown() {
    let place = Place::new("unpasted");
    let url = place.authority.url();
    let login = |words: &[&str], stdin: Stdio| {
        let mut command = place.command(words);
        command.stdin(stdin);
        let mut login = Login::of(command);
        visited(&led(&login.address()));
        login.end().exits(0).stderr
    };
    let words = ["auth", "login", "--no-browser", &url];
    let ended = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    let closed = {
        let mut ended = ended;
        ended.wait().unwrap();
        Stdio::from(ended.stdout.take().unwrap())
    };
    for stdin in [Stdio::null(), closed] {
        let said = login(&words, stdin);
        assert!(said.contains("within 5 min"), "{said}");
        assert!(!said.contains("paste the address") && said.contains("at 127.0.0.1:"), "{said}");
    }
    let said = login(&["auth", "login", "--no-browser", "--timeout", "20m", &url], Stdio::piped());
    assert!(said.contains("within 20 min") && said.contains("paste the address of that page"), "{said}");
}

#[test]
fn warnings_are_shown_however_quiet_it_is_and_the_help_says_so() {
    let place = Place::new("quiet");
    let nowhere = serde_json::json!(format!("{}/nowhere", place.authority.base));
    place.authority.state().metadata.insert("revocation_endpoint", nowhere);
    place.login("");
    let ran = place.run("auth logout -q URL").exits(0).says(&["warning: ", "did not revoke the tokens"]);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    let help = place.run("help options").exits(0).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("Shows only results, warnings and failures"), "{help}");
}

#[test]
fn an_open_server_is_explained_without_saying_it_twice() {
    let (_server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let place = Place::new("open");
    let out = place.run(&format!("auth explain {url}")).exits(0).stdout;
    assert!(
        out.trim_end().ends_with("no login is needed: the server answers requests without a token"),
        "{out}"
    );
    assert!(!out.contains("does not require authorization"), "{out}");
    assert_eq!(out.lines().filter(|line| line.starts_with("server ")).count(), 1, "{out}");
}

#[test]
fn a_web_page_is_no_server_that_needs_no_login() {
    let page =
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>";
    let (url, _received) = answering(page);
    let place = Place::new("page");
    let told = "the URL answers, but not as an MCP server: it sends text/html";
    let ran = place.run(&format!("auth login --no-browser {url}")).exits(4);
    assert!(!ran.stderr.contains("no login is needed"), "{}", ran.stderr);
    ran.says(&[told, "(E_CONNECT)", "check the path: usually /mcp"]);
    let out = place.run(&format!("auth explain {url}")).exits(1).stdout;
    assert!(out.contains("it is not yet known whether a client can log in") && out.contains(told), "{out}");
}

#[test]
fn what_a_newer_version_has_stored_is_reported_and_can_be_forgotten() {
    let place = Place::new("newer");
    place.login("");
    // The rest of the entry has another format; only the server is in its usual place.
    place
        .stored(|text| text.replace("\"format\": 1", "\"format\": 2").replace("\"client_id\"", "\"client\""));
    place.run("auth status URL").exits(2).says(&["(E_AUTH_STORE)", "another version", "mcpjoin auth logout"]);
    let all = place.run("auth status").exits(0).stdout;
    assert!(all.contains("unusable") && all.contains("1 login"), "{all}");
    place.run("list URL").exits(3).says(&["another version", "mcpjoin auth login http"]);
    let out = place.run("auth logout --all").exits(0).stdout;
    assert!(out.contains("deleted"), "{out}");
    place.run("auth status URL").exits(3);
}

#[cfg(unix)]
#[test]
fn a_file_that_others_may_read_hides_no_login_and_keeps_none_from_being_forgotten() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = Place::new("others");
    place.login("");
    let odd = place.folder.join("odd.json");
    std::fs::write(&odd, "{}").unwrap();
    std::fs::set_permissions(&odd, std::fs::Permissions::from_mode(0o644)).unwrap();
    let told = ["(E_AUTH_STORE)", "odd.json is not safe for tokens: other users can read it", "chmod 600"];
    let ran = place.run("auth status").exits(2).says(&told);
    assert!(ran.stdout.contains("1 login, stored in") && !ran.stderr.contains("chmod 700"), "{}", ran.stdout);
    let ran = place.run("auth status --json").exits(2);
    assert_eq!(ran.json()["logins"].as_array().unwrap().len(), 1);
    let ran = place.run("auth logout --all").exits(2).says(&told);
    assert!(ran.stdout.contains("deleted"), "{}", ran.stdout);
    assert!(odd.exists());
    // The store could not be read, so the command does not report that there are no logins.
    assert_eq!(place.run("auth status").exits(2).says(&told).stdout, "");
    place.run("auth status URL").exits(3);
}

#[test]
fn no_login_is_made_over_http_to_another_machine_and_nothing_is_sent() {
    let place = Place::new("plain");
    for verb in ["auth login --no-browser", "auth explain"] {
        let ran = place.run(&format!("{verb} http://tools.example.com/mcp")).exits(2);
        ran.says(&["(E_USAGE)", "http://tools.example.com/mcp", "https URL"]);
    }
}

#[test]
fn an_issuer_that_is_none_is_named_and_one_that_is_not_trusted_is_no_connection() {
    let place = Place::new("issuer");
    for (issuer, named) in [
        (format!("{}/t?x=1", place.authority.base), format!("{}/t?...", place.authority.base)),
        (format!("{}#f", place.authority.base), format!("{}#...", place.authority.base)),
        ("https://me:hunter2@example.com".into(), "(a URL with a user name in it)".into()),
        ("ftp://example.com".into(), "ftp://example.com".into()),
    ] {
        place.authority.state().issuer = Some(issuer);
        let is_none = format!("{named} is not an issuer");
        let ran = place.run("auth login --no-browser URL").exits(3).says(&["(E_AUTH_DISCOVERY)", &is_none]);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
        let out = place.run("auth explain URL").exits(1).stdout;
        assert!(out.contains(&is_none) && !out.contains("hunter2"), "{out}");
    }
    let company = Company::new("faults");
    place.authority.state().issuer = Some(company.base.clone());
    place.run("auth login --no-browser URL").exits(4).says(&["(E_TLS)", &company.base, "--ca FILE"]);
    // The certificate is trusted with `--ca`, and another error is reported.
    let ca = company.read("auth login --no-browser --ca company-ca.pem URL");
    place.run(&ca).exits(3).says(&["(E_AUTH_DISCOVERY)", "authorization_endpoint"]);
}

impl Place {
    /// Changes the stored file.
    fn stored(&self, change: impl Fn(String) -> String) {
        for entry in std::fs::read_dir(&self.folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let text = std::fs::read_to_string(&path).unwrap();
                std::fs::write(&path, change(text)).unwrap();
            }
        }
    }
}
