//! Tests of the pages for users of other programs (`docs/from-mcplint.md`, `docs/from-mcp-cli.md`). Every command in their
//! tables is run, every JSON member is looked up, and every command and flag of those programs must occur.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;

use serde_json::Value;

use super::config::Folder;
use super::sockets::Demo;
use super::support::{Ran, program, start};

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");

/// The number of commands that run at the same time: they mostly wait for servers.
const AT_ONCE: usize = 4;

/// A parsed page.
struct Page {
    text: String,
    /// Each table: its heading, and the cells of each row below it.
    tables: Vec<(Vec<String>, Vec<Vec<String>>)>,
}

/// The cells of a row. A `|` between backticks is escaped.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.replace("\\|", "\0").split('|').map(|cell| cell.trim().replace('\0', "|")).collect()
}

/// The texts between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

impl Page {
    fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        let mut tables: Vec<(Vec<String>, Vec<Vec<String>>)> = Vec::new();
        let mut before = "";
        for line in text.lines() {
            match line.starts_with('|') {
                true if !before.starts_with('|') => tables.push((cells(line), Vec::new())),
                true if !line.starts_with("|---") => tables.last_mut().unwrap().1.push(cells(line)),
                _ => {}
            }
            before = line;
        }
        Self { text, tables }
    }

    /// The rows of every table with that heading in the second and third column.
    fn rows(&self, second: &str, third: &str) -> Vec<&[String]> {
        let wanted = |heading: &[String]| heading.len() == 3 && heading[1] == second && heading[2] == third;
        let tables = self.tables.iter().filter(|(heading, _)| wanted(heading));
        tables.flat_map(|(_, rows)| rows).map(Vec::as_slice).collect()
    }

    /// The code block of that language.
    fn block(&self, language: &str) -> &str {
        let from = self.text.split_once(&format!("```{language}\n")).unwrap().1;
        from.split_once("```").unwrap().0
    }
}

/// A working directory with everything the pages mention: the demonstration server under every name.
struct Surroundings {
    folder: Folder,
    url: String,
    server: Demo,
}

impl Surroundings {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
        for script in ["bin/npx", "bin/node", "bin/python3", "server"] {
            let path = folder.file(script, format!("#!/bin/sh\nexec {BINARY} serve demo --full\n"));
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let binary = folder.path().join("here/bin/mcpjoin");
        std::os::unix::fs::symlink(BINARY, binary).unwrap();
        Self { folder, url, server }
    }

    /// Runs a command line in a shell.
    fn run(&self, line: &str) -> Ran {
        let line = line.replace("http://127.0.0.1:8080/mcp", &self.url);
        // One era is enough to see that a server is validated, and takes a third of the time.
        let checks = !line.contains("--rules") && !line.contains("--help");
        let line = if checks { line.replace("validate ", "validate --era modern ") } else { line };
        let mut command = program("sh", ["-c", &line]);
        self.folder.place(&mut command);
        let bin = self.folder.path().join("here/bin");
        let path = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).unwrap();
        command.env("PATH", path).env("SEARCH_TOKEN", "planted-token");
        start(command).finish()
    }

    /// Runs these command lines, several at the same time, and returns the result of each.
    fn run_all<'a>(&self, lines: &[&'a str]) -> BTreeMap<&'a str, Ran> {
        let (left, done) = (Mutex::new(lines.to_vec()), Mutex::new(BTreeMap::new()));
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    loop {
                        let Some(line) = left.lock().unwrap().pop() else { return };
                        let ran = self.run(line);
                        done.lock().unwrap().insert(line, ran);
                    }
                });
            }
        });
        done.into_inner().unwrap()
    }
}

/// The value at a path such as `.servers[0].name`.
fn at<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let pointer = path.replace(['.', '['], "/").replace(']', "");
    document.pointer(&pointer)
}

/// Checks a page by running its commands. `known`: every command of the other program, and its flags.
fn hold(name: &str, surroundings: Surroundings, known: &[(&str, &str)]) {
    let page = Page::read(name);
    let rows = page.rows("mcpjoin", "exit code");
    for (command, flags) in known {
        let of_command: String = rows
            .iter()
            .map(|row| row[0].as_str())
            .filter(|cell| cell.trim_start_matches('`').starts_with(command))
            .collect();
        assert!(!of_command.is_empty(), "{name}: {command:?} has no row");
        let words: Vec<&str> = quoted(&of_command).into_iter().flat_map(|quoted| quoted.split(' ')).collect();
        for flag in flags.split_whitespace() {
            let there = |word: &&str| {
                *word == flag || word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))
            };
            assert!(words.iter().any(there), "{name}: {command} {flag} has no row: {of_command}");
        }
    }

    let (commands, others): (Vec<&[String]>, Vec<&[String]>) = rows.iter().partition(|row| {
        quoted(&row[1]).first().is_some_and(|first| first.contains("mcpjoin ")) && row[2] != "–"
    });
    for row in others {
        assert!(row[1].starts_with("not in scope: ") && row[2] == "–", "{name}: {row:?}");
    }
    let shapes = page.rows("ours", "of");
    let mut lines: Vec<&str> = commands.iter().map(|row| quoted(&row[1])[0]).collect();
    lines.extend(shapes.iter().filter_map(|row| quoted(&row[2]).first().copied()));
    lines.extend(page.text.lines().filter_map(|line| line.strip_prefix("$ ")));
    lines.sort_unstable();
    lines.dedup();
    let ran = surroundings.run_all(&lines);

    for row in &commands {
        assert_eq!(quoted(&row[1]).len(), 1, "{name}: {row:?}");
        let ran = &ran[quoted(&row[1])[0]];
        let code = ran.code.map(|code| code.to_string()).unwrap_or_default();
        // The findings of `doctor` depend on the machine, so a row can allow several exit codes.
        assert!(row[2].split(" or ").any(|known| known == code), "{name}: {row:?}: {code} {}", ran.stderr);
    }
    for line in page.text.lines().filter_map(|line| line.strip_prefix("$ ")) {
        assert_eq!(ran[line].code, Some(0), "{line}: {}", ran[line].stderr);
    }
    let mut found = 0;
    for row in &shapes {
        let Some(command) = quoted(&row[2]).first().copied() else {
            assert_eq!(row[2], "–", "{name}: {row:?}");
            continue;
        };
        let document = ran[command].json();
        // The first path is looked up. A path after `and` is a sibling.
        let path = quoted(&row[1])[0];
        assert!(at(&document, path).is_some(), "{name}: {path} is not in {document}");
        found += 1;
    }
    assert!(commands.len() > 15 && found > 5, "{name}: {} commands, {found} members", commands.len());

    assert!(rows.len() > 25, "{}", rows.len());
    surroundings.server.ends("TERM", 143);
}

#[test]
fn r84_every_command_of_mcp_cli_has_its_counterpart_and_the_page_is_true() {
    let surroundings = Surroundings::new("from-mcp-cli");
    let page = Page::read("from-mcp-cli.md");
    let configuration = page.block("toml").replace("http://127.0.0.1:8080/mcp", &surroundings.url);
    surroundings.folder.file("mcp_servers.toml", &configuration);
    // The output in that dialect can be read again, and has the same meaning.
    let written = surroundings.run("mcpjoin servers convert --values --to servers-toml").exits(0).stdout;
    surroundings.folder.file("written.toml", &written);
    let shown = |file: &str| {
        let json = surroundings.run(&format!("mcpjoin servers --json --config {file}")).exits(0).json();
        let mut servers = json["files"][0]["servers"].clone();
        for server in servers.as_array_mut().unwrap() {
            server["line"] = Value::Null;
            for value in server["values"].as_array_mut().unwrap() {
                value["line"] = Value::Null;
            }
        }
        servers
    };
    assert_eq!(shown("mcp_servers.toml"), shown("written.toml"), "{written}");
    // A key that the page lists is a known key.
    assert!(!surroundings.run("mcpjoin servers").exits(0).stdout.contains("not known"));
    hold(
        "from-mcp-cli.md",
        surroundings,
        &[
            ("no command", ""),
            ("list", "-d --describe -v --verbose"),
            ("info NAME", ""),
            ("tool", "SERVER/TOOL -d --describe -v --verbose"),
            ("call", "SERVER/TOOL --key --flag"),
            ("search", "PATTERN -d --describe -v --verbose"),
            ("grep", "PATTERN"),
            ("daemon", "-t --ttl"),
            ("shutdown", ""),
            ("-c", "--config"),
            ("--json", ""),
            ("--no-daemon", ""),
            ("--auto-daemon", "--require-daemon"),
            ("-h", ""),
            ("-V", ""),
            ("MCP_CONFIG_PATH", ""),
        ],
    );
}

#[test]
fn r71_r72_every_command_of_mcplint_has_its_counterpart_and_the_page_is_true() {
    let surroundings = Surroundings::new("from-mcplint");
    let entry = format!(
        r#"{{"mcpServers": {{"files": {{"command": "{BINARY}", "args": ["serve", "demo", "--full"], "transport": "stdio"}}}}}}"#
    );
    surroundings.folder.file("claude_desktop_config.json", entry);
    surroundings.folder.file("known.json", r#"{"mcpjoinBaseline":1,"findings":[]}"#);
    hold(
        "from-mcplint.md",
        surroundings,
        &[
            ("-v", "-vv -vvv"),
            ("-f", "text json sarif junit gitlab html --format"),
            ("-q", "--quiet"),
            ("--version", ""),
            ("--help", ""),
            ("validate", "NAME URL -c --config -F --features -t --timeout"),
            (
                "scan",
                "-p --profile -i --include -e --exclude -t --explain --ai-provider --ai-model --baseline --save-baseline --update-baseline --diff-only --fail-on -c",
            ),
            ("multi-scan", "-s --servers --all -j --concurrency -p -t -c --fail-on"),
            (
                "fuzz",
                "-d --duration -c --corpus -i --iterations -W --workers --tools -p --profile --seed --max-memory --max-time --max-corpus --max-restarts --no-limits",
            ),
            ("init", "-o --output --force --non-interactive"),
            ("rules", "-c --category -d --details"),
            ("doctor", "-e --extended"),
            ("cache", "stats clear prune export import keys --json -c --category --force -o -i --merge"),
            (
                "explain",
                "-P --provider -m --model -a --audience -s --severity -n --max-findings --no-cache -i --interactive -t -c",
            ),
            ("watch", "-w --watch -p -d --debounce -c --clear"),
            ("servers", "-c --config"),
            ("fingerprint", "generate compare -b -c -o -t"),
            ("how-do-i", "RECIPE -s --search"),
            ("completions", "bash zsh fish powershell elvish --install"),
        ],
    );
}
