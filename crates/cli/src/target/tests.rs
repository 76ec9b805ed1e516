//! Tests of the target grammar: every row of the table of targets, and every rule.

use std::ffi::OsString;

use crate::demo::Demo;
use crate::failure::Failure;

use super::{
    Http, Invocation, Known, Named, Quic, Socket, Target, path_shown, shown, stands_alone, with_operands,
    without_operands,
};

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn child(line: &str) -> Target {
    let mut words = words(line).into_iter();
    Target::Command { program: words.next().unwrap(), args: words.collect() }
}

/// A target that can only be an entry.
fn entry(file: Option<&str>, name: &str) -> Target {
    let file = file.map(OsString::from);
    Target::Entry(Named { file, name: name.to_owned(), or_program: false, instead: String::new() })
}

/// A target that is a single word: an entry or a program.
fn alone(name: &str) -> Target {
    Target::Entry(Named { file: None, name: name.to_owned(), or_program: true, instead: String::new() })
}

/// The entries `files`, `both` and `our server`, the programs `prog`, `both`, `npx`, `build/prog` and `./my prog`.
const KNOWN: Known<'static> = Known {
    entry: &|name| Ok(["files", "files.v1", "both", "our server"].contains(&name)),
    program: &|word| {
        ["prog", "both", "npx", "build/prog", "./my prog", "files.sh"].iter().any(|known| word == *known)
    },
    file: &|path| path.ends_with("my file.json"),
};

fn without(
    verb: &str,
    server: Option<&str>,
    words: Vec<OsString>,
    escaped: bool,
) -> Result<Invocation, Failure> {
    without_operands(verb, server, words, escaped, &KNOWN)
}

fn with(
    verb: &str,
    server: Option<&str>,
    words: Vec<OsString>,
    after: Option<Vec<OsString>>,
) -> Result<Invocation, Failure> {
    with_operands(verb, server, words, after, &KNOWN)
}

/// `mcpjoin list LINE`
fn list(line: &str) -> Result<Invocation, Failure> {
    match line.strip_prefix("-- ") {
        Some(command) => without("list", None, words(command), true),
        None => without("list", None, words(line), false),
    }
}

/// `mcpjoin call LINE`
fn call(line: &str) -> Result<Invocation, Failure> {
    match format!(" {line} ").split_once(" -- ") {
        Some((before, after)) => with("call", None, words(before), Some(words(after))),
        None => with("call", None, words(line), None),
    }
}

fn http(url: &str) -> Target {
    Target::Http(Http { url: url.into(), sse: false })
}

fn refused(outcome: Result<Invocation, Failure>, line: &str) -> Failure {
    match outcome {
        Err(misuse) => misuse,
        Ok(invocation) => panic!("{line} was taken for {invocation:?}"),
    }
}

#[test]
fn r63_every_target_that_is_built() {
    for (line, target) in [
        (
            "npx -y @modelcontextprotocol/server-everything",
            child("npx -y @modelcontextprotocol/server-everything"),
        ),
        ("./server", child("./server")),
        ("../server --port 1", child("../server --port 1")),
        ("/path/server", child("/path/server")),
        (r"C:\server.exe", child(r"C:\server.exe")),
        ("c:/server.exe", child("c:/server.exe")),
        ("server", alone("server")),
        ("npm:thing", alone("npm:thing")),
        ("-- server", child("server")),
        ("mcp.json#files", entry(Some("mcp.json"), "files")),
        ("./.mcp.json#files", entry(Some("./.mcp.json"), "files")),
        ("/a/b#c.toml#files", entry(Some("/a/b#c.toml"), "files")),
        ("./a#b/server", child("./a#b/server")),
        ("./a#", child("./a#")),
        ("#a", alone("#a")),
        ("build/server", child("build/server")),
        ("server http://a", child("server http://a")),
        ("file#name word", child("file#name word")),
        ("demo:", Target::Demo(Demo::Introduction)),
        ("DEMO:", Target::Demo(Demo::Introduction)),
        ("demo:full", Target::Demo(Demo::Full)),
        ("Demo:Full", Target::Demo(Demo::Full)),
        ("quic://localhost:80", Target::Quic(Quic("localhost:80".into()))),
        ("QUIC://[::1]:80", Target::Quic(Quic("[::1]:80".into()))),
        ("-- quic://h:1", child("quic://h:1")),
        ("orchestra://localhost:50100", Target::Orchestrator(Quic("localhost:50100".into()))),
        ("-- orchestra://h:1", child("orchestra://h:1")),
        ("tcp://localhost:80", Target::Socket(Socket::Tcp("localhost:80".into()))),
        ("tcp://[::1]:80", Target::Socket(Socket::Tcp("[::1]:80".into()))),
        ("unix:/run/x.sock", Target::Socket(Socket::Unix("/run/x.sock".into()))),
        ("unix:x.sock", Target::Socket(Socket::Unix("x.sock".into()))),
        ("-- tcp://h:1", child("tcp://h:1")),
        ("-- demo:", child("demo:")),
        ("-- http://a", child("http://a")),
        ("npx -- x -- y", child("npx -- x -- y")),
    ] {
        let invocation = list(line).unwrap_or_else(|misuse| panic!("{line}: {misuse:?}"));
        assert_eq!(invocation.target, target, "{line}");
        assert!(invocation.operands.is_empty(), "{line}");
    }
}

#[test]
fn a_socket_without_an_address_is_refused_and_shows_no_password() {
    for word in [
        "quic://",
        "quic://h:1/path",
        "quic://me:hunter2@h:1",
        "orchestra://",
        "orchestra://h:1/path",
        "orchestra://me:hunter2@h:1",
        "tcp://",
        "tcp:x",
        "tcp://h:1/path",
        "tcp://me:hunter2@h:1",
        "unix:",
        "unix://h/x",
    ] {
        for outcome in [list(word), call(&format!("{word} tool"))] {
            let misuse = refused(outcome, word);
            assert!(!misuse.message.contains("hunter2"), "{}", misuse.message);
        }
    }
    let misuse = refused(list("some.json#ok extra"), "some.json#ok extra");
    assert_eq!(misuse.message, "list takes no words after some.json#ok");
    assert_eq!(misuse.hint, "mcpjoin list some.json#ok");
    let invocation = call("unix:/x echo message=hi").unwrap();
    assert_eq!(invocation.target, Target::Socket(Socket::Unix("/x".into())));
    assert_eq!(invocation.operands, words("echo message=hi"));
}

#[test]
fn a_server_on_the_web_has_a_url_without_a_user() {
    for (word, url, sse) in [
        ("http://localhost/mcp", "http://localhost/mcp", false),
        ("HTTPS://example.com/mcp", "https://example.com/mcp", false),
        ("sse+http://localhost/sse", "http://localhost/sse", true),
        ("sse+https://localhost/sse", "https://localhost/sse", true),
    ] {
        let wanted = Target::Http(Http { url: url.into(), sse });
        assert_eq!(list(word).unwrap().target, wanted, "{word}");
        assert_eq!(call(&format!("{word} tool")).unwrap().target, wanted, "{word}");
    }
    let misuse = refused(list("http://me:hunter2@h/mcp"), "a user");
    assert!(!misuse.message.contains("hunter2"), "{misuse:?}");
}

#[test]
fn an_unknown_scheme_is_refused() {
    for word in ["ftp://x", "stdio://x", "demo:x", "demo://x", "demo:full:", "demo:full/"] {
        refused(list(word), word);
    }
}

#[test]
fn rule_1_words_of_ours_after_the_command_are_reported() {
    for (line, told) in [
        ("npx -y x --json", "--json is passed to npx: options of mcpjoin belong before the command"),
        ("npx --format=json", "--format is passed to npx: options of mcpjoin belong before the command"),
        ("-- npx --trace f", "--trace is passed to npx: options of mcpjoin belong before the command"),
    ] {
        assert_eq!(list(line).unwrap().notes, [told], "{line}");
    }
    assert_eq!(call("echo -- npx --json").unwrap().notes.len(), 1);
    assert!(list("npx --jsonl -y").unwrap().notes.is_empty());
    let misuse = refused(list("demo: more"), "demo: more");
    assert_eq!(misuse.hint, "mcpjoin list demo:");
}

#[test]
fn rule_2_all_words_before_the_dashes_are_operands() {
    let invocation = call("echo message=hi -- npx -y pkg").unwrap();
    assert_eq!(invocation.target, child("npx -y pkg"));
    assert_eq!(invocation.operands, words("echo message=hi"));
    // Operands before `--` may have the form of a target.
    let invocation = call("demo: http://x -- ./server").unwrap();
    assert_eq!((invocation.target, invocation.operands), (child("./server"), words("demo: http://x")));
    assert_eq!(call("-- npx -- x").unwrap().target, child("npx -- x"));
    refused(with("call", None, words("echo"), Some(Vec::new())), "call echo --");
}

#[test]
fn rule_3_the_first_word_must_be_a_target() {
    let invocation = call("demo: echo message=hi").unwrap();
    assert_eq!(
        (invocation.target, invocation.operands),
        (Target::Demo(Demo::Introduction), words("echo message=hi"))
    );
    let invocation = call("./server echo").unwrap();
    assert_eq!((invocation.target, invocation.operands), (child("./server"), words("echo")));
    // A word of no other form can only be an entry. If there is none, the message suggests the right command line.
    let Target::Entry(named) = call("echo message=hi").unwrap().target else { panic!("echo is no command") };
    assert_eq!(named.instead, "mcpjoin call echo message=hi -- COMMAND [ARG]...");
    assert!(!named.or_program);
}

#[test]
fn rule_3_a_program_takes_the_place_of_a_target_where_there_is_no_such_entry() {
    let invocation = call("prog echo message=hi").unwrap();
    assert_eq!((invocation.target, invocation.operands), (child("prog"), words("echo message=hi")));
    let invocation = call("build/prog echo message=hi").unwrap();
    assert_eq!((invocation.target, invocation.operands), (child("build/prog"), words("echo message=hi")));
    // Where both exist, it is the entry, and `config` says so.
    let Target::Entry(both) = call("both echo message=hi").unwrap().target else {
        panic!("both is an entry")
    };
    assert!(both.or_program);
    for (line, right) in [
        // The tool is also the name of a program.
        ("prog message=hi", "mcpjoin call prog message=hi -- COMMAND [ARG]..."),
        ("npx -y pkg echo message=hi", "mcpjoin call echo message=hi -- npx -y pkg"),
        ("npx pkg", "mcpjoin call TOOL -- npx pkg"),
        ("prog /tmp read path=x", "mcpjoin call read path=x -- prog /tmp"),
        ("build/prog /tmp read path=x", "mcpjoin call read path=x -- build/prog /tmp"),
    ] {
        assert_eq!(refused(call(line), line).hint, right);
    }
}

#[test]
fn rule_3_a_command_line_in_one_word_is_split_and_no_shell_runs_it() {
    let quoted = |line: &str| without("list", None, vec![line.into()], false);
    for (line, program, args) in [
        ("npx -y @a/b", "npx", &["-y", "@a/b"][..]),
        (r#"sh -c 'echo "a b" | cat' x\ y"#, "sh", &["-c", r#"echo "a b" | cat"#, "x y"]),
        ("./server --port 1", "./server", &["--port", "1"]),
        ("npx -y pkg#main", "npx", &["-y", "pkg#main"]),
        (" npx  pkg ", "npx", &["pkg"]),
    ] {
        let target =
            Target::Command { program: program.into(), args: args.iter().map(OsString::from).collect() };
        assert_eq!(quoted(line).unwrap().target, target, "{line}");
        let invocation = with("call", None, vec![line.into(), "echo".into()], None).unwrap();
        assert_eq!((invocation.target, invocation.operands), (target.clone(), words("echo")), "{line}");
        // Behind `--` it is the same.
        let invocation = with("call", None, words("echo"), Some(vec![line.into()])).unwrap();
        assert_eq!(invocation.target, target, "{line}");
    }
    // Names and files with spaces are themselves.
    assert_eq!(quoted("our server").unwrap().target, alone("our server"));
    assert_eq!(quoted("./my prog").unwrap().target, {
        Target::Command { program: "./my prog".into(), args: Vec::new() }
    });
    assert_eq!(quoted("my file.json#a").unwrap().target, entry(Some("my file.json"), "a"));
    let invocation = with("call", None, vec!["our server/echo".into()], None).unwrap();
    assert_eq!((invocation.target.label(), invocation.operands), ("our server".into(), words("echo")));
    for (line, right) in [
        ("cat 'x y' | server", r"mcpjoin list -- sh -c 'cat '\''x y'\'' | server'"),
        ("API_TOKEN=hunter2 npx pkg", "mcpjoin list -e API_TOKEN=VALUE -- npx pkg"),
        ("npx 'pkg", "mcpjoin list -- COMMAND [ARG]..."),
    ] {
        let failure = refused(quoted(line), line);
        assert!(!failure.message.contains("hunter2"), "{}", failure.message);
        assert_eq!(failure.hint, right, "{line}");
    }
    let failure = refused(without("list", None, vec!["npx pkg".into(), "x".into()], false), "x");
    assert_eq!(failure.hint, "mcpjoin list 'npx pkg'");
}

/// The name of a file may have any bytes, and an address may not.
#[cfg(unix)]
#[test]
fn an_address_that_is_not_unicode_is_refused_as_an_address() {
    use std::os::unix::ffi::OsStringExt as _;
    let word = |text: &[u8]| vec![OsString::from_vec(text.to_vec())];
    for (verb, text) in [("list", &b"http://h/\xff"[..]), ("call", b"tcp://\xff:80")] {
        let outcome = match verb {
            "list" => without(verb, None, word(text), false),
            verb => with(verb, None, word(text), None),
        };
        let failure = refused(outcome, verb);
        assert!(
            failure.message.ends_with("is not an address: it is not valid Unicode"),
            "{}",
            failure.message
        );
        assert_eq!(failure.hint, "write other bytes of an address as %XX");
    }
    let file = without("list", None, word(b"/srv/http://\xff"), false).unwrap();
    assert!(matches!(file.target, Target::Command { .. }), "{:?}", file.target);
}

#[test]
fn rule_4_a_host_and_a_port_are_a_url_and_a_package_is_none() {
    for (word, url) in [
        ("localhost:8080", "http://localhost:8080"),
        ("127.0.0.1:9401/mcp", "http://127.0.0.1:9401/mcp"),
        ("[::1]:80/a?b=c", "http://[::1]:80/a?b=c"),
        ("my-host.example.com:1", "http://my-host.example.com:1"),
    ] {
        assert_eq!(list(word).unwrap().target, http(url), "{word}");
        let invocation = call(&format!("{word} get-sum a=2")).unwrap();
        assert_eq!((invocation.target, invocation.operands), (http(url), words("get-sum a=2")), "{word}");
        assert!(stands_alone(word.as_ref()), "{word}");
    }
    for word in ["npm:thing", "host:port", "a b:1", "host:123456", ":80", "::1:80", "h/x:1"] {
        assert!(!stands_alone(word.as_ref()), "{word}");
    }
    for (outcome, right) in [
        (list("@a/b"), "mcpjoin list npx -y @a/b"),
        (list("@a/b@1.2.3 /tmp"), "mcpjoin list npx -y @a/b@1.2.3 /tmp"),
        (call("@a/b echo message=hi"), "mcpjoin call echo message=hi -- npx -y @a/b"),
        (call("@a/b"), "mcpjoin call TOOL -- npx -y @a/b"),
    ] {
        let failure = refused(outcome, right);
        assert_eq!(failure.hint, right);
        assert!(failure.message.contains("is an npm package"), "{}", failure.message);
    }
    let failure = refused(with("read", None, words("test://static-text"), None), "read");
    assert_eq!(failure.hint, "mcpjoin read TARGET test://static-text");
}

#[test]
fn a_path_in_the_home_folder_is_shown_as_it_is_typed() {
    let home = crate::folders::home().unwrap();
    assert_eq!(path_shown(&home), "~");
    assert_eq!(path_shown(&home.join(".config/a b.json")), "~/'.config/a b.json'");
    assert_eq!(path_shown("/no/home".as_ref()), "/no/home");
    assert_eq!(path_shown("relative".as_ref()), "relative");
}

#[test]
fn rule_5_a_name_with_a_tool_needs_an_entry() {
    for (line, name, operands) in [
        ("files/read path=x", "files", "read path=x"),
        ("files/a/b", "files", "a/b"),
        ("files read", "files", "read"),
        ("files/ read", "files/", "read"),
        ("files.read path=x", "files", "read path=x"),
        ("files.a/b.c", "files", "a/b.c"),
        ("files.v1.read", "files.v1", "read"),
        ("files.v1 read", "files.v1", "read"),
        ("files/a.b", "files", "a.b"),
        ("files. read", "files.", "read"),
        ("other.read path=x", "other.read", "path=x"),
    ] {
        let invocation = call(line).unwrap();
        let Target::Entry(named) = invocation.target else { panic!("{line} is no command") };
        assert_eq!((named.name.as_str(), named.file), (name, None), "{line}");
        assert_eq!(invocation.operands, words(operands), "{line}");
    }
    // A path is never a name, and `list` does not accept a name with a tool.
    assert_eq!(call("./files/read x").unwrap().target, child("./files/read"));
    assert_eq!(list("files/read").unwrap_err().hint, "mcpjoin tool files/read");
    assert_eq!(list("others/read").unwrap().target, child("others/read"));
    // A program is never a name with a tool.
    assert_eq!(call("files.sh read").unwrap().target, child("files.sh"));
}

#[test]
fn rule_5_an_entry_of_a_file_may_have_a_tool_with_it() {
    for (line, file, name, operands) in [
        (".mcp.json#files/read path=x", ".mcp.json", "files", "read path=x"),
        ("/a/b#c.toml#files/read", "/a/b#c.toml", "files", "read"),
        ("a.JSON#x#y/a/b c:=1", "a.JSON", "x#y", "a/b c:=1"),
        ("./a.jsonc#files read", "./a.jsonc", "files", "read"),
        ("./a#files read", "./a", "files", "read"),
    ] {
        let invocation = call(line).unwrap();
        assert_eq!(invocation.target, entry(Some(file), name), "{line}");
        assert_eq!(invocation.operands, words(operands), "{line}");
    }
    // A file without the name of a configuration is a path, and `list` does not accept a name with a tool.
    assert_eq!(call("./a#b/server x").unwrap().target, child("./a#b/server"));
    assert_eq!(call("./a.json#/server x").unwrap().target, child("./a.json#/server"));
    assert_eq!(list("./a.json#files/read").unwrap().target, child("./a.json#files/read"));
    let Target::Http(url) = call("http://localhost/a.json#b/c x").unwrap().target else { panic!("a URL") };
    assert_eq!(url.to_string(), "http://localhost/a.json");
}

#[test]
fn rule_5_any_name_is_an_entry_after_server() {
    for name in ["files", "a/b", "a#b", "a b", "demo:", "./x", ""] {
        let invocation = without("list", Some(name), Vec::new(), false).unwrap();
        assert_eq!(invocation.target, entry(None, name));
        let invocation = with("call", Some(name), words("demo: x=1"), None).unwrap();
        assert_eq!((invocation.target, invocation.operands), (entry(None, name), words("demo: x=1")));
    }
    let twice = without("list", Some("a"), words("npx"), false);
    assert!(refused(twice, "npx").message.contains("two servers"));
    let twice = with("call", Some("a"), words("x"), Some(words("npx")));
    assert!(refused(twice, "npx").message.contains("two servers"));
}

#[test]
fn no_words_and_empty_words_name_no_server() {
    for outcome in [
        without("list", None, Vec::new(), false),
        without("list", None, vec![OsString::new()], false),
        without("list", None, vec![OsString::new()], true),
        with("call", None, Vec::new(), None),
        with("call", None, vec![OsString::new()], None),
        with("call", None, words("echo"), Some(vec![OsString::new()])),
    ] {
        assert!(!refused(outcome, "nothing").hint.is_empty());
    }
}

#[test]
#[cfg(unix)]
fn f32_words_that_are_not_unicode_are_files() {
    use std::os::unix::ffi::OsStringExt;
    let word = OsString::from_vec(b"s\xff".to_vec());
    let invocation = without("list", None, vec![word.clone(), word.clone()], false).unwrap();
    assert_eq!(invocation.target, Target::Command { program: word.clone(), args: vec![word.clone()] });
    assert_eq!(shown(&word), "'s\u{fffd}'");
}

#[test]
fn i166_a_word_is_shown_without_user_information() {
    for (word, text) in [
        ("postgresql://me:p@ss@host/db", "postgresql://***@host/db"),
        ("--url=https://t0ken@host", "--url=https://***@host"),
        ("https://host/@scope", "https://host/@scope"),
        ("a b", "'a b'"),
        ("it's", r"'it'\''s'"),
        ("", "''"),
        ("\u{1b}[2J", "'\\u{1b}[2J'"),
    ] {
        assert_eq!(shown(word.as_ref()), text);
    }
}
