//! The exchange of clients' tokens at `mcpjoin bridge` (RFC 8693), with an authorization server on idpyoidc, and behind the
//! bridge a server on the TypeScript SDK that checks the tokens: both are written by others.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(clippy::unwrap_used, reason = "what is not as it should be fails the test")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use interop::{Bridge, Folder, Listening, NODE, Peer, Way};

/// What `GET PATH` answers at a server on this machine: JSON.
fn get(address: &str, path: &str) -> serde_json::Value {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Calls a tool with a token of the client; returns the exit code and what was printed.
fn call(url: &str, era: &str, token: &str, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(interop::mcpjoin().unwrap());
    command.args(["call", "--era", era, "-H", &format!("Authorization: Bearer {token}"), url]).args(words);
    let output = command.env("NO_PROXY", "127.0.0.1").stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), said.trim().to_owned())
}

#[test]
fn two_users_of_one_bridge_are_themselves_at_a_server_that_checks_tokens() {
    let script = |name: &str| interop::server(name).unwrap();
    let issuing = Peer::installed("venv/bin/python").arg(script("servers/exchange.py"));
    let issuing = Listening::new(&issuing, Way::Http);
    let issuer = format!("http://{}", issuing.address());
    let far = Peer::installed(NODE).arg(script("servers/sdk-1-protected.mjs")).arg(&issuer);
    let far = Listening::new(&far, Way::Http);
    let far = format!("http://{}/mcp", far.address());
    let folder = Folder::new("identity");
    std::fs::write(folder.path().join("secret"), "the-secret-of-the-gateway\n").unwrap();
    let policy = folder.path().join("policy.toml");
    let text = format!(
        "[target.far.credentials.token_exchange]\nissuer = \"{issuer}\"\naudience = \"{far}\"\n\
         client = {{ id = \"gateway\", secret_file = \"secret\" }}\n"
    );
    std::fs::write(&policy, text).unwrap();
    let words =
        ["--auth-issuer", &issuer, "--policy", policy.to_str().unwrap(), "--join", &format!("far={far}")];
    let bridge = Bridge::joined(&words.map(Into::into));
    let url = bridge.url(Way::Http);
    let login = |user: &str| {
        let answer = get(&issuing.address().to_string(), &format!("/login?user={user}&resource={url}"));
        answer["access_token"].as_str().unwrap().to_owned()
    };
    let users = [("alice", login("alice")), ("bob", login("bob"))];
    let mut exchanged = BTreeSet::new();
    for era in ["legacy", "modern"] {
        for (user, token) in &users {
            let (code, said) = call(&url, era, token, &["far__whoami", "greeting=hello"]);
            assert_eq!((code, &*said), (Some(0), &*format!("hello, {user}")), "{era}");
            let (code, arrived) = call(&url, era, token, &["far__token"]);
            assert_eq!(code, Some(0), "{era}: {arrived}");
            assert!(users.iter().all(|(_, token)| *token != arrived), "a client's token has gone further");
            exchanged.insert((*user, arrived));
        }
    }
    assert_eq!(exchanged.len(), 2, "one token for each user, in both eras");
    // The clients' own tokens are for the bridge: the server refuses them.
    for (_, token) in &users {
        let (code, said) = call(&far, "legacy", token, &["whoami", "greeting=hello"]);
        assert_eq!(code, Some(3), "{said}");
    }
    drop(bridge);
}
