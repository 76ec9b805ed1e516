//! `mcpjoin bridge` between published clients and published servers, all written by others: over each transport and in
//! each era, a client receives the same through the bridge as directly, and no process is left behind.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(clippy::unwrap_used, reason = "what is not as it should be fails the test")]

use std::ffi::OsString;
use std::process::Command;
use std::thread;

use interop::{Account, Bridge, Client, Folder, Listening, NODE, Peer, Way};

const EVERYTHING: &str = "node_modules/.bin/mcp-server-everything";

/// Members that are absent or different in the modern era: log messages belong to requests, there are no tasks, and only
/// subscribers receive changes. (The script also requests less: nothing that the era does not have.)
const LEGACY_ONLY: [&str; 8] =
    ["capabilities", "execution", "logs", "changed", "ping", "unknown", "task", "tasks/get"];
/// Over HTTP `server-everything` announces a change of its tools before a client can have opened a stream.
const OVER_HTTP: [&str; 1] = ["changed"];

fn sdk_1() -> Client {
    Client::installed("@modelcontextprotocol/sdk", NODE).script("sdk-1.mjs")
}

fn sdk_2() -> Client {
    Client::installed("@modelcontextprotocol/client", NODE).script("sdk-2.mjs")
}

fn python() -> Client {
    Client::installed("mcp", "venv/bin/python").script("python-sdk.py")
}

fn rmcp() -> Client {
    Client::installed("rmcp", "rmcp/target/debug/client-current")
}

/// The command line that starts `server-everything` over stdio.
fn everything() -> Vec<OsString> {
    let paths = [NODE, EVERYTHING].map(|path| interop::server(path).unwrap().into_os_string());
    paths.into_iter().chain(["stdio".into()]).collect()
}

fn everything_over_http() -> Listening {
    let server = Peer::installed(NODE).arg(interop::server(EVERYTHING).unwrap()).arg("streamableHttp");
    Listening::on_a_port(&server, Way::Http, "/mcp")
}

fn sdk_2_server(mode: &str) -> Listening {
    let script = interop::server("servers/sdk-2.mjs").unwrap();
    Listening::new(&Peer::installed(NODE).arg(script).arg(mode), Way::Http)
}

/// The server behind `bridge`: as a command or as an address.
fn to_child() -> Vec<OsString> {
    [OsString::from("--")].into_iter().chain(everything()).collect()
}

fn to(server: &Listening) -> Vec<OsString> {
    vec![server.url().into()]
}

/// Compares the account of the direct connection in the legacy era with each of these through a bridge. All run
/// concurrently.
fn alike(client: &Client, cases: &[(&str, Way, Vec<OsString>, &[&str])]) {
    thread::scope(|scope| {
        let direct = scope.spawn(|| client.account("legacy", &everything()));
        let bridged: Vec<_> = cases
            .iter()
            .map(|(era, way, words, _)| {
                scope.spawn(move || client.account_through_a_bridge(era, *way, words))
            })
            .collect();
        let direct = direct.join().unwrap();
        for ((era, way, words, besides), account) in cases.iter().zip(bridged) {
            account.join().unwrap().is_as(&direct, besides, &format!("{era}, {}, {words:?}", way.name()));
        }
    });
}

#[test]
fn typescript_sdk_1() {
    let server = everything_over_http();
    let cases: [(_, _, _, &[&str]); 4] = [
        ("legacy", Way::Stdio, to_child(), &[]),
        ("legacy", Way::Http, to_child(), &[]),
        ("legacy", Way::Sse, to_child(), &[]),
        ("legacy", Way::Stdio, to(&server), &OVER_HTTP),
    ];
    alike(&sdk_1(), &cases);
    server.is_left("the bridge");
}

#[test]
fn typescript_sdk_2() {
    let server = everything_over_http();
    let cases: [(_, _, _, &[&str]); 2] =
        [("legacy", Way::Http, to_child(), &[]), ("legacy", Way::Stdio, to(&server), &OVER_HTTP)];
    alike(&sdk_2(), &cases);
    server.is_left("the bridge");
}

#[test]
fn typescript_sdk_2_in_the_modern_era_to_a_server_of_the_legacy_one() {
    let server = everything_over_http();
    let cases: [(_, _, _, &[&str]); 2] =
        [("modern", Way::Http, to_child(), &LEGACY_ONLY), ("modern", Way::Stdio, to(&server), &LEGACY_ONLY)];
    alike(&sdk_2(), &cases);
    server.is_left("the bridge");
}

#[test]
fn python_sdk() {
    let server = everything_over_http();
    let cases: [(_, _, _, &[&str]); 3] = [
        ("legacy", Way::Http, to_child(), &[]),
        ("legacy", Way::Stdio, to(&server), &[]),
        ("modern", Way::Http, to_child(), &LEGACY_ONLY),
    ];
    alike(&python(), &cases);
    server.is_left("the bridge");
}

/// A server that rejects the legacy era, and clients of both eras: a modern client receives the same as directly, and a
/// legacy client the same as from this server with the legacy era enabled.
#[test]
fn a_server_of_the_modern_era() {
    let modern = sdk_2_server("modern");
    let sessions = sdk_2_server("sessions");
    let direct = |client: Client, era: &str, server: &Listening| client.account(era, &to(server));
    let bridged = |client: Client, era: &str, way| client.account_through_a_bridge(era, way, &to(&modern));
    thread::scope(|scope| {
        let cases = [
            (sdk_2(), "modern", Way::Http),
            (sdk_2(), "modern", Way::Stdio),
            (sdk_2(), "legacy", Way::Http),
            (sdk_1(), "legacy", Way::Stdio),
        ];
        let pairs = cases.map(|(client, era, way)| {
            let server = if era == "modern" { &modern } else { &sessions };
            let (one, other) = (client.clone(), client);
            let directly = scope.spawn(move || direct(one, era, server));
            (era, way, directly, scope.spawn(move || bridged(other, era, way)))
        });
        for (era, way, directly, bridged) in pairs {
            let (directly, bridged): (Account, Account) = (directly.join().unwrap(), bridged.join().unwrap());
            bridged.is_as(&directly, &[], &format!("{era}, {}", way.name()));
        }
    });
    modern.is_left("the bridge");
}

/// Runs every check of the clients' tables: the bridge must make no difference.
#[test]
fn the_demonstration_over_stdio() {
    rmcp().bridged().is_as_the_table_says("legacy");
    rmcp().bridged().is_as_the_table_says("modern");
}

#[test]
fn the_demonstration_over_http() {
    rmcp().by(Way::Http).bridged().is_as_the_table_says("legacy");
    rmcp().by(Way::Http).bridged().is_as_the_table_says("modern");
}

#[test]
fn the_demonstration_over_http_sse() {
    sdk_1().by(Way::Sse).bridged().is_as_the_table_says("legacy");
}

/// The output of a client that obtains its token by itself.
fn authorized(program: &str, script: &str, words: &[&str]) -> serde_json::Value {
    let mut command = Command::new(interop::server(program).unwrap());
    command.arg(interop::server(script).unwrap()).args(words).env("NO_PROXY", "127.0.0.1");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The clients and the authorization server are written by others. The server behind the bridge records its environment
/// and all its input, so that the test can look for parts of the token there.
#[test]
fn g145_clients_get_themselves_tokens_and_are_let_in_and_no_token_goes_further() {
    let script = interop::server("servers/authorization.mjs").unwrap();
    let issuing = Listening::new(&Peer::installed(NODE).arg(script), Way::Http);
    let issuer = format!("http://{}", issuing.address());
    let folder = Folder::new("tokens");
    let written = folder.path().join("written");
    let mcpjoin = interop::mcpjoin().unwrap();
    let server = "env >> \"$1\"; tee -a \"$1\" | \"$2\" serve demo --full";
    let words = ["--auth-issuer", &issuer, "--auth-scope", "mcp:read", "--", "sh", "-c", server, "sh"];
    let words: Vec<OsString> =
        words.iter().map(OsString::from).chain([written.clone().into(), mcpjoin.into()]).collect();
    let bridge = Bridge::start(&words);
    let url = bridge.url(Way::Http);
    for (program, script, words) in [
        (NODE, "clients/authorized.mjs", &["1", &url] as &[&str]),
        (NODE, "clients/authorized.mjs", &["2", &url]),
        ("venv/bin/python", "clients/authorized.py", &[&url]),
    ] {
        let said = authorized(program, script, words);
        for (member, value) in [("text", "let in"), ("aud", &*url), ("scope", "mcp:read"), ("sub", "alice")] {
            assert_eq!(said[member], value, "{script}: {said}");
        }
        let written = std::fs::read_to_string(&written).unwrap();
        assert!(written.contains("let in") && written.contains("PATH="), "{written}");
        let token = said["token"].as_str().unwrap();
        for part in token.split('.').chain(["alice"]) {
            assert!(!written.contains(part), "{part} is in {written}");
        }
    }
    drop(bridge);
}
