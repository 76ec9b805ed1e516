//! Tests of configuration entries as targets: the choice of file and entry, what an entry starts and allows, and the messages.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use super::support::{Ran, command, start};

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");

/// A working directory and a home for one test, removed at its end.
pub(crate) struct Folder {
    path: PathBuf,
    /// Whether the files in the working directory are trusted before the binary runs.
    trusts: bool,
    /// Whether a file was written since the last `servers trust`.
    written: Mutex<bool>,
}

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        Self::made(name, true)
    }

    /// The same, with no file trusted.
    pub(crate) fn untrusted(name: &str) -> Self {
        Self::made(name, false)
    }

    fn made(name: &str, trusts: bool) -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("runner-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("here")).unwrap();
        fs::create_dir_all(path.join("config/mcpjoin")).unwrap();
        // Independent of the umask: a trust list is not used if others may write to its folder.
        fs::set_permissions(path.join("config/mcpjoin"), fs::Permissions::from_mode(0o700)).unwrap();
        Self { path, trusts, written: Mutex::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file. A relative path starts at the working directory.
    pub(crate) fn file(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path.join("here").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        *self.written.lock().unwrap() = true;
        path
    }

    /// A command of the binary in that working directory with that home.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = command(words);
        self.place(&mut command);
        command
    }

    /// Sets the working directory and the home of a command.
    pub(crate) fn place(&self, command: &mut Command) {
        let placed = |command: &mut Command| {
            command.current_dir(self.path.join("here")).env("HOME", &self.path);
            command.env("XDG_CONFIG_HOME", self.path.join("config"));
        };
        placed(command);
        let mut written = self.written.lock().unwrap();
        if self.trusts && std::mem::take(&mut *written) {
            let mut trust = super::support::command(["servers", "trust"]);
            placed(&mut trust);
            // This may fail: a file that cannot be read is not trusted, and such tests expect that.
            trust.output().unwrap();
        }
    }

    #[track_caller]
    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        start(self.command(words)).finish()
    }

    #[track_caller]
    fn line(&self, words: &str) -> Ran {
        self.run(&words.split(' ').collect::<Vec<_>>())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// `mcpServers` with these entries.
fn servers(entries: &str) -> String {
    format!(r#"{{"mcpServers": {{{entries}}}}}"#)
}

/// An entry that starts the demo server, with more members.
fn demo(name: &str, more: &str) -> String {
    format!(r#""{name}": {{"command": "{BINARY}", "args": ["serve", "demo", "--full"]{more}}}"#)
}

/// An entry that runs a shell command.
fn shell(name: &str, script: &str, more: &str) -> String {
    let script = serde_json::Value::from(script);
    format!(r#""{name}": {{"command": "sh", "args": ["-c", {script}]{more}}}"#)
}

fn toml(name: &str, more: &str) -> String {
    format!(
        "[[servers]]\nname = \"{name}\"\n\
         transport = {{ type = \"stdio\", command = \"{BINARY}\", args = [\"serve\", \"demo\", \"--full\"] }}\n{more}\n"
    )
}

#[test]
fn c18_r85_entries_of_both_formats_are_listed_and_called() {
    let folder = Folder::new("formats");
    folder.file(".mcp.json", "\u{feff}// ours\r\n".to_owned() + &servers(&demo("from json", "")) + "\r\n");
    folder.file("mcp_servers.toml", toml("toml", ""));
    for target in [
        &["toml"][..],
        &["mcp_servers.toml#toml"],
        &["./mcp_servers.toml#toml"],
        &["-c", "mcp_servers.toml", "toml"],
        &["--server", "toml"],
        &["--server", "from json"],
        &["from json"],
        &[".mcp.json#from json"],
        &["--config=.mcp.json", "--server", "from json"],
    ] {
        let ran = folder.run(&[&["list", "--json", "-q"], target].concat()).exits(0);
        assert_eq!(ran.json()["serverInfo"]["name"], "mcpjoin-demo", "{target:?}");
        assert_eq!(ran.stderr, "", "{target:?}");
        let ran = folder.run(&[&["call", "-q"], target, &["echo", "message=hi"]].concat()).exits(0);
        assert_eq!(ran.stdout, "hi\n", "{target:?}");
    }
    assert_eq!(folder.line("call -q toml/echo message=hi").exits(0).stdout, "hi\n");
}

#[test]
fn an_entry_is_a_target_of_every_verb() {
    let folder = Folder::new("verbs");
    folder.file(".mcp.json", servers(&demo("our server", "")));
    folder.file("mcp_servers.toml", toml("a", ""));
    for target in [&["a"][..], &["mcp_servers.toml#a"], &["--server", "our server"]] {
        for (verb, operands) in [
            ("list", &[][..]),
            ("ping", &[]),
            ("call", &["echo", "message=hi"]),
            ("read", &["test://static-text"]),
            ("prompt", &["test_simple_prompt"]),
        ] {
            folder.run(&[&[verb, "-q"], target, operands].concat()).exits(0);
            // An option that has no effect is an error.
            let unused = [&[verb, "-c", "mcp_servers.toml", "tcp://127.0.0.1:1"], operands].concat();
            folder.run(&unused).exits(2).says(&["--config mcp_servers.toml is for an entry"]);
        }
    }
}

#[test]
fn r7_an_entry_starts_with_its_arguments_variables_and_directory() {
    let folder = Folder::new("start");
    folder.file("sub/x", "");
    // The script reports its arguments and directory. It reports secrets only by whether they are right.
    let script = r#"printf '<%s>' "$0" "$@" "$PWD" >&2
[ "$SECRET" = hunter2 ] && echo right >&2; [ "$OURS" = ours-value ] && echo inherited >&2; exit 1"#;
    let script = serde_json::Value::from(script);
    let sub = folder.path().join("here/sub");
    folder.file(
        "c.json",
        servers(&format!(
            r#""a": {{"command": "${{SHELL_PROGRAM:-sh}}", "env": {{"SECRET": "${{FROM}}"}}, "cwd": "{}",
                "args": ["-c", {script}, "zero", "a b", "", "$${{x}} *;$(id)", "${{env:WORD}}"]}}"#,
            sub.display()
        )),
    );
    let run = |more: &[&str]| {
        let mut command = folder.command(&[&["list", "-c", "c.json"], more, &["a"]].concat());
        command.env("FROM", "hunter2").env("WORD", "w").env("OURS", "ours-value");
        start(command).finish().exits(4)
    };
    let shown = format!("<zero><a b><><${{x}} *;$(id)><w><{}>", sub.display());
    run(&[]).says(&[&shown, ">right", "           inherited"]);
    // The command line overrides the entry.
    let ran = run(&["--cwd", "/usr", "-e", "SECRET=other"]).says(&["<w></usr>inherited"]);
    assert!(!ran.stderr.contains("<w></usr>right"), "{}", ran.stderr);
    // Only the named variables are passed on.
    let ran = run(&["--env-clean"]).says(&[">right"]);
    assert!(!ran.stderr.contains("           inherited"), "{}", ran.stderr);
}

#[test]
fn r70_the_time_of_an_entry_bounds_its_answers_unless_the_command_line_says_otherwise() {
    let folder = Folder::new("time");
    folder.file(".mcp.json", servers(&demo("slow", r#", "timeoutMs": 1"#)));
    folder.file("mcp_servers.toml", format!("timeout_secs = 1\n{}", toml("toml", "timeout_ms = 1")));
    // Each step of the call takes longer than the timeout.
    for name in ["slow", "toml"] {
        let words = ["call", "--json", name, "test_tool_with_progress"];
        let ran = folder.run(&[&words[..1], &["-q"], &words[1..]].concat()).exits(4);
        assert_eq!(ran.failure()["id"], "E_TIMEOUT", "{name}");
        folder.run(&[&words[..1], &["-q", "-t", "60"], &words[1..]].concat()).exits(0);
    }
}

#[test]
fn f24_filters_bind_lists_and_calls_alike() {
    let folder = Folder::new("filters");
    folder.file(
        ".mcp.json",
        servers(
            &[
                demo("some", r#", "allowed_tools": ["echo", "test_*"], "disabled_tools": ["test_e*"]"#),
                demo("bad", r#", "disabled_tools": ["["]"#),
            ]
            .join(","),
        ),
    );
    folder.file("mcp_servers.toml", toml("toml", "allowed_tools = [\"echo\"]"));
    let names = |name: &str| -> Vec<String> {
        let tools = folder.run(&["list", "--json", "-q", name]).exits(0).json()["tools"].clone();
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let some = names("some");
    assert!(some.contains(&"echo".into()) && some.contains(&"test_simple_text".into()), "{some:?}");
    assert!(!some.contains(&"add".into()) && !some.contains(&"test_error_handling".into()), "{some:?}");
    assert_eq!(names("toml"), ["echo"]);
    folder.line("list toml").exits(0).says(&["the configuration hides "]);

    folder.line("call -q some echo message=hi").exits(0);
    for words in
        ["some add a=1 b=2", "some/add a=1 b=2", "toml add", "--tool add toml", "some test_error_handling"]
    {
        let ran = folder.line(&format!("call --json -q {words}")).exits(2);
        assert_eq!(ran.failure()["id"], "E_NOT_ALLOWED", "{words}");
        assert_eq!(ran.stdout, "");
    }
    for words in ["list bad", "call bad echo message=hi"] {
        folder.line(words).exits(2).says(&["server bad: this tool pattern is invalid", "(E_CONFIG)"]);
    }
}

#[test]
fn f25_i166_values_of_an_entry_are_shown_nowhere() {
    let folder = Folder::new("secrets");
    let marker = "hunter2-marker";
    let env = format!(r#", "env": {{"API_KEY": "{marker}", "OTHER": "${{FROM_US}}"}}"#);
    folder.file(
        ".mcp.json",
        servers(
            &[
                // Prints all of its secrets, on both outputs.
                shell("loud", "echo \"$API_KEY $OTHER\" >&2; echo \"$API_KEY $OTHER\"; exit 3", &env),
                format!(
                    r#""args": {{"command": "sh", "args": ["-c", "echo $2 $3 >&2; exit 3", "sh", "--token",
                        "${{FROM_US:-{marker}}}", "--api-key={marker}", "API_TOKEN={marker}"]}}"#
                ),
                format!(
                    r#""web": {{"url": "https://{marker}@h", "headers": {{"Authorization": "{marker}"}}}}"#
                ),
                format!(r#""broken": {{"command": "sh", "env": {{"A": ["{marker}"]}}}}"#),
                format!(r#""missing": {{"command": "sh", "env": {{"A": "{marker}${{NOT_SET_AT_ALL}}"}}}}"#),
                format!(r#""gone": {{"command": "/no/such/program", "args": ["--password", "{marker}"]}}"#),
            ]
            .join(","),
        ),
    );
    for name in ["loud", "args", "web", "broken", "missing", "gone"] {
        for options in [&[][..], &["-v"], &["-vv"], &["--json"], &["--json", "-vv"], &["-q"]] {
            for words in [&["list"][..], &["call"]] {
                let tool: &[&str] = if words == ["call"] { &["x"] } else { &[] };
                let mut command = folder.command(&[words, options, &[name], tool].concat());
                command.env("FROM_US", marker);
                let ran = start(command).finish();
                assert_ne!(ran.code, Some(0));
                assert!(!ran.stderr.contains(marker), "{name} {options:?}: {}", ran.stderr);
                assert!(!ran.stdout.contains(marker), "{name} {options:?}: {}", ran.stdout);
            }
        }
    }
    let mut command = folder.command(&["list", "loud"]);
    command.env("FROM_US", marker);
    start(command).finish().says(&["with API_KEY, OTHER set", "stderr   *** ***"]);
    folder.line("list args").says(&["--token *** --api-key=*** API_TOKEN=***"]);
    // A secret with special characters.
    let odd = serde_json::Value::from("pa'ss\"wo\\rd\u{1b}x").to_string();
    folder.file("odd.json", servers(&format!(r#""a": {{"command": "false", "args": ["--token", {odd}]}}"#)));
    for options in [&["-v"][..], &["--json", "-q"]] {
        let ran = folder.run(&[&["list", "-c", "odd.json"], options, &["a"]].concat()).exits(4);
        assert!(!ran.stderr.contains("pa'") && !ran.stderr.contains("wo"), "{}", ran.stderr);
    }
    // A key of several lines is printed line by line.
    let key = serde_json::Value::from(format!("-----BEGIN-----\n  {marker}\n-----END-----\n"));
    folder.file(
        "key.json",
        servers(&shell("a", "echo \"$KEY\" >&2; exit 1", &format!(r#", "env": {{"KEY": {key}}}"#))),
    );
    let ran = folder.line("list -v -c key.json a").exits(4).says(&["server: ***", "stderr   ***"]);
    assert!(!ran.stderr.contains(marker), "{}", ran.stderr);
    // The trace file contains no secret either.
    let mut command = folder.command(&["list", "--trace", "trace.json", "loud"]);
    command.env("FROM_US", marker);
    start(command).finish().exits(4);
    let trace = fs::read_to_string(folder.path().join("here/trace.json")).unwrap();
    assert!(trace.contains("*** ***") && !trace.contains(marker), "{trace}");
    // A file that is cut off in the middle of a secret.
    folder.file("half.json", format!(r#"{{"mcpServers": {{"a": {{"env": {{"K": "{marker}"#));
    folder.file("half.toml", format!("[[servers]]\nname = \"a\"\nenv = \"{marker}\nx"));
    for file in ["half.json", "half.toml"] {
        let ran = folder.run(&["list", "-c", file, "a"]).exits(2).says(&["(E_CONFIG)", &format!("{file}:")]);
        assert!(!ran.stderr.contains(marker), "{}", ran.stderr);
    }
}

#[test]
fn f29_a_path_is_never_a_name_and_a_missing_one_is_never_fetched() {
    let folder = Folder::new("paths");
    let touched = folder.path().join("touched");
    let entry = shell("server", &format!("touch {}", touched.display()), "");
    folder.file(".mcp.json", servers(&[entry.clone(), entry.replace("server", "./server")].join(",")));
    // The file exists afterwards if `npx` or the entry ran.
    let npx = folder.file("bin/npx", format!("#!/bin/sh\ntouch {}\n", touched.display()));
    fs::set_permissions(&npx, fs::Permissions::from_mode(0o755)).unwrap();
    for words in [
        &["list", "./server"][..],
        &["list", "/no/server"],
        &["call", "./server", "x"],
        &["list", "a/server"],
    ] {
        let mut command = folder.command(words);
        command.env("PATH", npx.parent().unwrap());
        start(command).finish().exits(4).says(&["(E_SPAWN_NOT_FOUND)"]);
        assert!(!touched.exists(), "{words:?}");
    }
}

#[test]
fn f30_what_is_not_right_with_one_entry_hides_no_other() {
    let folder = Folder::new("hides");
    folder.file(
        ".mcp.json",
        servers(
            &[
                r#""web": {"type": "http", "url": "http://127.0.0.1:1/mcp"}"#,
                r#""old": {"type": "sse", "url": "ftp://localhost/sse"}"#,
                r#""odd": {"type": "telepathy"}"#,
                r#""empty": {}"#,
                r#""unset": {"command": "${MCPJOIN_NO_SUCH_VARIABLE}"}"#,
                &demo("twice", ""),
                &demo("twice", ""),
                &demo("good", r#", "comand": 1"#),
            ]
            .join(",\n"),
        ),
    );
    let ran = folder.line("call good echo message=hi").exits(0);
    assert_eq!(ran.stdout, "hi\n");
    ran.says(&["warning: .mcp.json:8:", "comand is unknown and not used; did you mean command?"]);
    for (name, told) in [
        ("web", &["(E_CONNECT)", "http://127.0.0.1:1/mcp"][..]),
        ("old", &["(E_CONFIG)", ".mcp.json:2:31: server old: url must begin with http:// or https://"]),
        ("odd", &["(E_CONFIG)", ".mcp.json:3:17: server odd: type must be"]),
        ("empty", &["(E_CONFIG)", ".mcp.json:4:10: server empty: needs either \"command\" or \"url\""]),
        (
            "unset",
            &[
                "(E_CONFIG)",
                ".mcp.json:5:22: server unset: the variable MCPJOIN_NO_SUCH_VARIABLE",
                "try      set",
            ],
        ),
        (
            "twice",
            &[
                "(E_CONFIG)",
                ".mcp.json:7:1: 2 entries are called twice, in lines 6, 7: the name is ambiguous",
            ],
        ),
        ("godo", &["(E_NO_ENTRY)", "did you mean good?"]),
        (
            "nothing-like-it",
            &[
                "(E_SPAWN_NOT_FOUND)",
                "nothing-like-it: no entry of that name in .mcp.json, and no program on PATH",
            ],
        ),
    ] {
        let ran = folder.run(&["list", name]).says(told);
        let nobody = matches!(name, "nothing-like-it" | "godo" | "web");
        assert_eq!(ran.code, Some(if nobody { 4 } else { 2 }), "{name}");
    }
    // A single unknown word fails like one with arguments. The message adds what else the word could have been.
    for words in ["list nothing-like-it", "ping nothing-like-it", "validate nothing-like-it"] {
        folder
            .line(words)
            .exits(4)
            .says(&["no entry of that name in .mcp.json, and no program", "use an entry (mcpjoin servers"]);
    }
    let ran = folder.line("list nothing-like-it argument").exits(4);
    assert!(!ran.stderr.contains("entry"), "{}", ran.stderr);
    folder
        .line("call nothing-like-it x")
        .exits(2)
        .says(&["(E_NO_ENTRY)", "the entries are web, old, odd, empty"]);
    folder
        .line("list .mcp.json#godo")
        .exits(2)
        .says(&["godo: no entry of that name in .mcp.json", "did you mean good?"]);
}

#[test]
fn f31_the_file_that_was_named_is_the_one_and_the_order_is_as_documented() {
    let folder = Folder::new("order");
    // Each entry prints the name of its file.
    let write = |path: &str, says: &str| {
        let script = format!("echo {says}-was-used >&2; exit 1");
        let text = match path.ends_with("toml") {
            true => format!(
                "[[servers]]\nname = \"a\"\ntransport = {{ type = \"stdio\", command = \"sh\", args = [\"-c\", \"{script}\"] }}\n"
            ),
            false => servers(&shell("a", &script, "")),
        };
        folder.file(path, text)
    };
    let named = write("named.json", "named");
    let variable = write("variable.toml", "variable");
    let order = [
        (write(".mcp.json", "here-json"), "here-json"),
        (write("mcp_servers.toml", "here-toml"), "here-toml"),
        (write("../config/mcp/mcp_servers.toml", "config"), "config"),
        (write("../mcp_servers.toml", "home"), "home"),
    ];
    let run = |words: &[&str], variable: Option<&Path>| {
        let mut command = folder.command(words);
        if let Some(variable) = variable {
            command.env("MCP_CONFIG_PATH", variable);
        }
        start(command).finish()
    };
    let named = named.to_str().unwrap();
    for file in [None, Some(variable.as_path()), Some(Path::new("/no/such/file"))] {
        run(&["list", "-c", named, "a"], file).exits(4).says(&["named-was-used"]);
        run(&["list", &format!("{named}#a")], file).exits(4).says(&["named-was-used"]);
        // A missing file that was named is an error: no other file is used instead.
        run(&["list", "-c", "missing.json", "a"], file).exits(2).says(&["missing.json: ", "(E_CONFIG)"]);
        run(&["list", "missing.json#a"], file).exits(2).says(&["missing.json: ", "(E_CONFIG)"]);
    }
    run(&["list", "a"], Some(&variable)).exits(4).says(&["variable-was-used"]);
    run(&["list", "a"], Some(Path::new("/no/such/file"))).exits(2).says(&["/no/such/file: ", "(E_CONFIG)"]);
    run(&["list", "a"], Some(Path::new(""))).exits(4).says(&["here-json-was-used"]);
    for (path, says) in order {
        let ran = folder.line("list -v a").exits(4).says(&[&format!("{says}-was-used")]);
        // A file found in the working directory was not chosen by the user, so it is named.
        assert_eq!(
            folder.line("list a").exits(4).stderr.contains("a of "),
            says.starts_with("here"),
            "{}",
            ran.stderr
        );
        fs::remove_file(path).unwrap();
    }
    folder
        .line("call a x")
        .exits(2)
        .says(&["no configuration contains", "mcpjoin call a x -- COMMAND [ARG]..."]);
}

#[test]
fn rule_4_an_entry_goes_before_a_program_and_that_is_said() {
    let folder = Folder::new("both");
    folder.file(".mcp.json", servers(&[demo("sh", ""), demo("none-such-program", "")].join(",")));
    folder
        .line("list sh")
        .exits(0)
        .says(&["sh is both an entry of .mcp.json and a program", "-- sh is the program"]);
    let ran = folder.line("list none-such-program").exits(0);
    assert!(!ran.stderr.contains("the entry is used"), "{}", ran.stderr);
    // With further words, or after `--`, the word is the program.
    for words in [
        &["list", "sh", "-c", "echo program >&2; exit 1"][..],
        &["list", "--", "sh", "-c", "echo program >&2; exit 1"],
    ] {
        folder.run(words).exits(4).says(&["stderr   program"]);
    }
    // A file that was named with `-c` should have contained the entry.
    folder
        .line("list -c .mcp.json false")
        .exits(4)
        .says(&["false: no entry of that name in .mcp.json: it is used as a program"]);
    // A word that is no entry is a program, and the file is not mentioned.
    let ran = folder.run(&["list", "false"]).exits(4);
    assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
}

#[test]
fn what_an_unasked_file_runs_is_said_before_it_runs() {
    let folder = Folder::new("said");
    folder.file(
        ".mcp.json",
        servers(&shell(
            "a",
            "echo started >&2; exit 1",
            r#", "env": {"LD_PRELOAD": ""}, "cwd": "/", "disabled": true"#,
        )),
    );
    let ran = folder.line("list -v a").exits(4);
    let said =
        ran.stderr.find("a of .mcp.json:1:17: sh -c 'echo started >&2; exit 1', in /, with LD_PRELOAD set");
    assert!(said.unwrap() < ran.stderr.find("server: started").unwrap(), "{}", ran.stderr);
    ran.says(&["a is disabled, but used because it is named"]);
    // A file that the user chose is named only on request.
    let ran = folder.line("list -c .mcp.json a").exits(4);
    assert!(!ran.stderr.contains("a of .mcp.json"), "{}", ran.stderr);
}

#[test]
fn i172_files_of_every_kind_end_with_a_clear_message() {
    let folder = Folder::new("kinds");
    let good = servers(&shell("a", "echo was-used >&2; exit 1", ""));
    folder.file("directory/x", "");
    symlink("loop.json", folder.path().join("here/loop.json")).unwrap();
    symlink("nothing", folder.path().join("here/dangling.json")).unwrap();
    folder.file("large.json", good.clone() + &" ".repeat(10 << 20));
    folder.file("full.json", good.clone() + &" ".repeat((10 << 20) - good.len()));
    folder.file("binary.json", b"{\n\"a\xff");
    folder.file("utf16.json", b"\xff\xfe{\0}\0");
    folder.file("syntax.json", "{\r\n \"mcpServers\": {\r\n  \"a\" 1}}");
    folder.file("syntax.toml", "\n[[servers]\n");
    folder.file("other.json", "{\"colours\": {}}");
    for (file, told) in [
        ("directory", "directory: this is a directory"),
        ("loop.json", "loop.json: Too many levels of symbolic links"),
        ("dangling.json", "dangling.json: No such file"),
        ("/proc/self/mem", "/proc/self/mem: Input/output error"),
        ("/dev/zero", "/dev/zero: larger than the limit of 10 MiB"),
        ("large.json", "large.json: larger than the limit of 10 MiB"),
        ("binary.json", "binary.json:2:3: this is not UTF-8"),
        ("utf16.json", "utf16.json:1:1: this is UTF-16"),
        ("syntax.json", "syntax.json:3:7: invalid JSON: "),
        ("syntax.toml", "syntax.toml:2:11: invalid TOML: "),
        ("other.json", "other.json:1:1: no \"mcpServers\" key"),
    ] {
        folder.run(&["list", "-c", file, "a"]).exits(2).says(&[told, "(E_CONFIG)"]);
        let failure = folder.run(&["call", "--json", "-c", file, "a", "x"]).exits(2).failure();
        assert_eq!(failure["id"], "E_CONFIG", "{file}");
        assert!(failure["message"].as_str().unwrap().starts_with(told), "{failure}");
    }
    folder.line("list -c full.json a").exits(4).says(&["was-used"]);

    let open = folder.file("open.json", &good);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).unwrap();
    folder
        .line("list -c open.json a")
        .exits(4)
        .says(&["warning: all users can write to open.json", "was-used"]);

    // The number of warnings about unknown keys is limited.
    let many: Vec<String> = (0..1000).map(|key| format!("\"k{key}\": 1")).collect();
    folder.file("many.json", servers(&shell("a", "exit 1", &format!(", {}", many.join(",")))));
    let ran = folder.line("list -c many.json a").exits(4).says(&["warning: 990 more of many.json"]);
    assert_eq!(ran.stderr.matches("warning: ").count(), 11);

    // A pipe is read if it is named.
    let mut command = folder.command(&["list", "-c", "/dev/stdin", "a"]);
    command.stdin(Stdio::piped());
    let mut running = start(command);
    std::io::Write::write_all(&mut running.child.stdin.take().unwrap(), good.as_bytes()).unwrap();
    running.finish().exits(4).says(&["was-used"]);
}

#[test]
fn i172_a_broken_file_that_was_not_chosen_does_not_affect_others() {
    let folder = Folder::new("broken");
    folder.file("mcp_servers.toml", toml("good", ""));
    let broken = folder.path().join("here/.mcp.json");
    for kind in ["text", "directory", "pipe", "loop"] {
        match kind {
            "text" => fs::write(&broken, "{").unwrap(),
            "directory" => fs::create_dir(&broken).unwrap(),
            // A pipe without a writer.
            "pipe" => assert!(Command::new("mkfifo").arg(&broken).status().unwrap().success()),
            _ => symlink(&broken, &broken).unwrap(),
        }
        folder.line("list good").exits(0).says(&["warning: .mcp.json"]);
        folder.line("list false").exits(4).says(&["warning: .mcp.json", "(E_SERVER_EXITED)"]);
        folder.line("list no-such-thing").exits(4).says(&[
            "warning: .mcp.json",
            "no-such-thing: no entry of that name in 1 configuration file, and 1 more cannot be read",
        ]);
        // A target that is not an entry reads no configuration file.
        for words in ["list demo:", "call demo: echo message=hi", "list -- false"] {
            assert!(!folder.line(words).stderr.contains(".mcp.json"), "{kind} {words}");
        }
        if kind == "directory" { fs::remove_dir(&broken).unwrap() } else { fs::remove_file(&broken).unwrap() }
    }
}
