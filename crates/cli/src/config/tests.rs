//! Tests of configuration files as texts: how they are parsed, and the messages about them with file, line and column.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::called;
use super::dialect::{Dialect, Key, Transport};
use super::entry::Definition;
use super::files::Configuration;
use super::launch::{Destination, Launch, Oauth, Program, Remote, Secured, launch};
use super::places::Origin;
use super::source::Source;
use crate::args::{Callback, Configured, Pin};
use crate::target::{Http, Quic, Socket};
use crate::ui::Ui;

fn read(name: &str, text: &str) -> Result<Configuration, String> {
    let source = Source::new(Path::new(name), text.to_owned());
    Configuration::of(source, Origin::Chosen).map_err(|unread| unread.failure.message)
}

/// The definition of an entry, or the position and text of its fault.
fn definition(configuration: &Configuration, name: &str) -> Result<Definition, String> {
    let entry = configuration.parsed.entries.iter().find(|entry| entry.name == name).unwrap();
    Definition::read(configuration.dialect, &entry.node).map_err(|problem| configuration.source.say(&problem))
}

fn started(configuration: &Configuration, name: &str) -> Launch {
    let lookup = |name: &str| (name == "SET").then(|| OsString::from("set!"));
    let names = configuration.names(lookup, PathBuf::from("/work"));
    launch(&definition(configuration, name).unwrap(), &names).unwrap()
}

fn warnings(configuration: &Configuration, name: &str) -> Vec<String> {
    let warnings = definition(configuration, name).unwrap().warnings;
    configuration.parsed.warnings.iter().chain(&warnings).map(|at| configuration.source.say(at)).collect()
}

const JSON: &str = r#"// of several programs
{
  "globalShortcut": "",
  "mcpServers": {
    "files": {
      "command": "npx",
      "args": ["-y", "pkg", "--token=${SET}", /* more */ "${HOME:-/h}"],
      "env": {"API_KEY": "hunter2hunter2", "PLAIN": "{env:SET}"},
      "cwd": "/srv",
      "description": "Files",
      "timeoutMs": 1500,
      'allowedTools': ["read_*"],
      disabled_tools: ["read_secret",],
    },
    "web": {"url": "https://host/mcp?key=${SET}", "headers": {"Authorization": "Bearer hunter2hunter2"}},
    "off": {"command": "x", "disabled": true},
  },
}
"#;

const TOML: &str = r#"timeout_secs = 90
concurrency_limit = 5

[[servers]]
name = "files"
transport = { type = "stdio", command = "npx", args = ["-y", "pkg", "--token=${SET}", "${HOME:-/h}"], env = { API_KEY = "hunter2hunter2", PLAIN = "{env:SET}" }, cwd = "/srv" }
description = "Files"
timeout_ms = 1500
allowed_tools = ["read_*"]
disabled_tools = ["read_secret"]

[[servers]]
name = "web"
[servers.transport]
type = "http"
url = "https://host/mcp?key=${SET}"
headers = { Authorization = "Bearer hunter2hunter2" }

[[servers]]
name = "off"
enabled = false
transport = { type = "stdio", command = "x" }
"#;

#[test]
fn c18_r85_both_formats_become_one_model() {
    for (name, text) in [("a.json", JSON), ("a.toml", TOML), ("a", JSON), ("b", TOML)] {
        for text in [text.to_owned(), text.replace('\n', "\r\n")] {
            let configuration = read(name, &text).unwrap();
            let files = definition(&configuration, "files").unwrap();
            assert_eq!(files.description.as_deref(), Some("Files"), "{name}");
            assert_eq!(files.timeout, Some(Duration::from_millis(1500)), "{name}");
            assert!(files.tools.allows("read_file") && !files.tools.allows("read_secret"), "{name}");
            assert!(!files.tools.allows("write"), "{name}");
            assert_eq!(warnings(&configuration, "files"), [""; 0], "{name}");

            let launch = started(&configuration, "files");
            let program = Program {
                program: "npx".into(),
                args: ["-y", "pkg", "--token=set!", "/h"].map(OsString::from).into(),
                env: vec![("API_KEY".into(), "hunter2hunter2".into()), ("PLAIN".into(), "set!".into())],
                cwd: Some("/srv".into()),
            };
            assert_eq!(launch.destination, Destination::Program(program));
            assert_eq!(launch.shown, "npx -y pkg '--token=${SET}' '${HOME:-/h}'");
            assert!(launch.say.ends_with(", in /srv, with API_KEY, PLAIN set"), "{}", launch.say);
            for secret in ["hunter2hunter2", "set!"] {
                assert!(launch.secrets.contains(&secret.into()), "{secret}");
            }

            let launch = started(&configuration, "web");
            let headers = vec![("Authorization".into(), "Bearer hunter2hunter2".into())];
            let address = Http::parse("https://host/mcp?key=set!").unwrap();
            assert_eq!(
                launch.destination,
                Destination::Remote(Remote { address, headers, ca: None, oauth: Oauth::default() })
            );
            assert_eq!(launch.shown, "'https://host/mcp?key=${SET}'");
            assert!(launch.say.ends_with(", with Authorization sent"), "{}", launch.say);
            for secret in ["hunter2hunter2", "Bearer hunter2hunter2", "set!"] {
                assert!(launch.secrets.contains(&secret.into()), "{secret}");
            }
            assert!(definition(&configuration, "off").unwrap().disabled.is_some());
        }
    }
    let parsed = read("a.toml", TOML).unwrap().parsed;
    assert_eq!((parsed.timeout, parsed.at_once), (Some(Duration::from_secs(90)), Some(5)));
    assert_eq!(read("a.json", JSON).unwrap().dialect, Dialect::McpServersJson);
}

#[test]
fn every_spelling_of_a_type_is_known() {
    for (kind, sse) in [
        ("stdio", None),
        ("local", None),
        ("http", Some(false)),
        ("streamable-http", Some(false)),
        ("streamable_http", Some(false)),
        ("streamableHttp", Some(false)),
        ("streamablehttp", Some(false)),
        ("remote", Some(false)),
        ("sse", Some(true)),
    ] {
        for member in ["type", "transport"] {
            let text = format!(
                r#"{{"mcpServers":{{"a":{{"{member}":"{kind}","command":"x","serverUrl":"http://h"}}}}}}"#
            );
            let definition = definition(&read("a.json", &text).unwrap(), "a").unwrap();
            let said = |key| definition.text(key).map(|text| text.text.as_str());
            let expected = match sse {
                None => (Transport::Stdio, Some("x"), None),
                Some(false) => (Transport::Http, None, Some("http://h")),
                Some(true) => (Transport::Sse, None, Some("http://h")),
            };
            assert_eq!((definition.transport, said(Key::Command), said(Key::Url)), expected, "{kind}");
        }
    }
}

/// Each example comes from the documentation of the program.
const VSCODE: &str = r#"{
  "inputs": [{"type": "promptString", "id": "key", "description": "The key", "password": true},
    {"type": "promptString", "id": "zone", "default": "eu"}, {"type": "command"}],
  "servers": {
    "files": {"type": "stdio", "command": "npx", "args": ["-y", "pkg", "${workspaceFolder}", "${input:zone}"],
      "env": {"KEY": "${input:key}", "SET": "${env:SET}"}, "dev": {"watch": "src"}},
    "web": {"type": "http", "url": "https://host/mcp", "headers": {"X-Zone": "${input:zone}"}}
  }
}"#;

const OPENCODE: &str = r#"{
  // settings of other things
  "theme": "dark",
  "mcp": {
    "files": {"type": "local", "command": ["npx", "-y", "pkg"], "environment": {"SET": "{env:SET}"},
      "enabled": false, "timeout": 1500},
    "web": {"type": "remote", "url": "https://host/mcp", "headers": {"A": "b"}, "oauth": {}},
    "wrong": {"type": "stdio", "command": ["x"]},
    "none": {"type": "local", "command": []},
    "text": {"type": "local", "command": "x y"}
  }
}"#;

const CODEX: &str = r#"model = "x"
[mcp_servers.files]
command = "npx"
args = ["-y", "pkg"]
env_vars = ["SET"]
startup_timeout_sec = 2.5
tool_timeout_sec = 45
enabled_tools = ["read_*"]
disabled_tools = ["read_secret"]
required = true
[mcp_servers.files.env]
SET = "${SET}"
[mcp_servers."the web"]
url = "https://host/mcp"
bearer_token_env_var = "SET"
http_headers = { A = "b" }
env_http_headers = { "X-Set" = "SET" }
enabled = false
[mcp_servers.wrong]
url = "https://host/mcp"
bearer_token_env_var = "not a name"
"#;

fn program(args: &[&str], env: &[(&str, &str)]) -> Destination {
    Destination::Program(Program {
        program: "npx".into(),
        args: args.iter().map(OsString::from).collect(),
        env: env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect(),
        cwd: None,
    })
}

fn web(headers: &[(&str, &str)]) -> Destination {
    let address = Http::parse("https://host/mcp").unwrap();
    let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Destination::Remote(Remote { address, headers, ca: None, oauth: Oauth::default() })
}

#[test]
fn the_members_of_mcporter_are_read() {
    let text = r#"{"mcpServers": {
        "var": {"baseUrl": "https://host/mcp", "bearerTokenEnv": "SET", "lifecycle": "keep-alive", "auth": "oauth"},
        "token": {"server_url": "https://host/mcp", "bearer_token": "hunter2", "headers": {"A": "b"}},
        "twice": {"url": "https://host/mcp", "bearerToken": "x", "headers": {"authorization": "y"}},
        "program": {"command": "npx", "bearerToken": "x", "blockedTools": ["rm"], "logging": {"daemon": {}}}}}"#;
    let configuration = read("mcporter.json", text).unwrap();
    let variable = started(&configuration, "var");
    assert_eq!(variable.destination, web(&[("Authorization", "Bearer set!")]));
    assert_eq!(warnings(&configuration, "var"), [""; 0]);
    let token = started(&configuration, "token");
    assert_eq!(token.destination, web(&[("A", "b"), ("Authorization", "Bearer hunter2")]));
    assert!(definition(&configuration, "twice").unwrap_err().contains("Authorization is given twice"));
    let program = started(&configuration, "program");
    assert_eq!(program.destination, self::program(&[], &[]));
    let tools = definition(&configuration, "program").unwrap().tools;
    assert!(!tools.allows("rm") && tools.allows("ls"));
    let unused = warnings(&configuration, "program");
    assert!(unused.len() == 1 && unused[0].contains("bearerToken"), "{unused:?}");
}

#[test]
fn the_logins_of_mcporter_are_read() {
    let text = r#"{"mcpServers": {
        "login": {"url": "https://host/mcp", "oauthClientId": "me", "oauth_client_secret_env": "SET",
                  "oauthRedirectUrl": "http://localhost:4000/back", "oauthScope": "read write", "httpFetch": "node-http1"},
        "secret": {"url": "https://host/mcp", "oauth_client_id": "me", "oauthClientSecret": "$env:SET",
                   "headers": {"A": "$env:SET"}, "oauthTokenEndpointAuthMethod": "client_secret_post"},
        "twice": {"url": "https://host/mcp", "oauthClientId": "me", "oauth": {"clientId": "you"}},
        "refresh": {"url": "https://host/mcp", "auth": "refreshable_bearer", "refresh": {"tokenEndpoint": "https://host/token"}},
        "program": {"executable": "npx", "oauthScope": "read", "oauthCommand": {"args": ["auth"]}}}}"#;
    let configuration = read("mcporter.json", text).unwrap();
    let oauth = |name: &str| match started(&configuration, name).destination {
        Destination::Remote(Remote { oauth, .. }) => oauth,
        other => panic!("{other:?}"),
    };
    let login = oauth("login");
    assert_eq!(login.client_id.as_deref(), Some("me"));
    assert_eq!(login.client_secret.as_deref(), Some("set!"));
    assert_eq!(login.scopes, ["read", "write"]);
    assert_eq!(warnings(&configuration, "login"), [""; 0]);
    assert_eq!(oauth("secret").client_secret.as_deref(), Some("set!"));
    let unused = warnings(&configuration, "secret");
    assert!(unused.len() == 1 && unused[0].contains("decides how the client authenticates"), "{unused:?}");
    let twice = definition(&configuration, "twice").unwrap_err();
    assert!(twice.contains("clientId of oauth is given twice"), "{twice}");
    let unused = warnings(&configuration, "refresh");
    assert!(unused.len() == 1 && unused[0].contains("mcpjoin auth login"), "{unused:?}");
    assert_eq!(started(&configuration, "program").destination, program(&[], &[]));
    let unused = warnings(&configuration, "program");
    assert!(
        unused[0].contains("oauthScope") && unused[1].contains("that command of the server"),
        "{unused:?}"
    );
}

#[test]
fn r85_entries_of_vs_code_with_their_inputs() {
    for text in [VSCODE.to_owned(), format!("{{\"mcp\": {VSCODE}}}")] {
        let configuration = read("mcp.json", &text).unwrap();
        assert_eq!(configuration.dialect, Dialect::VsCodeJson);
        let problem = configuration.parsed.warnings.first().map(|problem| &*problem.text);
        assert_eq!(problem, Some("an input has no id"));
        assert_eq!(warnings(&configuration, "files").len(), 1);
        let lookup = |name: &str| match name {
            "SET" => Some("set!".into()),
            "MCPJOIN_INPUT_KEY" => Some("hunter2hunter2".into()),
            _ => None,
        };
        let names = configuration.names(lookup, PathBuf::from("/work"));
        let files = launch(&definition(&configuration, "files").unwrap(), &names).unwrap();
        let env = [("KEY", "hunter2hunter2"), ("SET", "set!")];
        assert_eq!(files.destination, program(&["-y", "pkg", "/work", "eu"], &env));
        assert!(files.secrets.contains(&"hunter2hunter2".into()));
        assert_eq!(started(&configuration, "web").destination, web(&[("X-Zone", "eu")]));
        let names = configuration.names(|_| None, PathBuf::from("/work"));
        let files = definition(&configuration, "files").unwrap();
        let refused = launch(&files, &names).map(|_| ()).unwrap_err();
        assert_eq!(
            (&*refused.text, &*refused.hint),
            ("the input key (The key) has no value: MCPJOIN_INPUT_KEY is not set", "set MCPJOIN_INPUT_KEY")
        );
    }
}

#[test]
fn r85_entries_of_opencode() {
    let configuration = read("opencode.json", OPENCODE).unwrap();
    assert_eq!(configuration.dialect, Dialect::OpencodeJson);
    let files = definition(&configuration, "files").unwrap();
    assert_eq!((files.opening, files.timeout), (Some(Duration::from_millis(1500)), None));
    assert!(files.disabled.is_some() && files.warnings.is_empty());
    assert_eq!(started(&configuration, "files").destination, program(&["-y", "pkg"], &[("SET", "set!")]));
    assert_eq!(started(&configuration, "web").destination, web(&[("A", "b")]));
    for (name, told) in [
        ("wrong", "opencode.json:8:23: type must be local or remote"),
        ("none", "opencode.json:9:42: command is empty"),
        ("text", "opencode.json:10:42: command must be a list of strings, but is a string"),
    ] {
        assert_eq!(definition(&configuration, name).unwrap_err(), told);
    }
}

#[test]
fn r85_entries_of_codex() {
    let configuration = read("config.toml", CODEX).unwrap();
    assert_eq!(configuration.dialect, Dialect::CodexToml);
    let files = definition(&configuration, "files").unwrap();
    let limits = (Some(Duration::from_millis(2500)), Some(Duration::from_secs(45)));
    assert_eq!((files.opening, files.timeout), limits);
    assert!(
        files.tools.allows("read_file") && !files.tools.allows("read_secret") && files.warnings.is_empty()
    );
    assert_eq!(started(&configuration, "files").destination, program(&["-y", "pkg"], &[("SET", "set!")]));
    let launch = started(&configuration, "the web");
    assert_eq!(launch.destination, web(&[("A", "b"), ("X-Set", "set!"), ("Authorization", "Bearer set!")]));
    assert!(launch.secrets.contains(&"set!".into()));
    assert!(definition(&configuration, "the web").unwrap().disabled.is_some());
    let told = "config.toml:21:24: this is not a valid name of a variable";
    assert_eq!(definition(&configuration, "wrong").unwrap_err(), told);
}

#[test]
fn f30_one_bad_entry_never_hides_the_others() {
    let text = r#"{"mcpServers":{
"no object": 7,
"no command": {},
"no text": {"command": 1},
"list": {"command": ["a", "b"]},
"empty": {"command": ""},
"both": {"command": "a", "url": "http://h"},
"kind": {"type": "carrier pigeon", "command": "a"},
"kind of a kind": {"type": 1, "command": "a"},
"address": {"url": "ftp://h"},
"no address": {"type": "sse"},
"args": {"command": "a", "args": "b"},
"arg": {"command": "a", "args": ["b", 1]},
"env": {"command": "a", "env": {"PORT": 8080}},
"envs": {"command": "a", "env": ["A=b"]},
"names": {"command": "a", "env": {"A=B": "c"}},
"twice": {"command": "a", "command": "b"},
"same": {"command": "a", "allowed_tools": [], "allowedTools": []},
"env twice": {"command": "a", "env": {"A": "b", "A": "c"}},
"pattern": {"command": "a", "disabled_tools": ["["]},
"patterns": {"command": "a", "allowed_tools": ["{a,b}"]},
"time": {"command": "a", "timeoutMs": 0},
"times": {"command": "a", "timeoutMs": 1e300},
"on": {"command": "a", "enabled": "yes"},
"cwd": {"command": "a", "cwd": 1},
"headers": {"url": "http://h", "headers": {"A": 1}},
"header": {"url": "http://h", "headers": {"A B": "c"}},
"header twice": {"url": "http://h", "headers": {"A-B": "c", "a-b": "d"}},
"transport": {"url": "SSE+http://h/sse"},
"good": {"command": "a", "args": null, "env": null}
}}"#;
    let configuration = read("a.json", text).unwrap();
    let good = definition(&configuration, "good").unwrap();
    assert!(good.transport == Transport::Stdio && good.warnings.is_empty());
    let told: Vec<String> = configuration
        .parsed
        .entries
        .iter()
        .filter(|entry| entry.name != "good")
        .map(|entry| definition(&configuration, &entry.name).unwrap_err())
        .collect();
    assert_eq!(
        told,
        [
            "a.json:2:14: an entry must be an object, but is a number",
            "a.json:3:15: needs either \"command\" or \"url\"",
            "a.json:4:24: command must be a string, but is a number; its arguments belong in args",
            "a.json:5:21: command must be a string, but is a list; its arguments belong in args",
            "a.json:6:22: command is empty",
            "a.json:7:26: both command and url are set: leave out one of them",
            "a.json:8:18: type must be stdio, http, sse, quic, tcp or unix",
            "a.json:9:28: type must be a string, but is a number",
            "a.json:10:20: url must begin with http://, https://, quic://, tcp:// or unix:",
            "a.json:11:15: needs \"url\"",
            "a.json:12:34: args must be a list of strings, but is a string",
            "a.json:13:39: each of args must be a string, but is a number",
            "a.json:14:41: env.PORT must be a string, but is a number",
            "a.json:15:33: env must be an object, but is a list",
            "a.json:16:35: env has an invalid name",
            "a.json:17:27: command is given twice",
            "a.json:18:47: allowed_tools and allowedTools are the same",
            "a.json:19:49: A is given twice",
            "a.json:20:48: this tool pattern is invalid: invalid range pattern",
            "a.json:21:48: this tool pattern is invalid: braces have no meaning in it: write a separate \
             pattern for each alternative",
            "a.json:22:39: timeoutMs must be at least 1 and at most one day",
            "a.json:23:40: timeoutMs must be a whole number",
            "a.json:24:35: enabled must be true or false, but is a string",
            "a.json:25:32: cwd must be a string, but is a number",
            "a.json:26:49: headers.A must be a string, but is a number",
            "a.json:27:43: headers has an invalid name",
            "a.json:28:61: a-b is given twice",
            "a.json:29:22: url must begin with http:// or https://; for HTTP+SSE set type to sse",
        ]
    );

    let text = "[[servers]]\nname = \"no transport\"\ncommand = \"a\"\n[[servers]]\nname = \"kind\"\n\
                transport = { type = \"x\" }\n[[servers]]\ntransport = {}\n[[servers]]\nname = 1\n\
                [[servers]]\nname = \"\"\n[[servers]]\nname = \"date\"\n\
                transport = { command = 2020-01-01 }\n[[servers]]\nname = \"good\"\n\
                transport = { command = \"a\" }\n";
    let configuration = read("a.toml", text).unwrap();
    assert_eq!(
        warnings(&configuration, "good"),
        [
            "a.toml:7:1: an entry has no name",
            "a.toml:10:8: name must be a string, but is a number",
            "a.toml:12:8: an entry has an empty name",
        ]
    );
    for (name, told) in [
        ("no transport", "a.toml:1:1: transport is missing: transport = { type = \"stdio\", command = ... }"),
        ("kind", "a.toml:6:22: type must be stdio, http, sse, quic, tcp or unix"),
        ("date", "a.toml:15:25: command must be a string, but is a date; its arguments belong in args"),
    ] {
        assert_eq!(definition(&configuration, name).unwrap_err(), told);
    }
}

#[test]
fn f30_what_belongs_to_the_other_way_to_come_by_a_server_is_reported_with_its_line() {
    let text = "{\"mcpServers\":{\n\"web\":{\"type\":\"http\",\"url\":\"http://h\",\n\"command\":\"a\",\n\
                \"args\":[\"b\"],\"env\":{},\n\"cwd\":\"/\"},\n\"bare\":{\"url\":\"http://h\",\n\
                \"env\":{\"A\":\"b\"}, \"args\": null},\n\"child\":{\"type\":\"stdio\",\"command\":\"a\",\n\
                \"url\":\"http://h\",\"headers\":{\"A\":\"b\"}}}}";
    let configuration = read("a.json", text).unwrap();
    let http = "is not used: the server is reached over HTTP";
    assert_eq!(
        warnings(&configuration, "web"),
        [
            format!("a.json:3:1: command {http}"),
            format!("a.json:4:1: args {http}"),
            format!("a.json:5:1: cwd {http}")
        ]
    );
    assert_eq!(warnings(&configuration, "bare"), [format!("a.json:7:1: env {http}")]);
    let child = "is not used: the server is started as a program";
    assert_eq!(
        warnings(&configuration, "child"),
        [format!("a.json:9:1: url {child}"), format!("a.json:9:18: headers {child}")]
    );
    let text = "[[servers]]\nname = \"a\"\n\
                transport = { type = \"http\", url = \"http://h\", env = { A = \"b\" } }\n";
    let configuration = read("a.toml", text).unwrap();
    assert_eq!(warnings(&configuration, "a"), [format!("a.toml:3:48: env {http}")]);
}

#[test]
fn f30_what_is_not_known_is_reported_with_its_line() {
    let text = "{\"mcpServers\":{\n\"a\":{\"command\":\"a\",\n\"commnad\":1,\n\"timeout\":3,\n\"zzz\":1}}}";
    let configuration = read("a.json", text).unwrap();
    assert_eq!(
        warnings(&configuration, "a"),
        [
            "a.json:3:1: commnad is unknown and not used; did you mean command?",
            "a.json:4:1: timeout is not used, because its unit differs between programs: use --timeout, or timeoutMs in a file \
             that only mcpjoin reads",
            "a.json:5:1: zzz is unknown and not used",
        ]
    );
    let text = "concurency_limit = 3\ntimeout_secs = 0\nretry_max = \"x\"\n[[servers]]\nname = \"a\"\n\
                transport = { command = \"a\", shell = true }\ndaemon_ttl = 60\nallowed_tool = []\n";
    let configuration = read("a.toml", text).unwrap();
    assert_eq!(
        warnings(&configuration, "a"),
        [
            "a.toml:2:16: timeout_secs must be at least 1 and at most one day",
            "a.toml:3:13: retry_max must be a number, but is a string",
            "a.toml:1:1: concurency_limit is unknown and not used; did you mean concurrency_limit?",
            "a.toml:6:30: shell is unknown and not used",
            "a.toml:7:1: daemon_ttl is unknown and not used: it belongs above the first [[servers]]",
            "a.toml:8:1: allowed_tool is unknown and not used; did you mean allowed_tools?",
        ]
    );
    for limit in ["0", "65", "-1", "99999999999999999999"] {
        let text = format!(
            "concurrency_limit = {limit}\n[[servers]]\nname = \"a\"\ntransport = {{ command = \"a\" }}\n"
        );
        let told = warnings(&read("a.toml", &text).unwrap(), "a");
        assert!(told[0].starts_with("a.toml:1:21: concurrency_limit must be"), "{told:?}");
    }
    let text = "timeout_secs = \"x\"\n[[servers]]\nname = \"a\"\ntransport = { command = \"a\" }\n";
    let told = warnings(&read("a.toml", text).unwrap(), "a");
    assert_eq!(told, ["a.toml:1:16: timeout_secs must be a number, but is a string"]);
}

#[test]
fn i172_a_file_that_cannot_be_used_says_where() {
    let deep = format!("{{\"mcpServers\":{}", "[".repeat(5_000_000));
    let deep_toml = format!("servers = {}", "[".repeat(100_000));
    for (name, text, told) in [
        ("a.json", "", "a.json:1:1: this must be an object with mcpServers"),
        ("a.json", "[]", "a.json:1:1: this must be an object with mcpServers"),
        ("a.json", "{}", "a.json:1:1: no \"mcpServers\" key"),
        ("a.json", "{\n\"servers\": 1}", "a.json:2:12: servers must be an object of names and entries"),
        (
            "a.json",
            "{\n\"mcpserver\": {}}",
            "a.json:2:1: no \"mcpServers\" key; did you mean \"mcpServers\" instead of \"mcpserver\"?",
        ),
        ("a.json", "{\"mcpServers\": []}", "a.json:1:16: mcpServers must be an object of names and entries"),
        ("a.json", "{\"mcpServers\": {},\n \"mcpServers\": {}}", "a.json:2:2: mcpServers is given twice"),
        ("a.json", "{\r\n  \"mcpServers\": {\r\n    \"a\": }}", "a.json:3:10: invalid JSON: "),
        ("a.json", "{\"mcpServers\": {\"a\": {\"command\": \"\\u12\"}}}", "a.json:1:35: invalid JSON: "),
        ("a.json", &deep, "a.json:1:"),
        ("a.toml", "", "a.toml:1:1: there is no [[servers]] and no [mcp_servers.NAME]"),
        ("a.toml", "servers = 1", "a.toml:1:1: servers must be an array of tables: [[servers]]"),
        ("a.toml", "mcp_servers = 1", "a.toml:1:15: mcp_servers must be an object, but is a number"),
        ("a.toml", "[[servers]]\nname = \n", "a.toml:2:8: invalid TOML: "),
        ("a.toml", "[[servers]]\nname = \"a\"\nname = \"b\"\n", "a.toml:3:1: invalid TOML: duplicate key"),
        ("a.toml", &deep_toml, "a.toml:1:"),
    ] {
        let error = read(name, text).map(|_| ()).unwrap_err();
        assert!(error.starts_with(told), "{error} is not {told}");
        assert!(error.len() < 300, "{error}");
    }
}

#[test]
fn i172_no_damage_to_a_file_panics_or_shows_a_value() {
    for (name, text) in
        [("a.json", JSON), ("a.toml", TOML), ("b.json", VSCODE), ("c.json", OPENCODE), ("b.toml", CODEX)]
    {
        let bytes = text.as_bytes();
        let damaged = (0..bytes.len()).flat_map(|at| {
            let with = |byte: u8| [&bytes[..at], &[byte], &bytes[at + 1..]].concat();
            [
                bytes[..at].to_vec(),
                [&bytes[..at], &bytes[at + 1..]].concat(),
                with(b'"'),
                with(b'}'),
                with(b'7'),
            ]
        });
        for damaged in damaged {
            let damaged = String::from_utf8(damaged).unwrap();
            let told = match read(name, &damaged) {
                Err(told) => vec![told],
                Ok(configuration) => {
                    let mut told: Vec<String> = configuration
                        .parsed
                        .entries
                        .iter()
                        .filter_map(|entry| definition(&configuration, &entry.name).err())
                        .collect();
                    told.extend(configuration.parsed.warnings.iter().map(|at| configuration.source.say(at)));
                    told
                }
            };
            for told in told {
                // Only the whole value is checked: the damage may leave a part of a secret.
                assert!(!told.contains("hunter2hunter2"), "{told}\n{damaged}");
            }
        }
    }
}

/// Members that only mcpjoin defines, named like its options.
const LISTENING: &str = r#"{"mcpServers": {
"quic": {"url": "QUIC://${SET}:1", "pin": "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
  "cert": "c.pem", "key": "/k.pem", "disabledTools": ["x"]},
"signed": {"type": "quic", "url": "${ADDRESS:-quic://[::1]:2}", "ca": "~/ca.pem"},
"tcp": {"type": "remote", "url": "tcp://localhost:3"},
"unix": {"transport": "unix", "url": "unix:/run/x.sock"},
"https": {"url": "https://host/mcp", "ca": "${SET}.pem"},
"both": {"url": "quic://h:1", "pin": "sha256:x",
  "ca": "y"},
"half": {"url": "quic://h:1", "ca": "y",
  "key": "z"},
"hash": {"url": "quic://h:1",
  "pin": "sha256:hunter2"},
"path": {"url": "quic://h:1/hunter2", "ca": "y"},
"user": {"url": "tcp://hunter2@h:1"},
"other": {"type": "quic", "url": "tcp://h:1"},
"over": {"type": "http", "url": "quic://h:1"},
"unused": {"url": "tcp://h:1",
  "pin": "sha256:x", "headers": {"A": "b"},
  "args": ["c"]},
"no side": {"url": "http://h",
  "pin": "sha256:x", "key": "k"}
}}"#;

#[test]
fn r85_entries_of_servers_that_listen_without_http() {
    let configuration = read("/etc/x/a.json", LISTENING).unwrap();
    let to = |name: &str| started(&configuration, name).destination;
    let mut pin = [0; 32];
    let digits = (0..32_u8).map(|place| (place % 16) * 0x11);
    pin.iter_mut().zip(digits).for_each(|(byte, digit)| *byte = digit);
    let quic = |address: &str| Quic::parse(&format!("quic://{address}")).unwrap();
    assert_eq!(
        to("quic"),
        Destination::Quic(Secured {
            address: quic("set!:1"),
            pin: Some(Pin(pin)),
            ca: None,
            identity: Some(("/work/c.pem".into(), "/k.pem".into())),
        })
    );
    assert!(!definition(&configuration, "quic").unwrap().tools.allows("x"));
    // The test has no home, so `~` is an ordinary name.
    let ca = Some("/work/~/ca.pem".into());
    assert_eq!(
        to("signed"),
        Destination::Quic(Secured { address: quic("[::1]:2"), pin: None, ca, identity: None })
    );
    assert_eq!(to("tcp"), Destination::Socket(Socket::Tcp("localhost:3".into())));
    assert_eq!(to("unix"), Destination::Socket(Socket::Unix("/run/x.sock".into())));
    let Destination::Remote(Remote { ca, .. }) = to("https") else { panic!("it is reached over HTTP") };
    assert_eq!(ca, Some("/work/set!.pem".into()));
    for (name, told) in [
        ("both", "9:3: both pin and ca are set: leave out one of them"),
        ("half", "11:3: cert and key belong together, and one of them is missing"),
        ("other", "16:34: url must begin with quic://"),
        ("over", "17:33: url must begin with http:// or https://"),
    ] {
        assert_eq!(definition(&configuration, name).unwrap_err(), format!("/etc/x/a.json:{told}"));
    }
    for (name, told) in [
        ("hash", "13:10: pin: write sha256: and 64 hexadecimal digits"),
        ("path", "14:17: url is invalid: write quic://host:port"),
        ("user", "15:17: url is invalid: write tcp://host:port"),
    ] {
        let names = configuration.names(|_| None, PathBuf::from("/work"));
        let problem = launch(&definition(&configuration, name).unwrap(), &names).map(|_| ()).unwrap_err();
        let said = configuration.source.say(&problem);
        assert!(said.starts_with(&format!("/etc/x/a.json:{told}")) && !said.contains("hunter2"), "{said}");
    }
    let told = |name: &str| -> Vec<String> {
        let prefix = "/etc/x/a.json:";
        warnings(&configuration, name).iter().map(|it| it.strip_prefix(prefix).unwrap().to_owned()).collect()
    };
    let socket = "is not used: the server is reached over a socket";
    let expected =
        [format!("20:3: args {socket}"), format!("19:22: headers {socket}"), format!("19:3: pin {socket}")];
    assert_eq!(told("unused"), expected);
    let http = "is not used: the server is reached over HTTP";
    assert_eq!(told("no side"), [format!("22:3: pin {http}"), format!("22:22: key {http}")]);
    let text =
        "[[servers]]\nname = \"q\"\ntransport = { type = \"quic\", url = \"quic://h:1\", ca = \"c\" }\n";
    let configuration = read("a.toml", text).unwrap();
    assert!(warnings(&configuration, "q").is_empty());
    assert_eq!(definition(&configuration, "q").unwrap().transport, Transport::Quic);
}

#[test]
fn r85_variables_of_a_file_and_of_ours_reach_a_child() {
    let folder = std::env::temp_dir().join(format!("mcpjoin-env-file-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(".env"), "KEY=hunter2hunter2\nOTHER=of the file\n").unwrap();
    let text = "{\"servers\": {\"a\": {\"command\": \"npx\", \"envFile\": \"${workspaceFolder}/.env\", \
                \"env\": {\"OTHER\": \"own\"}},\n\"gone\": {\"command\": \"npx\",\n\"envFile\": \"no.env\"},\n\
                \"none\": {\"command\": \"npx\", \"envFile\": \"\"}}}";
    let configuration = read("mcp.json", text).unwrap();
    let launched = |name: &str| {
        let names = configuration.names(|_| None, folder.clone());
        launch(&definition(&configuration, name).unwrap(), &names)
            .map_err(|problem| configuration.source.say(&problem))
    };
    let launched_a = launched("a").unwrap();
    assert_eq!(launched_a.destination, program(&[], &[("KEY", "hunter2hunter2"), ("OTHER", "own")]));
    assert!(launched_a.secrets.contains(&"hunter2hunter2".into()));
    assert!(
        launched_a.say.ends_with(", with the variables of '${workspaceFolder}/.env'"),
        "{}",
        launched_a.say
    );
    let refused = launched("gone").map(|_| ()).unwrap_err();
    assert!(
        refused.starts_with("mcp.json:3:12: the file of variables cannot be used: ")
            && refused.contains("no.env: No such file"),
        "{refused}"
    );
    assert_eq!(definition(&configuration, "none").unwrap_err(), "mcp.json:4:39: envFile is empty");
    std::fs::write(folder.join(".env"), "KEY=hunter2hunter2\n\nhunter2hunter2\n").unwrap();
    let refused = launched("a").map(|_| ()).unwrap_err();
    assert!(refused.ends_with(".env:3: this is not NAME=value"), "{refused}");
    std::fs::remove_dir_all(folder).unwrap();

    let text = "[mcp_servers.a]\ncommand = \"npx\"\nenv_vars = [\"SET\", \"UNSET\", { name = \"SET\", source = \
                \"remote\" }, \"OTHER\"]\nenv = { OTHER = \"own\" }\n[mcp_servers.b]\ncommand = \"npx\"\n\
                env_vars = [\"a b\"]\n[mcp_servers.c]\ncommand = \"npx\"\nenv_vars = [{ source = \"local\" }]\n";
    let configuration = read("config.toml", text).unwrap();
    let launch = started(&configuration, "a");
    assert_eq!(launch.destination, program(&[], &[("SET", "set!"), ("OTHER", "own")]));
    assert!(launch.secrets.contains(&"set!".into()));
    let told = "config.toml:7:13: this is not a valid name of a variable";
    assert_eq!(definition(&configuration, "b").unwrap_err(), told);
    let told = "config.toml:10:13: each of env_vars must have a name";
    assert_eq!(definition(&configuration, "c").unwrap_err(), told);
}

#[test]
fn a_name_that_nobody_would_read_is_cut_and_its_length_shown() {
    let long = "x".repeat(10_000);
    assert_eq!(called("a b"), "'a b'");
    assert_eq!(called(&long), format!("{}… (10000 characters)", "x".repeat(100)));
    let text = format!(
        r#"{{"mcpServers": {{"{long}": {{"command": "a", "{long}": 1, "env": {{"{long}": 7}}}}, "b": {{"{long}": 1, "{long}": 2, "command": 7}}}}}}"#
    );
    let configuration = read("a.json", &text).unwrap();
    for name in [&*long, "b"] {
        let told = definition(&configuration, name).unwrap_err();
        assert!(told.len() < 300, "{told}");
    }
    // Control characters in a file of another user are escaped.
    let text = "{\"mcpServers\": {\"a\": {\"command\": \"a\", \"\\u001b[2J\": 1}}}";
    let told = warnings(&read("a.json", text).unwrap(), "a");
    assert_eq!(told, ["a.json:1:39: '\\u{1b}[2J' is unknown and not used"]);
}

#[test]
fn how_a_server_is_logged_in_to_is_read_in_every_dialect() {
    let login = |text: &str, name: &str| {
        let configuration = read(if text.starts_with('{') { "x.json" } else { "x.toml" }, text).unwrap();
        let Destination::Remote(Remote { oauth, .. }) = started(&configuration, name).destination else {
            panic!("{name}")
        };
        (oauth, warnings(&configuration, name).len())
    };
    let full = Oauth {
        client_id: Some("me".into()),
        client_secret: Some("hunter2".into()),
        callback: Some(Callback { by_name: true, port: Some(8085), path: None }),
        scopes: vec!["a".into(), "b".into()],
        off: false,
    };
    let table = r#"{"clientId": "me", "clientSecret": "hunter2", "callbackPort": 8085, "scopes": "a b"}"#;
    let claude = format!(r#"{{"mcpServers": {{"x": {{"url": "https://h/m", "oauth": {table}}}}}}}"#);
    assert_eq!(login(&claude, "x"), (full.clone(), 0));
    let code = r#"{"servers": {"x": {"type": "http", "url": "https://h/m", "oauth": {"clientId": "me"}}}}"#;
    let id = Oauth { client_id: Some("me".into()), ..Oauth::default() };
    assert_eq!(login(code, "x"), (id.clone(), 0));
    let opencode = r#"{"mcp": {
        "x": {"type": "remote", "url": "https://h/m", "oauth": {"clientId": "me", "scope": "a b"}},
        "off": {"type": "remote", "url": "https://h/m", "oauth": false},
        "any": {"type": "remote", "url": "https://h/m", "oauth": {}}}}"#;
    assert_eq!(login(opencode, "x"), (Oauth { scopes: full.scopes.clone(), ..id }, 0));
    assert_eq!(login(opencode, "off"), (Oauth { off: true, ..Oauth::default() }, 0));
    assert_eq!(login(opencode, "any"), (Oauth::default(), 0));
    let codex = "[mcp_servers.x]\nurl = \"https://h/m\"\nscopes = [\"a\", \"b\"]\noauth_resource = \"r\"\n\
                 oauth = { client_id = \"me\", callback_port = 8085 }\n";
    let callback = Some(Callback { by_name: false, port: Some(8085), path: None });
    assert_eq!(login(codex, "x"), (Oauth { client_secret: None, callback, ..full.clone() }, 0));
    let whole = codex.replace("callback_port", "callback_url = \"http://localhost/cb/x\", callback_port");
    let callback = Some(Callback { by_name: true, port: Some(8085), path: Some("/cb/x".into()) });
    assert_eq!(login(&whole, "x"), (Oauth { client_secret: None, callback, ..full.clone() }, 0));
    // What cannot be converted is reported, and a name without an entry is refused.
    let other = claude.replace("\"scopes\"", "\"authServerMetadataUrl\": \"https://h/\", \"scope\"");
    assert_eq!(login(&other, "x"), (full, 1));
    for wrong in ["0", "70000", "\"8085\""] {
        let problem = definition(&read("x.json", &claude.replace("8085", wrong)).unwrap(), "x").unwrap_err();
        assert!(problem.contains("oauth.callbackPort"), "{problem}");
    }
}

#[test]
fn what_was_surveyed_is_what_is_used() {
    let file = std::env::temp_dir().join(format!("mcpjoin-surveyed-{}.json", std::process::id()));
    let write = |name: &str| {
        std::fs::write(&file, format!(r#"{{"mcpServers": {{"{name}": {{"command": "x"}}}}}}"#)).unwrap();
    };
    write("before");
    let configured = Configured { config: Some(file.clone()), ..Configured::default() };
    let surveyed = super::survey(&configured).unwrap();
    write("after");
    let used = super::read(&Ui::plain(), None, &configured).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(surveyed[0].entries[0].name, "before");
    assert_eq!(used.configurations().next().unwrap().parsed.entries[0].name, "before");
}

/// Gemini CLI and Copilot CLI have their own settings for allowed tools: a tool that they exclude must not be callable here.
#[test]
fn the_filters_of_other_programs_bind() {
    let text = r#"{"mcpServers": {
        "gemini": {"command": "x", "includeTools": ["safe", "read"], "excludeTools": ["read"], "trust": true},
        "copilot": {"command": "x", "tools": ["a", "b*"]},
        "none": {"command": "x", "tools": []},
        "all": {"command": "x", "tools": ["*"], "alwaysAllow": ["a"], "autoApprove": [], "watchPaths": ["/a"]},
        "odd": {"command": "x", "tools": {"a": true}},
        "google": {"command": "x", "authProviderType": "y"}},
        "mcp": {"allowed": ["all"], "excluded": []}}"#;
    let configuration = read("settings.json", text).unwrap();
    let allows = |name, tool| definition(&configuration, name).unwrap().tools.allows(tool);
    assert!(allows("gemini", "safe") && !allows("gemini", "read") && !allows("gemini", "other"));
    assert!(allows("copilot", "a") && allows("copilot", "bee") && !allows("copilot", "c"));
    assert!(allows("all", "anything") && !allows("none", "anything"));
    for name in ["gemini", "copilot", "none", "all"] {
        assert_eq!(warnings(&configuration, name), Vec::<String>::new(), "{name}");
    }
    assert_eq!(
        warnings(&configuration, "odd"),
        ["settings.json:6:33: tools is not used: it is not a list of names"]
    );
    assert_eq!(
        warnings(&configuration, "google"),
        ["settings.json:7:36: authProviderType is unknown and not used"]
    );
}

/// A text that looks like a variable but is passed on unchanged is reported, and not quoted, since a secret can begin like that.
#[test]
fn a_variable_without_braces_is_warned_about() {
    let text = r#"{"mcpServers": {
        "gemini": {"command": "x", "args": ["$HOME/x"], "env": {"A": "$DB_URL", "B": "pa$$w0rd", "C": "${SET}", "D": "$5"}},
        "web": {"url": "https://host/$TENANT/mcp", "headers": {"Authorization": "Bearer $TOKEN"}}}}"#;
    let configuration = read("settings.json", text).unwrap();
    let said = "a $NAME in it is passed on unchanged: ${NAME} is replaced by the variable";
    assert_eq!(warnings(&configuration, "gemini"), [format!("settings.json:2:70: {said}")]);
    assert_eq!(
        warnings(&configuration, "web"),
        [format!("settings.json:3:24: {said}"), format!("settings.json:3:81: {said}")]
    );
}

#[test]
fn zed_writes_the_program_as_an_object_and_leaves_extensions_to_itself() {
    let text = r#"{"context_servers": {
        "old": {"source": "custom", "command": {"path": "prog", "args": ["a"], "env": {"K": "v"}}},
        "new": {"command": "prog", "args": [], "env": {}},
        "extension": {"source": "extension", "enabled": true, "settings": {"key": "x"}},
        "bad": {"command": {"program": "x"}}}}"#;
    let configuration = read("settings.json", text).unwrap();
    let Destination::Program(program) = started(&configuration, "old").destination else {
        panic!("a program")
    };
    assert_eq!(program.program, OsString::from("prog"));
    assert_eq!(program.args, [OsString::from("a")]);
    assert_eq!(definition(&configuration, "new").unwrap().warnings, []);
    let names: Vec<_> = configuration.parsed.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["old", "new", "bad"]);
    assert_eq!(
        warnings(&configuration, "old"),
        ["settings.json:4:9: extension is skipped: a Zed extension starts it"]
    );
    assert_eq!(
        definition(&configuration, "bad").unwrap_err(),
        "settings.json:5:28: command must be a string, or an object with path"
    );
}

/// `claude mcp add` writes to the entries of the folder by default.
#[test]
fn what_claude_code_keeps_for_this_folder_comes_before_what_it_keeps_for_all() {
    let here = std::env::current_dir().unwrap().join("x");
    let here = here.parent().unwrap().to_str().unwrap();
    let text = format!(
        r#"{{"mcpServers": {{"both": {{"command": "user"}}, "user": {{"command": "x"}}}},
        "projects": {{
            "/elsewhere": {{"mcpServers": {{"other": {{"command": "x"}}}}}},
            "{here}": {{"mcpServers": {{"both": {{"command": "local"}}, "local": {{"command": "x"}}}}}}
        }}}}"#
    );
    let configuration = read(".claude.json", &text).unwrap();
    let names: Vec<_> = configuration.parsed.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["both", "local", "user"]);
    let Destination::Program(program) = started(&configuration, "both").destination else {
        panic!("a program")
    };
    assert_eq!(program.program, OsString::from("local"));
    assert_eq!(
        warnings(&configuration, "user"),
        [".claude.json:1:17: both is ignored, because this folder has an entry of that name in line 4"]
    );
    let alone = format!(r#"{{"projects": {{"{here}": {{"mcpServers": {{"a": {{"command": "x"}}}}}}}}}}"#);
    assert_eq!(read(".claude.json", &alone).unwrap().parsed.entries.len(), 1);
    assert!(read(".claude.json", r#"{"projects": {"/elsewhere": {}}}"#).is_err());
}

#[test]
fn yaml_is_called_what_it_is() {
    for name in ["continue.yaml", "goose.yml"] {
        assert_eq!(
            read(name, "mcpServers:\n  - name: x\n").unwrap_err(),
            format!("{name}:1:1: YAML is not supported: use JSON or TOML")
        );
    }
}
