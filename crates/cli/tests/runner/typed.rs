//! Tests of commands as people type them first: each works, or is answered with the command that does.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use super::config::Folder;
use super::sockets::Demo;
use super::support::{Ran, program, start};
use super::terminal::{remaining, seen};

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");

/// What comes of a command.
enum Outcome {
    /// It works, and its output has this text.
    Prints(&'static str),
    /// It is refused with this line to type.
    Try(&'static str),
    /// It is refused with this text, which says what to type.
    Says(&'static str),
}

use Outcome::{Prints, Says, Try};

/// A server with the tool `read`, which returns its arguments.
const FILES: &str = r#"#!/usr/bin/env python3
import json, sys
SCHEMA = {"type": "object", "properties": {
    "paths": {"type": "array", "items": {"type": "string"}},
    "count": {"type": "integer", "minimum": 1, "maximum": 10},
    "mode": {"enum": ["line", "byte"]}}, "required": ["paths"], "additionalProperties": False}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        reply["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                           "serverInfo": {"name": "files", "version": "1"}}
    elif message["method"] == "tools/list":
        reply["result"] = {"tools": [{"name": "read", "inputSchema": SCHEMA}]}
    elif message["method"] == "tools/call":
        text = json.dumps(message["params"]["arguments"])
        reply["result"] = {"content": [{"type": "text", "text": text}]}
    else:
        reply["error"] = {"code": -32601, "message": "unknown method"}
    print(json.dumps(reply), flush=True)
"#;

/// Programs on PATH that serve the demonstration server, whatever their arguments are.
fn programs(folder: &Folder) -> PathBuf {
    let mut bin = PathBuf::new();
    let demo = format!("#!/bin/sh\nexec {BINARY} serve demo\n");
    for (name, script) in
        [("mcp-server-everything", &*demo), ("npx", &demo), ("uvx", &demo), ("files", FILES)]
    {
        let file = folder.file(&format!("../bin/{name}"), script);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        bin = file.parent().unwrap().to_owned();
    }
    bin
}

fn path(bin: &std::path::Path) -> String {
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

/// What is typed, and what comes of it. `HOST:PORT` stands for the address of a server.
type Row = (&'static [&'static str], Outcome);

/// The command before its operands, and other ways to name a server.
const A3: &[Row] = &[
    // A program on PATH is a target of every verb.
    (&["call", "mcp-server-everything", "echo", "message=hi"], Prints("hi")),
    (&["tool", "mcp-server-everything", "echo"], Prints("message")),
    (&["read", "mcp-server-everything", "demo://about"], Prints("built into mcpjoin")),
    (&["prompt", "mcp-server-everything", "translate", "text=Hello"], Prints("user")),
    (&["list", "mcp-server-everything"], Prints("echo")),
    (
        &["call", "mcp-server-everything", "/tmp", "echo", "message=hi"],
        Try("mcpjoin call echo message=hi -- mcp-server-everything /tmp"),
    ),
    // A launcher before the operands.
    (
        &["call", "npx", "-y", "@a/b", "echo", "message=hi"],
        Try("mcpjoin call echo message=hi -- npx -y @a/b"),
    ),
    (&["call", "echo", "message=hi", "--", "npx", "-y", "@a/b"], Prints("hi")),
    (
        &["call", "npx", "@a/b", "echo", "message=hi", "-v"],
        Try("mcpjoin call -v echo message=hi -- npx @a/b"),
    ),
    (&["tool", "uvx", "some-server", "echo"], Try("mcpjoin tool echo -- uvx some-server")),
    (
        &["read", "npx", "-y", "@a/b", "test://static-text"],
        Try("mcpjoin read test://static-text -- npx -y @a/b"),
    ),
    (&["list", "npx", "-y", "@a/b"], Prints("echo")),
    // A command line in one word.
    (&["list", "npx -y @a/b"], Prints("echo")),
    (&["call", "npx -y @a/b", "echo", "message=hi"], Prints("hi")),
    (&["call", "echo", "message=hi", "--", "npx -y @a/b"], Prints("hi")),
    (&["list", "npx -y @a/b", "-q"], Prints("echo")),
    (&["list", "cat x | npx y"], Try("mcpjoin list -- sh -c 'cat x | npx y'")),
    (&["list", "KEY=1 npx y"], Try("mcpjoin list -e KEY=VALUE -- npx y")),
    // A package, an address, a URL without a path.
    (&["list", "@a/b"], Try("mcpjoin list npx -y @a/b")),
    (&["call", "@a/b", "echo", "message=hi"], Try("mcpjoin call echo message=hi -- npx -y @a/b")),
    (&["list", "HOST:PORT/mcp"], Prints("echo")),
    (&["call", "HOST:PORT/mcp", "echo", "message=hi"], Prints("hi")),
    (&["call", "HOST:PORT", "echo", "message=hi"], Prints("hi")),
    (&["call", "http://HOST:PORT", "echo", "message=hi"], Prints("hi")),
    (&["ping", "http://HOST:PORT/"], Prints("ms")),
];

const A4: &[Row] = &[
    // Options after a target without arguments, and before the verb.
    (&["list", "demo:", "--json"], Prints("\"serverInfo\"")),
    (&["-v", "list", "demo:", "--json"], Prints("\"serverInfo\"")),
    (&["ping", "http://HOST:PORT/mcp", "--connect-timeout", "20s"], Prints("ms")),
    (&["info", "mem", "--json"], Prints("\"serverInfo\"")),
    (&["list", ".mcp.json#mem", "-q"], Prints("echo")),
    (&["list", "our server", "-q"], Prints("echo")),
    (&["--json", "call", "demo:", "echo", "message=hi"], Prints("\"content\"")),
];

/// Arguments of the tool `read` of `files`, and of others.
const B17: &[Row] = &[
    // A list: one word, a word for each item, and JSON.
    (&["call", "files", "read", "paths=a"], Prints(r#"{"paths": ["a"]}"#)),
    (&["call", "files", "read", "paths=a", "paths=b"], Prints(r#"{"paths": ["a", "b"]}"#)),
    (&["call", "files", "read", r#"paths:=["a"]"#], Prints(r#"{"paths": ["a"]}"#)),
    (&["call", "demo:", "echo", "message=a", "message=b"], Says("`message` is given twice")),
    // The whole object.
    (&["call", "files", "read", r#"{"paths":["a"]}"#], Prints(r#"{"paths": ["a"]}"#)),
    // Names, types, values and bounds that the schema has.
    (&["call", "files", "read", "paths=a", "cuont=1"], Says("did you mean `count`?")),
    (&["call", "files", "read", "paths=a", "count=x"], Says("`count` must be an integer, got \"x\"")),
    (&["call", "files", "read", "count=1"], Says("`paths` is required")),
    (&["call", "files", "read", "paths=a", "count=11"], Says("`count` must be at most 10, got 11")),
    (&["call", "files", "read", "paths=a", "mode=lines"], Says("did you mean \"line\"?")),
    (
        &["call", "files", "read", "count=1"],
        Try("--force sends the call anyway; see the parameters: mcpjoin tool files read"),
    ),
    (&["call", "--force", "files", "read", "count=1"], Prints(r#"{"count": 1}"#)),
    // The content of a file.
    (&["call", "demo:", "echo", "message=@a.txt"], Prints("the content of a file")),
    (&["call", "demo:", "echo", "message=@b.txt"], Says("for the text @b.txt write message=@@b.txt")),
    // The spellings of other programs.
    (&["call", "demo:", "add", "a:1", "b:2"], Says("write a=1")),
    (&["call", "demo:", "echo", "hi"], Says("write hi=VALUE")),
    (&["call", "demo:", "add", "--a", "1", "--b", "2"], Try("mcpjoin call demo: add a=1 b=2")),
    (&["call", "demo:", "add(a: 1, b: 2)"], Try("mcpjoin call demo: add a=1 b=2")),
    // A result that is a resource.
    (&["call", "demo:full", "test_embedded_resource"], Prints("This is an embedded resource content.")),
];

const MORE: &[Row] = &[
    // An entry and its tool.
    (&["call", "mem/echo", "message=hi"], Prints("hi")),
    (&["call", "mem.echo", "message=hi"], Prints("hi")),
    (&["tool", "mem.echo"], Prints("mcpjoin call mem echo message=")),
    (&["call", ".mcp.json#mem.echo", "message=hi"], Try("did you mean .mcp.json#mem/echo?")),
    (&["call", "echo", "message=hi"], Try("mcpjoin call echo message=hi -- COMMAND [ARG]...")),
    (&["read", "test://static-text"], Try("mcpjoin read TARGET test://static-text")),
    (&["list", "memm"], Try("did you mean mem?")),
    // Verbs and options of other programs.
    (&["tools", "demo:"], Try("mcpjoin list demo:")),
    (&["tools", "call", "demo:", "echo", "message=hi"], Try("mcpjoin call demo: echo message=hi")),
    (&["ls"], Try("mcpjoin list")),
    (&["inspect", "demo:"], Try("mcpjoin info demo:")),
    (&["run", "demo:", "echo"], Try("mcpjoin call demo: echo")),
    (&["npx", "-y", "@a/b"], Try("mcpjoin list npx -y @a/b")),
    (&["mem"], Try("mcpjoin list mem")),
    (&["demo:"], Try("mcpjoin list demo:")),
    (
        &["call", "--stdio", "npx -y @a/b", "echo", "message=hi"],
        Try("mcpjoin call echo message=hi -- npx -y @a/b"),
    ),
    (&["list", "--url", "http://h/mcp"], Try("mcpjoin list http://h/mcp")),
    (&["help", "tools"], Try("mcpjoin help list")),
    // Addresses to listen at.
    (&["serve", "demo", "--listen", "9402"], Try("--listen http://localhost:9402/mcp")),
    (&["bridge", "demo:", "--listen", "localhost:9402"], Try("--listen http://localhost:9402/mcp")),
    (&["serve", "demo", "--port", "9402"], Try("mcpjoin serve --listen http://localhost:9402/mcp demo")),
    // The configuration.
    (&["add", "x", "http://h/mcp"], Try("mcpjoin servers add x http://h/mcp")),
    (&["servers", "add", "x", "npx", "-y", "@a/b"], Try("mcpjoin servers add x -- npx -y @a/b")),
    (&["servers", "convert", "--to", "claude"], Prints("mcpServers")),
    (&["servers", "convert", "--to", "zed"], Prints("context_servers")),
];

/// What a stranger types: words in another order, other verbs and options, addresses that are not complete.
const STRANGER: &[Row] = &[
    // The target before the verb, and a call without a verb.
    (&["mem", "list"], Try("mcpjoin list mem")),
    (&["demo:", "call", "echo", "message=hi"], Try("mcpjoin call demo: echo message=hi")),
    (&["http://h/mcp", "tools"], Try("mcpjoin list http://h/mcp")),
    (&["mem", "echo", "message=hi"], Try("mcpjoin call mem echo message=hi")),
    (&["uvx", "some-server", "list"], Try("mcpjoin list uvx some-server")),
    (
        &["npx", "-y", "@a/b@1.2.3", "call", "echo", "message=hi"],
        Try("mcpjoin call echo message=hi -- npx -y @a/b@1.2.3"),
    ),
    (&["docker", "run", "-i", "--rm", "mcp/time"], Try("mcpjoin list docker run -i --rm mcp/time")),
    (&["version"], Try("mcpjoin --version")),
    (&["chat", "demo:"], Try("mcpjoin shell demo:")),
    (&["describe", "mem"], Try("mcpjoin info mem")),
    (&["describe", "mem", "echo"], Try("mcpjoin tool mem echo")),
    // Dashes before the arguments of the tool.
    (&["call", "mem", "echo", "--", "message=hi"], Try("mcpjoin call mem echo message=hi")),
    (&["call", "mem", "add", "2", "40"], Says("`2` has no name; write NAME=2")),
    // What is missing is named with the command that lists it.
    (&["tool", "mem"], Try("see the tools: mcpjoin list mem")),
    (&["read", "mem"], Try("see the resources: mcpjoin list mem")),
    (&["prompt", "mem"], Try("see the prompts: mcpjoin list mem")),
    (&["list", "mem/echo"], Try("mcpjoin tool mem/echo")),
    (&["serve"], Try("mcpjoin serve demo")),
    // The configuration.
    (&["servers", "list"], Try("mcpjoin servers")),
    (&["servers", "show", "mem"], Try("mcpjoin servers mem")),
    (&["list", "--all"], Try("mcpjoin list")),
    (&["list", ".mcp.json"], Says("for a configuration use --config FILE")),
    // Addresses.
    (&["list", "http:/HOST:PORT/mcp"], Try("mcpjoin list http://HOST:PORT/mcp")),
    (&["list", "htp://HOST:PORT/mcp"], Try("mcpjoin list http://HOST:PORT/mcp")),
    (&["call", "ws://h/mcp", "echo"], Try("mcpjoin call http://h/mcp echo")),
    (&["list", "127.0.0.1"], Try("mcpjoin list http://127.0.0.1:PORT/mcp")),
    (&["list", ":9402"], Try("mcpjoin list http://localhost:9402/mcp")),
    (&["list", "9402"], Try("mcpjoin list http://localhost:9402/mcp")),
    (&["call", "9402", "echo", "message=hi"], Try("mcpjoin call http://localhost:9402/mcp echo message=hi")),
    (&["localhost", "list"], Try("mcpjoin list http://localhost:PORT/mcp")),
    (&["localhost:9402", "list"], Try("mcpjoin list localhost:9402")),
    (&["list", "example.com/mcp"], Try("mcpjoin list https://example.com/mcp")),
    (&["list", "mcp.example.com"], Try("mcpjoin list https://mcp.example.com/mcp")),
    (&["mcp.example.com", "tools"], Try("mcpjoin list https://mcp.example.com/mcp")),
    (&["list", "--", "demo:"], Says("this is an address, and not a program")),
    (&["serve", "demo", "--http"], Try("mcpjoin serve --listen http://localhost:8080/mcp demo")),
    (
        &["serve", "demo", "--port", "9402", "--host", "0.0.0.0"],
        Try("mcpjoin serve --listen http://0.0.0.0:9402/mcp demo"),
    ),
    // Options and versions in odd places, which work.
    (&["list", "mem", "-q", "--json"], Prints("\"serverInfo\"")),
    (&["call", "-q", "mem", "echo", "--json", "message=hi"], Prints("\"content\"")),
    (&["list", "npx", "@a/b@latest", "/tmp"], Prints("echo")),
    (&["list", "-c", ".mcp.json", "mem"], Prints("echo")),
    (&["list", "HOST:PORT/"], Prints("echo")),
];

/// Words in another order, each with the line that works.
const ORDER: &[(&str, &str)] = &[
    // The server before `--`. Nothing behind it is run.
    ("call 'npx -y @a/b' -- echo message=hi", "call echo message=hi -- npx -y @a/b"),
    ("call npx @a/b -- echo message=hi", "call echo message=hi -- npx @a/b"),
    ("call demo: -- echo message=hi", "call demo: echo message=hi"),
    ("call mem -- echo message=hi", "call mem echo message=hi"),
    ("tool demo: -- echo", "tool demo: echo"),
    // The target at the end.
    ("call echo message=hi demo:", "call demo: echo message=hi"),
    ("call echo message=hi http://h/mcp", "call http://h/mcp echo message=hi"),
    ("call echo message=hi HOST:PORT/mcp", "call HOST:PORT/mcp echo message=hi"),
    ("call translate text=hi mem", "call mem translate text=hi"),
    ("tool echo demo:", "tool demo: echo"),
    // `echo` is a program, too.
    ("tool echo mem", "tool mem echo"),
    ("call echo message=hi mem", "call mem echo message=hi"),
    ("read demo://about demo:", "read demo: demo://about"),
    ("prompt translate text=Hello http://h/mcp", "prompt http://h/mcp translate text=Hello"),
    // A call in brackets.
    ("mem 'add(a: 1, b: 2)'", "call mem add a=1 b=2"),
    (r#"call mem 'echo(message:' "'hi you')""#, "call mem echo 'message=hi you'"),
    ("call 'mem.add(a: 1, b: 2)'", "call mem.add a=1 b=2"),
    ("call 'add(a: 1, b: 2)' -- npx @a/b", "call add a=1 b=2 -- npx @a/b"),
    // Arguments with dashes.
    ("call demo: echo --message hi", "call demo: echo message=hi"),
    ("call -q mem echo '--message=hi you'", "call -q mem echo 'message=hi you'"),
    ("call echo --message hi -- npx @a/b", "call echo message=hi -- npx @a/b"),
    ("call translate --text hi", "call TARGET translate text=hi"),
    ("call mem fetch --url http://h/", "call mem fetch url=http://h/"),
    ("call translate --url http://h/mcp text=hi", "call http://h/mcp translate text=hi"),
    ("prompt demo: translate --text Hello", "prompt demo: translate text=Hello"),
];

/// The commands of Inspector, Claude Code, supergateway and others.
const OTHERS: &[(&str, &str)] = &[
    (
        "--cli npx -y @a/b --method tools/call --tool-name echo --tool-arg message=hi",
        "call echo message=hi -- npx -y @a/b",
    ),
    ("npx -y @a/b --method tools/list", "list npx -y @a/b"),
    ("inspect http://h/mcp --method tools/list", "list http://h/mcp"),
    ("call demo: --tool-name echo --tool-arg message=hi", "call demo: echo message=hi"),
    ("--cli http://h/mcp --transport http --method resources/read --uri a://b", "read http://h/mcp a://b"),
    ("add x npx -y @a/b", "servers add x -- npx -y @a/b"),
    ("mcp add x -- npx -y @a/b", "servers add x -- npx -y @a/b"),
    ("mcp add --transport http -s user x http://h/mcp", "servers add x http://h/mcp"),
    ("mcp add x --env LEVEL=1 -- npx @a/b", "servers add --env LEVEL=1 x -- npx @a/b"),
    ("install", "servers add NAME -- COMMAND [ARG]..."),
    ("install @a/b", "servers add NAME -- npx -y @a/b"),
    ("mcp remove mem", "servers remove mem"),
    ("remove mem", "servers remove mem"),
    ("serve npx -y @a/b", "bridge --listen http://localhost:8080/mcp -- npx -y @a/b"),
    ("serve mem", "bridge --listen http://localhost:8080/mcp mem"),
    ("serve --port 9402 npx @a/b", "bridge --listen http://localhost:9402/mcp -- npx @a/b"),
    ("bridge --port 9402 -- npx @a/b", "bridge --listen http://localhost:9402/mcp -- npx @a/b"),
    ("--stdio 'npx -y @a/b' --port 9402", "bridge --listen http://localhost:9402/mcp -- npx -y @a/b"),
    ("--port 9402 --stdio 'npx @a/b'", "bridge --listen http://localhost:9402/mcp -- npx @a/b"),
    ("--sse http://h/sse", "bridge http://h/sse"),
    ("--url http://h/mcp", "list http://h/mcp"),
    ("list --transport http http://h/mcp", "list http://h/mcp"),
    ("--transport http http://h/mcp", "list http://h/mcp"),
    ("list-tools mem", "list mem"),
    ("tools/list mem", "list mem"),
    ("tools/call mem echo message=hi", "call mem echo message=hi"),
    ("list tools mem", "list mem"),
    ("mcp-server-everything list tools", "list mcp-server-everything"),
    ("run npx -y @a/b", "list npx -y @a/b"),
    ("run npx @a/b echo message=hi", "call echo message=hi -- npx @a/b"),
    ("connect mem", "list mem"),
    ("test mem", "validate mem"),
    ("inspect", "info TARGET"),
    ("start", "bridge TARGET"),
    ("start mem", "bridge mem"),
    ("login http://h/mcp", "auth login http://h/mcp"),
    ("auth http://h/mcp", "auth login http://h/mcp"),
    ("auth stauts", "auth status"),
];

#[test]
fn first_commands_work_or_are_answered_with_the_command_that_does() {
    let tables = [A3, A4, B17, MORE, STRANGER];
    assert_eq!(tables.map(<[Row]>::len), [25, 7, 19, 25, 42]);
    let folder = Folder::new("typed");
    let bin = programs(&folder);
    folder.file("a.txt", "the content of a file");
    let entry = format!(r#""command": "{BINARY}", "args": ["serve", "demo"]"#);
    folder
        .file(".mcp.json", format!(r#"{{"mcpServers": {{"mem": {{{entry}}}, "our server": {{{entry}}}}}}}"#));
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let run = |words: &[&str]| -> Ran {
        let words: Vec<String> = words.iter().map(|word| word.replace("HOST:PORT", &address)).collect();
        let mut command = folder.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        command.env("PATH", path(&bin));
        start(command).finish()
    };
    let mut wrong = Vec::new();
    for (words, outcome) in tables.into_iter().flatten() {
        let ran = run(words);
        let part = match outcome {
            Prints(text) => {
                assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.stderr);
                assert!(ran.stdout.contains(text), "{words:?}: {}", ran.stdout);
                continue;
            }
            Try(line) => format!("  try      {}\n", line.replace("HOST:PORT", &address)),
            Says(text) => (*text).to_owned(),
        };
        assert!(matches!(ran.code, Some(2 | 4 | 5)) && ran.stdout.is_empty(), "{words:?}: {}", ran.stderr);
        // A message is folded at 100 columns.
        let said = format!("{}\n{}", ran.stderr, ran.stderr.split_whitespace().collect::<Vec<_>>().join(" "));
        if !said.contains(&part) {
            wrong.push(format!("{words:?} is not answered with {part}: {}", ran.stderr));
        }
    }
    for (typed, right) in [ORDER, OTHERS].into_iter().flatten() {
        let words = shlex::split(typed).unwrap();
        let ran = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let line = format!("  try      mcpjoin {}\n", right.replace("HOST:PORT", &address));
        if ran.code != Some(2) || !ran.stderr.contains(&line) {
            wrong.push(format!("{typed} is not answered with {line}: {}", ran.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    run(&["list", "HOST:PORT"])
        .exits(0)
        .says(&[&format!("http://{address} is not an MCP server: http://{address}/mcp is used")]);
    server.ends("TERM", 143);
}

#[test]
fn a_name_that_is_nowhere_is_reported_on_one_line_and_a_broken_neighbour_once() {
    let folder = Folder::new("typed-nowhere");
    folder.file(".mcp.json", r#"{"mcpServers": {"memory": {"command": "true"}}}"#);
    folder.file("../.cursor/mcp.json", r#"{"mcpServers": {}}"#);
    let ran = folder.run(&["list", "nosuch"]).exits(4);
    let first = ran.stderr.lines().next().unwrap();
    assert_eq!(
        first,
        "error: nosuch: no entry of that name in 2 configuration files, and no program on PATH (E_SPAWN_NOT_FOUND)"
    );
    assert!(!ran.stderr.contains("/bin"), "{}", ran.stderr);
    folder.run(&["list", "-v", "nosuch"]).exits(4).says(&[
        "searched .mcp.json\n",
        "~/.cursor/mcp.json\n",
        "/bin\n",
    ]);
    folder.run(&["list", "memoory"]).exits(4).says(&["try      did you mean memory?"]);
    // The place is that of the brace.
    folder.file(".vscode/mcp.json", "{\"servers\": {\"a\": {}");
    for (words, code) in [(&["list", "nosuch"][..], 4), (&["call", "nosuch", "x"], 2)] {
        let ran = folder.run(words).exits(code);
        let broken = ".vscode/mcp.json:1:13: invalid JSON: the { opened here is never closed";
        assert_eq!(ran.stderr.matches(broken).count(), 1, "{}", ran.stderr);
        ran.says(&[
            "error: nosuch: no entry of that name in 2 configuration files, and 1 more cannot be read",
        ]);
    }
}

#[test]
fn a_server_on_a_terminal_says_what_it_waits_for() {
    for (words, line) in [
        (
            &["serve", "demo"][..],
            "for clients over HTTP: mcpjoin serve demo --listen http://localhost:8080/mcp",
        ),
        (
            &["bridge", "demo:"],
            "for clients over HTTP: mcpjoin bridge --listen http://localhost:8080/mcp demo:",
        ),
    ] {
        let seen = seen(&[("COLUMNS", "200")], "over HTTP", "^C", words);
        let shown = remaining(&seen.shown);
        let shown: String = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            shown.contains("reading MCP messages from standard input: a client starts this command"),
            "{shown}"
        );
        assert!(shown.contains(line), "{shown}");
    }
    // Where a client starts it, it says nothing.
    assert_eq!(super::support::line("serve demo").exits(0).stderr, "");
}

#[test]
fn shells_complete_entries_the_demonstration_server_and_topics() {
    let folder = Folder::new("typed-completion");
    folder.file(
        ".mcp.json",
        r#"{"mcpServers": {"memory": {"command": "true"}, "odd\u001b": {"command": "true"}}}"#,
    );
    folder.file("other.json", r#"{"mcpServers": {"metrics": {"command": "true"}}}"#);
    let completed = |shell: &str, words: &[&str]| {
        let mut command = folder.command(&[&["--", "mcpjoin"], words].concat());
        command.env("MCPJOIN_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", words.len().to_string());
        let ran = start(command).finish().exits(0);
        assert_eq!(ran.stderr, "");
        ran.stdout
    };
    for shell in ["bash", "fish", "zsh"] {
        for (words, text) in [
            (&["list", "me"][..], "memory"),
            (&["call", "d"], "demo:full"),
            (&["list", "--server", "me"], "memory"),
            (&["call", "-c", "other.json", "me"], "metrics"),
            (&["servers", "remove", "me"], "memory"),
            (&["help", "cal"], "call"),
            (&["lis"], "list"),
        ] {
            let found = completed(shell, words);
            // zsh has an escape for the colon.
            assert!(found.replace("\\:", ":").contains(text), "{shell} {words:?}: {found}");
            assert!(!found.contains('\u{1b}'), "{found}");
        }
    }
    assert!(completed("fish", &["call", "demo:", "ec"]).contains("echo"));
    // A program is the file's own, and no server is started to complete a tool.
    assert_eq!(completed("bash", &["call", "memory", "x"]), "");
    // The script of bash asks this program.
    let script = folder.run(&["completions", "bash"]).exits(0).stdout;
    let question = format!(
        "{script}\nCOMP_WORDS=(mcpjoin list me); COMP_CWORD=2; _clap_complete_mcpjoin mcpjoin me list; echo ${{COMPREPLY[@]}}"
    );
    let mut bash = program("bash", ["-c", &question]);
    folder.place(&mut bash);
    let bin = std::path::Path::new(BINARY).parent().unwrap();
    bash.env("PATH", path(bin));
    assert_eq!(start(bash).finish().exits(0).stdout, "memory\n");
}

/// bash puts into the line what is completed, and runs it: the configuration or the files of a folder may be those of anybody.
#[test]
fn what_a_shell_would_run_is_not_completed() {
    let folder = Folder::new("typed-hostile");
    let odd = ["xa;id", "xb$(id)", "xc d", "xd'q", "xe*", "xf`id`", "xg&", "xh|id", "xi\"q", "xk>l", "xm\\n"];
    let names: Vec<&str> = odd.into_iter().chain(["x-plain.1"]).collect();
    let entries = names.iter().map(|name| ((*name).to_owned(), serde_json::json!({ "command": "true" })));
    let entries: serde_json::Map<String, serde_json::Value> = entries.collect();
    folder.file(".mcp.json", serde_json::json!({ "mcpServers": entries }).to_string());
    for name in names {
        folder.file(name, "");
    }
    for (shell, word, expected) in
        [("bash", "x", "x-plain.1"), ("zsh", "x", "x-plain.1:.mcp.json"), ("bash", "./x", "./x-plain.1")]
    {
        let mut command = folder.command(&["--", "mcpjoin", "list", word]);
        command.env("MCPJOIN_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "2");
        assert_eq!(start(command).finish().exits(0).stdout.trim_end(), expected, "{shell} {word}");
    }
}

#[test]
fn shells_complete_the_tools_that_a_server_has_listed_before() {
    let folder = Folder::new("typed-tools");
    // A server whose tool `read` stands beside one with a name that a shell would obey.
    let listed = r#"{"name": "read", "inputSchema": SCHEMA}"#;
    let hostile = r#"{"name": "$(reboot)", "inputSchema": {"properties": {"$(reboot)": {}}}}"#;
    let other = r#"{"name": "remove", "inputSchema": {}}"#;
    let server = FILES.replace(listed, &format!("{listed}, {hostile}, {other}"));
    let server = folder.file("server.py", server);
    let entry = |program: &str| {
        serde_json::json!({"mcpServers": {"files": {"command": program, "args": [&server]}}}).to_string()
    };
    folder.file("own.json", entry("python3"));
    let cache = folder.path().join("cache");
    let run = |words: &[&str]| {
        let mut command = folder.command(words);
        command.env("XDG_CACHE_HOME", &cache);
        start(command).finish()
    };
    let completed = |words: &[&str]| {
        let mut command = folder.command(&[&["--", "mcpjoin"], words].concat());
        command.env("XDG_CACHE_HOME", &cache).env("MCPJOIN_COMPLETE", "bash");
        command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
        let ran = start(command).finish().exits(0);
        assert_eq!(ran.stderr, "");
        // Behind an empty word the options follow.
        let found = ran.stdout.lines().take_while(|line| !line.starts_with("--"));
        found.collect::<Vec<_>>().join("\n")
    };
    let tools = "read\nremove";
    assert_eq!(completed(&["call", "-c", "own.json", "files", ""]), "", "nothing was listed");
    run(&["list", "--no-cache", "-c", "own.json", "files"]).exits(0);
    assert_eq!(completed(&["call", "-c", "own.json", "files", ""]), "", "nothing is stored");
    run(&["list", "-c", "own.json", "files"]).exits(0);
    // From now on the server cannot be started.
    folder.file("own.json", entry("/no/such/program"));
    for (words, candidates) in [
        (&["call", "-c", "own.json", "files", ""][..], tools),
        (&["tool", "-c", "own.json", "files", "rea"], "read"),
        (&["call", "own.json#files", "rem"], "remove"),
        (&["call", "-c", "own.json", "--server", "files", "rem"], "remove"),
        (&["call", "-c", "own.json", "files", "read", ""], "paths=\ncount=\nmode="),
        (&["call", "-c", "own.json", "files/rea"], "files/read"),
        (&["tool", "own.json#files/rem"], "own.json#files/remove"),
        (&["call", "-c", "own.json", "files/read", ""], "paths=\ncount=\nmode="),
        (&["call", "-c", "own.json", "files.read", ""], "paths=\ncount=\nmode="),
        (&["list", "-c", "own.json", "files/rea"], ""),
        (&["read", "-c", "own.json", "files", ""], ""),
        (&["call", "-c", "own.json", "files", "other", ""], ""),
    ] {
        assert_eq!(completed(words), candidates, "{words:?}");
    }
    // An entry of the same name in another file is another server.
    folder.file("other.json", entry("python3"));
    assert_eq!(completed(&["call", "-c", "other.json", "files", ""]), "");
    run(&["search", "-c", "other.json", "nothing"]).exits(0);
    assert_eq!(completed(&["call", "-c", "other.json", "files", ""]), tools);
    // A command in one word, and a call that fails.
    run(&["call", "python3 ./server.py", "read", "count=0"]).exits(2);
    assert_eq!(completed(&["call", "python3 ./server.py", "rea"]), "read");
}

#[test]
fn shells_complete_the_tools_that_the_server_of_a_session_has_listed() {
    let folder = Folder::new("typed-tools-of-shell");
    folder.file("server.py", FILES);
    let cache = folder.path().join("cache");
    let mut session = folder.command(&["shell", "python3 ./server.py"]);
    session.env("XDG_CACHE_HOME", &cache).stdin(Stdio::piped());
    let mut session = start(session);
    session.child.stdin.take().unwrap().write_all(b"tools\n").unwrap();
    session.finish().exits(0);
    let mut completion = folder.command(&["--", "mcpjoin", "call", "python3 ./server.py", "rea"]);
    completion.env("XDG_CACHE_HOME", &cache).env("MCPJOIN_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "3");
    assert_eq!(start(completion).finish().exits(0).stdout, "read");
}
