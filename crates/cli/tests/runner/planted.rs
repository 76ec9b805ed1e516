//! Tests that secrets are not printed and not written to files. Secrets are planted in every place that can hold one, and
//! every verb runs with its most verbose options, in success and in failure.
//!
//! The result of a call is the user's data and stays unchanged, but only on standard output: see the last test. Everything
//! else that is printed about the call hides the secrets.

use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;

use super::config::Folder;
use super::support::{Ran, read_request, start};

/// The prefix of every secret.
const MARK: &str = "s3cret";

/// All planted secrets. Each contains a distinct word that names its place.
const PLANTED: [(&str, &str); 13] = [
    ("MCPJOIN_TEST_VARIABLE", "s3cret-variable-8f2c41d7e6"),
    ("MCPJOIN_INPUT_KEY", "s3cret-input-77ab01c9d2"),
    ("in the entry's env", "s3cret-env-19c0a8e2f4"),
    ("in the file of variables", "s3cret-envfile-5d20b7a1c3"),
    ("in an argument", "s3cret-argument-3b91d0c7aa"),
    ("behind -e", "s3cret-typed-e0412bc976"),
    ("in a header of the entry", "s3cret-header-c65f09be31"),
    ("in a token of the entry", "s3cret-bearer-b1407d2e9f"),
    ("in a token in the url", "s3cret-query-40e7cb15a8"),
    ("in the url as a user", "s3cret-user-9d8f3e21b0"),
    ("in a header that is typed", "s3cret-at-typed-2f6e80ad14"),
    ("in a file of headers", "s3cret-at-file-d71b35c08e"),
    ("in a proxy's address", "s3cret-proxy-6a0c9e47f2"),
];

fn secret(place: &str) -> &'static str {
    PLANTED.iter().find(|(known, _)| *known == place).unwrap().1
}

/// A server in shell that repeats everything it was given, wherever a server can send text beside its results. `$MODE` is
/// its behaviour: it works, refuses everything, sends garbage, or exits at the first request after `initialize`.
const LEAKY: &str = r#"all="$* $API_KEY $FROM_US $FROM_FILE $TYPED $KEY"
echo "started with $all" >&2
say() { printf '%s\n' "$1"; }
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  ok() { say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
  case $line in
    *'"initialize"'*) ok '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{},"logging":{}},"serverInfo":{"name":"leaky","version":"1"}}'; continue;;
    *'"notifications/'*) say "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"error\",\"data\":\"has $all\"}}"; continue;;
  esac
  echo "asked, with $all" >&2
  case $MODE in
    dies) echo "no use: $all"; exit 3;;
    garbage) say "garbage $all"; say "{\"jsonrpc\":\"2.0\",\"id\":\"$all\",\"result\":{}}";;
    refuses) say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32000,\"message\":\"no $all\",\"data\":{\"why\":\"$all\"}}}"; continue;;
  esac
  case $line in
    *'"tools/list"'*) ok '{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}';;
    *'"resources/list"'*) ok '{"resources":[]}';;
    *'"resources/templates/list"'*) ok '{"resourceTemplates":[]}';;
    *'"prompts/list"'*) ok '{"prompts":[{"name":"p"}]}';;
    *'"tools/call"'*) ok '{"content":[{"type":"text","text":"fine"}]}';;
    *'"resources/read"'*) ok '{"contents":[{"uri":"a://b","text":"fine"}]}';;
    *'"prompts/get"'*) ok '{"messages":[]}';;
    *'"completion/complete"'*) ok '{"completion":{"values":["fine"]}}';;
    *) ok '{}';;
  esac
done"#;

/// A server over HTTP that returns the request: with status 401, with 500, or as a JSON-RPC error, by its path. It ends with
/// the test.
fn echoing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (head, body) = read_request(&stream);
            let said: String = head.split_whitespace().collect::<Vec<_>>().join(" ");
            let (status, kind, body) = if head.starts_with("POST /refused") {
                let why =
                    format!("401 No\r\nwww-authenticate: Bearer error=\"x\", error_description=\"{said}\"");
                (why, "text/plain", said)
            } else if head.starts_with("POST /broken") {
                ("500 Oh".to_owned(), "text/plain", said)
            } else {
                let id = serde_json::from_slice::<serde_json::Value>(&body).unwrap_or_default()["id"].clone();
                let error = serde_json::json!({"code": -32000, "message": said, "data": [said]});
                let answer = serde_json::json!({"jsonrpc": "2.0", "id": id, "error": error});
                ("200 OK".to_owned(), "application/json", answer.to_string())
            };
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
    address
}

/// A configuration with a secret in each place.
struct Planted {
    folder: Folder,
    trace: PathBuf,
    headers: String,
}

impl Planted {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let address = echoing();
        // Escape the shell's variables, so that the configuration does not expand them.
        let script = serde_json::Value::from(LEAKY.replace("${", "$${"));
        let child = |mode: &str| {
            format!(
                r#""{mode}": {{"type": "stdio", "command": "sh", "args": ["-c", {script}, "sh", "--token={}"],
                "envFile": "secret.env", "env": {{"MODE": "{mode}", "API_KEY": "{}", "FROM_US": "${{env:MCPJOIN_TEST_VARIABLE}}",
                "KEY": "${{input:key}}"}}}}"#,
                secret("in an argument"),
                secret("in the entry's env"),
            )
        };
        let web = |path: &str| {
            format!(
                r#""{path}": {{"type": "http", "url": "http://{address}/{path}?access_token={}", "headers":
                {{"Authorization": "Bearer {}", "X-Team": "{}", "X-Own": "${{env:MCPJOIN_TEST_VARIABLE}}"}}}}"#,
                secret("in a token in the url"),
                secret("in a token of the entry"),
                secret("in a header of the entry"),
            )
        };
        let entries = [
            child("works"),
            child("dies"),
            child("garbage"),
            child("refuses"),
            web("refused"),
            web("broken"),
            web("rpc"),
            format!(r#""user": {{"url": "https://{}@h/mcp"}}"#, secret("in the url as a user")),
            format!(
                r#""missing": {{"command": "/no/such/program", "args": ["--password", "{}"], "env": {{"A": "{}"}}}}"#,
                secret("in an argument"),
                secret("in the entry's env")
            ),
            format!(
                r#""unset": {{"command": "sh", "env": {{"A": "{}${{NOT_SET_AT_ALL}}"}}}}"#,
                secret("in the entry's env")
            ),
        ];
        let inputs = r#"[{"type": "promptString", "id": "key", "password": true}]"#;
        folder.file(
            ".vscode/mcp.json",
            format!("{{\"inputs\": {inputs}, \"servers\": {{{}}}}}", entries.join(",\n")),
        );
        // The pinned file differs from what the server offers.
        folder.file("old.json", r#"{"protocolVersion":"2025-11-25","tools":[]}"#);
        folder.file("secret.env", format!("FROM_FILE={}\n", secret("in the file of variables")));
        let file = folder.file("headers", format!("X-From-File: {}\n", secret("in a file of headers")));
        let (trace, headers) = (folder.path().join("trace"), format!("@{}", file.display()));
        Self { folder, trace, headers }
    }

    /// Runs a command, and asserts that no planted secret was printed or written. Returns the outputs.
    #[track_caller]
    fn run(&self, words: &[&str]) -> (Ran, String) {
        let mut command = self.folder.command(words);
        for (name, value) in &PLANTED[..2] {
            command.env(name, value);
        }
        let ran = start(command).finish();
        let traced = std::fs::read_to_string(&self.trace).unwrap_or_default();
        let _ = std::fs::remove_file(&self.trace);
        let all = format!("{}\n{}\n{traced}", ran.stdout, ran.stderr);
        assert!(!all.contains(MARK), "{words:?}: {all}");
        (ran, all)
    }
}

/// Every verb that talks to a server, and its operands.
const VERBS: [(&str, &[&str]); 11] = [
    ("list", &[]),
    ("info", &[]),
    ("diff", &["old.json"]),
    ("tool", &["x"]),
    ("call", &["x"]),
    ("read", &["a://b"]),
    ("prompt", &["p"]),
    ("complete", &["prompt:p", "a=b"]),
    ("ping", &[]),
    ("doctor", &[]),
    ("validate", &["--rule", "lifecycle"]),
];

#[test]
fn f25_i166_no_secret_of_an_entry_is_found_in_anything_that_a_verb_says_or_writes() {
    let planted = Planted::new("planted");
    let trace = planted.trace.to_str().unwrap().to_owned();
    let typed = format!("TYPED={}", secret("behind -e"));
    let header = format!("X-Typed: {}", secret("in a header that is typed"));
    let mut hidden = 0;
    for (verb, operands) in VERBS {
        for (target, is_child) in [
            ("works", true),
            ("dies", true),
            ("garbage", true),
            ("refuses", true),
            ("refused", false),
            ("broken", false),
            ("rpc", false),
        ] {
            // Without a connection, most verbs fail in the same way.
            if matches!(target, "refused" | "broken")
                && !matches!(verb, "list" | "call" | "doctor" | "validate")
            {
                continue;
            }
            if verb == "validate" && !matches!(target, "refuses" | "refused") {
                continue;
            }
            for options in [&["-vv"][..], &["--json", "-vv"]] {
                let (mut words, mut behind) = (vec![verb, "--era", "legacy", "-t", "2s"], vec![target]);
                words.extend(options);
                words.extend(["--trace", &trace]);
                words.extend(if is_child {
                    vec!["-e", &typed]
                } else {
                    vec!["-H", &header, "-H", &planted.headers]
                });
                // `validate` takes its options before the target.
                if verb == "validate" {
                    words.extend(operands);
                } else {
                    behind.extend(operands);
                }
                words.extend(behind);
                let (_, all) = planted.run(&words);
                hidden += usize::from(all.contains("***"));
            }
        }
    }
    // Secrets were present and replaced.
    assert!(hidden > 85, "{hidden}");
}

#[test]
fn f25_i166_no_secret_is_found_in_what_is_said_of_a_configuration_or_of_what_cannot_be_used() {
    let planted = Planted::new("planted-said");
    for target in ["user", "missing", "unset"] {
        for words in [
            &["list", "-vv", target][..],
            &["list", "--json", "-vv", target],
            &["call", "-vv", target, "x"],
            &["diff", "-vv", target, "old.json"],
            &["diff", "--json", "demo:", target],
            &["ping", "--json", target],
            &["doctor", "-vv", target],
            &["doctor", "--json", target],
            &["validate", "-vv", target],
            &["validate", "--json", target],
            &["bridge", "--listen", "orchestra+tcp://127.0.0.1:0", "-vv", target],
            &["bridge", "-vv", "--listen", "tcp://127.0.0.1:0", target],
            &["bridge", "--json", "--listen", "tcp://127.0.0.1:0", target],
            // An option that does not apply to this target.
            &[
                "list",
                "--pin",
                "sha256:0000000000000000000000000000000000000000000000000000000000000000",
                target,
            ],
        ] {
            let (ran, _) = planted.run(words);
            assert_ne!(ran.code, Some(0), "{words:?}");
        }
    }
    for words in [
        &["servers"][..],
        &["servers", "-vv", "--json"],
        &["list", "-vv", "--era", "legacy", "-t", "1s"],
        &["list", "--json", "-vv", "--era", "legacy", "-t", "1s"],
        &["doctor", "-vv", "--era", "legacy", "-t", "1s"],
        &["doctor", "--json", "-vv", "--era", "legacy", "-t", "1s"],
        &["search", "-vv", "--era", "legacy", "-t", "1s", "x"],
        &["search", "--json", "-vv", "--era", "legacy", "-t", "1s", "x"],
        &["list", "nothing", "--token", secret("in an argument")],
        &["call", "nothing", "x", "--", "no-such-program", "--token", secret("in an argument")],
        &["list", "works", "--token", secret("in an argument")],
        &["call", "nothing", "--args", "{}", "x"],
    ] {
        planted.run(words);
    }
    for dialect in ["mcp-servers", "vscode", "opencode", "servers-toml", "codex"] {
        // An entry with a user in its URL is not valid, so it is not written.
        let (ran, all) = planted.run(&["servers", "convert", "--to", dialect, "works", "rpc", "missing"]);
        assert_eq!(ran.code, Some(0), "{all}");
        assert!(all.contains("values were replaced by variables: set "), "{all}");
    }
    // A word that is not a target, with secrets in it.
    let url = format!("https://{}@host/mcp", secret("in the url as a user"));
    let query = format!("http://127.0.0.1:1/mcp?api_key={}", secret("in a token in the url"));
    for words in [
        &["list", &url][..],
        &["list", "--json", "-vv", &query],
        &["validate", &query],
        &["list", "-H", "X: y", "tcp://127.0.0.1:1", "-H", &url],
        &["list", &query, "--token", secret("in an argument")],
        &["list", "--server", "a", &query],
    ] {
        planted.run(words);
    }
    // A file that is not a key, and a key that others can read.
    let key =
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", secret("in an argument"));
    let path = planted.folder.file("key.pem", key);
    let path = path.to_str().unwrap();
    let pin = format!("sha256:{}", "ab".repeat(32));
    planted.run(&["list", "-vv", "--pin", &pin, "--cert", path, "--key", path, "quic://127.0.0.1:1"]);
    planted.run(&["list", "-vv", "--ca", path, "https://127.0.0.1:1/mcp"]);
}

#[test]
fn f25_i166_no_secret_is_found_in_what_a_bridge_sends_its_client_of_its_server() {
    let planted = Planted::new("planted-bridge");
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
"#;
    let said = planted.folder.file("hello", hello);
    for (target, says) in [("dies", "exit code 3"), ("missing", "/no/such/program")] {
        let mut command = planted.folder.command(&["bridge", "--era", "legacy", target]);
        command.envs(PLANTED[..2].iter().copied()).stdin(std::fs::File::open(&said).unwrap());
        let Ran { stdout, stderr, .. } = start(command).finish();
        // What the server sends to its client is passed on unchanged.
        let error = stdout.lines().last().unwrap_or_default();
        assert!(error.contains("\"error\"") && error.contains(says), "{target}: {stdout} {stderr}");
        assert!(!error.contains(MARK) && !stderr.contains(MARK), "{target}: {stdout} {stderr}");
        if target == "dies" {
            assert!(error.contains("asked, with") && error.contains("***"), "{error}");
        }
    }
}

#[test]
fn f25_i166_no_secret_of_a_proxy_is_reported() {
    let folder = Folder::new("planted-proxy");
    let proxy = format!("http://user:{}@127.0.0.1:1", secret("in a proxy's address"));
    for words in [
        &["list", "-vv", "http://example.invalid/mcp"][..],
        &["list", "--json", "-vv", "https://example.invalid/mcp"],
        &["doctor", "-vv", "http://example.invalid/mcp"],
        &["validate", "--json", "http://example.invalid/mcp"],
    ] {
        for proxy in [&proxy, "not a proxy s3cret", &proxy.replace(":1", ":x")] {
            let mut command = folder.command(words);
            for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"] {
                command.env(name, proxy);
            }
            command.env_remove("NO_PROXY").env_remove("no_proxy");
            let ran = start(command).finish();
            assert_ne!(ran.code, Some(0), "{words:?}");
            assert!(!ran.stdout.contains(MARK) && !ran.stderr.contains(MARK), "{}{}", ran.stdout, ran.stderr);
        }
    }
}

#[test]
fn i166_the_result_of_a_call_is_the_users_data_and_stays_as_it_is() {
    let planted = secret("behind -e");
    let folder = Folder::new("planted-result");
    let trace = folder.path().join("trace");
    let variable = format!("API_KEY={planted}");
    let script = super::support::legacy_with(
        r#""tools":{}"#,
        r#"read -r line; printf '%s\n' "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"has $API_KEY\"}],\"isError\":true}}"; echo "has $API_KEY" >&2; cat >/dev/null"#,
    );
    for json in [false, true] {
        let mut words = vec!["call", "-vv", "--era", "legacy", "-e", &variable];
        words.extend(json.then_some("--json"));
        words.extend(["--trace", trace.to_str().unwrap(), "--force", "x", "--", "sh", "-c", &script]);
        let ran = folder.run(&words).exits(5);
        assert!(ran.stdout.contains(&format!("has {planted}")), "{}", ran.stdout);
        let traced = std::fs::read_to_string(&trace).unwrap();
        assert!(!ran.stderr.contains(MARK) && !traced.contains(MARK), "{}{traced}", ran.stderr);
        assert!(traced.contains("has ***"), "{traced}");
    }
}
