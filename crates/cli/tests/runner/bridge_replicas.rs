//! Tests of `bridge --key-file`: several bridges that serve the sessions of each other's clients.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mcpjoin::proto::Era;
use serde_json::json;

use super::bridge_relay::{Bridge, call, client, http, opening, text, within};
use super::config::Folder;
use super::ports::Port;
use super::support::{command, run, start};

/// The base64 of 32 bytes.
const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const OTHER_KEY: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

const CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__echo","arguments":{"message":"hi"}}}"#;

/// A bridge with these keys in front of the server at `url`.
fn bridge(keys: &Path, url: &str) -> Bridge {
    let join = format!("a={url}");
    Bridge::before("http://127.0.0.1:0/mcp", &["--key-file", keys.to_str().unwrap(), "--join", &join])
}

fn key_file(folder: &Folder, text: &str) -> std::path::PathBuf {
    let file = folder.file("keys", text);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    file
}

/// The id of a session that was opened at this address.
fn open(url: &str) -> String {
    let (status, answer) = http(url, "", &opening());
    assert_eq!(status, 200, "{answer}");
    let line = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    line.unwrap_or_else(|| panic!("no session: {answer}")).trim().to_owned()
}

/// The status of a call in a session at this address.
fn calls(url: &str, session: &str) -> u16 {
    let head = format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n");
    let (status, answer) = http(url, &head, CALL);
    assert!(status != 200 || answer.contains("hi"), "{answer}");
    status
}

#[test]
fn a_session_goes_on_at_another_bridge_with_the_key_and_the_key_is_replaced_meanwhile() {
    let folder = Folder::new("replicas");
    let keys = key_file(&folder, &format!("# the first one seals\n{KEY}\n"));
    let target = Bridge::before("http://127.0.0.1:0/mcp", &["demo:"]);
    let (one, mut other) = (bridge(&keys, &target.addresses[0]), bridge(&keys, &target.addresses[0]));
    let foreign = folder.file("foreign", OTHER_KEY);
    let foreign = bridge(&foreign, &target.addresses[0]);
    assert!(foreign.before.iter().any(|line| line.contains("other users can read")), "{:?}", foreign.before);
    let session = open(&one.addresses[0]);
    assert!(session.len() > 100, "{session}");
    for url in [&one.addresses[0], &other.addresses[0], &one.addresses[0]] {
        assert_eq!(calls(url, &session), 200);
    }
    assert_eq!(calls(&foreign.addresses[0], &session), 404);
    // The bridge that has opened it dies.
    drop(one);
    assert_eq!(calls(&other.addresses[0], &session), 200);
    fs::write(&keys, "no key").unwrap();
    assert!(other.says_of("stay as they were").contains("line 1 is not base64"));
    fs::write(&keys, format!("{OTHER_KEY}\n{KEY}\n")).unwrap();
    let again = other.says_of("read again");
    assert!(again.contains("the keys were read again: 2 in"), "{again}");
    let new = open(&other.addresses[0]);
    assert_eq!(calls(&foreign.addresses[0], &new), 200);
    within(async {
        let modern = client(&other.addresses[0], Era::Modern).await;
        let said = call(&modern, "a__echo", json!({ "message": "hello" })).await;
        assert!(text(&said).contains("hello"), "{said:?}");
    });
}

#[test]
fn a_session_that_only_one_bridge_can_serve_is_served_through_the_other_until_its_bridge_dies() {
    let folder = Folder::new("replicas-advertise");
    let keys = key_file(&folder, KEY);
    let ports = [Port::claim().unwrap(), Port::claim().unwrap()];
    let [one, other] = ports.each_ref().map(|port| {
        let own = format!("http://127.0.0.1:{}", port.number());
        let options = ["--key-file", keys.to_str().unwrap(), "--advertise", &own, "--join", "a=demo:"];
        Bridge::before(&format!("{own}/mcp"), &options)
    });
    let mut other = other;
    let session = open(&one.addresses[0]);
    for url in [&one.addresses[0], &other.addresses[0], &other.addresses[0]] {
        assert_eq!(calls(url, &session), 200);
    }
    drop(one);
    assert_eq!(calls(&other.addresses[0], &session), 404);
    let warned = other.says_of("a request was not passed");
    assert!(warned.contains("nothing listens there now"), "{warned}");
}

#[test]
fn the_address_of_a_bridge_for_the_others_is_checked() {
    let folder = Folder::new("replicas-address");
    let keys = key_file(&folder, KEY);
    let listen = ["bridge", "--listen", "http://127.0.0.1:0/mcp", "--key-file", keys.to_str().unwrap()];
    for (url, why) in [
        ("10.0.0.5:8080", "other processes cannot reach this process"),
        ("http://0.0.0.0:8080", "no process can connect to it"),
        ("http://ada:hunter2@bridge", "other processes cannot reach this process"),
    ] {
        for last in [&["demo:"][..], &["--check-config"]] {
            let told = run([&listen[..], &["--advertise", url], last].concat()).exits(2).stderr;
            assert!(told.contains(why) && told.contains("--advertise http://host:port"), "{told}");
        }
    }
    run([&listen[..], &["--advertise", "http://bridge:8080", "--check-config"]].concat()).exits(0);
    let keyless = run(["bridge", "--listen", "http://127.0.0.1:0", "--advertise", "http://a", "demo:"]);
    assert!(keyless.exits(2).stderr.contains("--key-file"));
}

#[test]
fn a_file_of_keys_with_a_fault_is_named_with_its_line() {
    let folder = Folder::new("replicas-check");
    let file = key_file(&folder, &format!("{KEY}\n"));
    let check = || {
        run([
            "bridge",
            "--key-file",
            file.to_str().unwrap(),
            "--listen",
            "http://127.0.0.1:0",
            "--check-config",
        ])
    };
    let valid = check().exits(0).stdout;
    assert!(valid.contains("keys is valid"), "{valid}");
    fs::write(&file, format!("{KEY}\n{KEY}\n")).unwrap();
    let twice = check().exits(2).stderr;
    assert!(twice.contains("keys: line 2 has a key that an earlier line has, too"), "{twice}");
    fs::write(&file, format!("{KEY}\n{}", "#".repeat(64 * 1024))).unwrap();
    let long = check().exits(2).stderr;
    assert!(long.contains("it is larger than the limit of 64 KiB"), "{long}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o622)).unwrap();
    let writable = check().exits(2).stderr;
    assert!(writable.contains("other users can write to it (chmod go-w)"), "{writable}");
    fs::remove_file(&file).unwrap();
    check().exits(2);
    let stdio = run(["bridge", "--key-file", "keys", "demo:"]).exits(2).stderr;
    assert!(stdio.contains("--listen"), "{stdio}");
    let tcp = run(["bridge", "--key-file", "keys", "--listen", "tcp://127.0.0.1:0", "demo:"]).exits(2).stderr;
    assert!(tcp.contains("--key-file is for clients over HTTP"), "{tcp}");
}

#[test]
fn what_bridges_share_is_checked_and_a_password_stays_off_the_command_line() {
    let folder = Folder::new("replicas-state");
    let keys = key_file(&folder, KEY);
    let file = |text: &str| format!("@{}", folder.file("url", text).display());
    let checks = |options: &[&str], variable: Option<&str>| {
        let listen = ["bridge", "--listen", "http://127.0.0.1:0/mcp", "--check-config"];
        let mut bridge = command([&listen, options].concat());
        bridge.env_remove("MCPJOIN_STATE_URL");
        bridge.envs(variable.map(|url| ("MCPJOIN_STATE_URL", url)));
        start(bridge).finish()
    };
    let with_keys = ["--key-file", keys.to_str().unwrap()];
    let check = |options: &[&str]| checks(&[&with_keys, options].concat(), None);
    for state in ["redis://cache:6380/2", "rediss://cache:6380", &file("redis://ada:hunter2@cache:6380\n")] {
        let valid = check(&["--state", state]).exits(0).stdout;
        assert!(valid.contains("keys is valid") && valid.contains("Redis at cache:6380"), "{valid}");
    }
    let variable = checks(&with_keys, Some("redis://:hunter2@cache:6380")).exits(0);
    assert!(variable.stdout.contains("Redis at cache:6380"), "{}", variable.stdout);
    let typed = check(&["--state", "redis://ada:hunter2@cache:6380"]).exits(2).stderr;
    assert!(typed.contains("not accepted on the command line") && !typed.contains("hunter2"), "{typed}");
    let wrong = file("redis://ada:hunter2@cache:port");
    for (options, why) in [
        (&["--state", "http://cache"][..], "redis://[user:password@]host[:port]"),
        (&["--state", &wrong], "redis://[user:password@]host[:port]"),
        (&["--state", "rediss://cache/#insecure"], "#insecure would accept every certificate"),
        (&["--state", "@/no/such/file"], "the URL in /no/such/file cannot be read"),
        (
            &["--state", "redis://cache", "--state-ca", keys.to_str().unwrap()],
            "certificates are for rediss:// only",
        ),
        (&["--state", "rediss://cache", "--state-ca", keys.to_str().unwrap()], "no certificates in PEM"),
        (&["--state-timeout", "1s"], "--state-timeout is for what several bridges share"),
    ] {
        let told = check(options).exits(2).stderr;
        assert!(told.contains(why) && !told.contains("hunter2"), "{told}");
    }
    let keyless = checks(&["--state", "redis://cache", "--policy", "none"], None).exits(2).stderr;
    assert!(keyless.contains("--key-file"), "{keyless}");
}
