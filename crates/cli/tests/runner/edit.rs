//! Tests of `mcpjoin servers add` and `mcpjoin servers remove`: what is written, what is kept, and what is asked.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::config::Folder;
use super::support::{program, start};
use super::terminal;

const MINE: &str = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\", \"env\": { \"KEY\": \"hunter2hunter2\" } }, // first\n  },\n}\n";

#[test]
fn an_entry_is_written_into_the_file_with_a_copy_of_the_old_one_and_removed_again() {
    let folder = Folder::new("edit");
    let file = folder.file(".mcp.json", MINE);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let add = [
        "servers",
        "add",
        "--yes",
        "-e",
        "API_KEY=hunter3hunter3",
        "-e",
        "HOME",
        "b",
        "--",
        "npx",
        "-y",
        "pkg",
    ];
    let ran = folder.run(&add).exits(0);
    assert_eq!(ran.stdout, "added: b in .mcp.json (backup: .mcp.json.mcpjoin-backup)\n");
    assert!(!ran.stderr.contains("hunter"), "{}", ran.stderr);
    let ran = ran.says(&["+     \"b\": {\n", "set API_KEY, or write the values with --values"]);
    assert!(!ran.stderr.contains("- "), "{}", ran.stderr);
    let text = fs::read_to_string(&file).unwrap();
    for part in
        ["// mine", "// first", "hunter2hunter2", "\"API_KEY\": \"${API_KEY}\"", "\"HOME\": \"${HOME}\""]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    let backup = folder.path().join("here/.mcp.json.mcpjoin-backup");
    assert_eq!(fs::read_to_string(&backup).unwrap(), MINE);
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o640);
    let json = folder.run(&["servers", "--json", "b"]).exits(2).json();
    assert_eq!(json["files"][0]["servers"][0]["values"][0]["text"], "npx", "{json}");

    folder
        .run(&add)
        .exits(2)
        .says(&["b is already an entry of .mcp.json", "try      mcpjoin servers remove b"]);
    let json = folder.run(&["servers", "remove", "--json", "-y", "b"]).exits(0).json();
    assert_eq!((&json["entry"], &json["file"]), (&"b".into(), &".mcp.json".into()));
    // Blanks and the last comma aside.
    let squeezed = |text: &str| text.replace(',', "").split_whitespace().collect::<String>();
    assert_eq!(squeezed(&fs::read_to_string(&file).unwrap()), squeezed(MINE));
    // The secret of an entry that goes is not shown.
    let ran = folder.run(&["servers", "remove", "a"]).exits(2);
    assert!(!ran.stderr.contains("hunter2") && ran.stderr.contains("KEY"), "{}", ran.stderr);
    ran.says(&["nothing was written: there is no terminal for the question", "--yes writes the file"]);
    folder.run(&["servers", "remove", "-y", "nobody"]).exits(2).says(&["there is no entry nobody"]);
}

#[test]
fn a_hint_names_the_file_that_was_named() {
    let folder = Folder::new("edit-hints");
    folder.file("mine.json", MINE);
    for (words, said) in [
        (
            &["servers", "remove", "-c", "mine.json", "no"][..],
            &["mine.json contains no entry no", "try      mcpjoin servers --config mine.json lists"][..],
        ),
        (
            &["servers", "remove", "-c", "none.json", "a"],
            &["none.json: No such file", "name another file with --config"],
        ),
        (&["servers", "remove", "--from", "cursor", "a"], &[".cursor/mcp.json: No such file"]),
        (&["servers", "-c", "mine.json", "no"], &["try      mcpjoin servers --config mine.json lists"]),
        (
            &["servers", "convert", "--to", "codex", "-c", "mine.json", "no"],
            &["try      mcpjoin servers --config mine.json lists"],
        ),
        (
            &["servers", "add", "-c", "mine.json", "-y", "a", "--", "x"],
            &["try      mcpjoin servers remove --config mine.json a"],
        ),
    ] {
        folder.run(words).exits(2).says(said);
    }
}

#[test]
fn the_file_of_a_program_is_written_in_its_dialect() {
    let folder = Folder::new("edit-programs");
    for (program, file, part) in [
        ("claude", ".mcp.json", "\"type\": \"http\""),
        ("cursor", ".cursor/mcp.json", "\"url\": \"https://h/mcp\""),
        ("vscode", ".vscode/mcp.json", "\"servers\""),
        ("gemini", ".gemini/settings.json", "\"httpUrl\": \"https://h/mcp\""),
        ("zed", ".zed/settings.json", "\"context_servers\""),
        ("windsurf", "../.codeium/windsurf/mcp_config.json", "\"serverUrl\": \"https://h/mcp\""),
        ("codex", ".codex/config.toml", "[mcp_servers.web]\nurl = \"https://h/mcp\"\n"),
        ("opencode", "opencode.json", "\"type\": \"remote\""),
        ("mcporter", "config/mcporter.json", "\"mcpServers\""),
    ] {
        folder.run(&["servers", "add", "--to", program, "-y", "web", "https://h/mcp"]).exits(0);
        let file = folder.path().join("here").join(file);
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(text.contains(part), "{program}: {text}");
        let shown = folder.run(&["servers", "--config", file.to_str().unwrap()]).exits(0).stdout;
        assert!(shown.contains("web") && !shown.contains("warning"), "{program}: {shown}");
        folder.run(&["servers", "remove", "--from", program, "-y", "web"]).exits(0);
        assert!(!fs::read_to_string(&file).unwrap().contains("https://h/mcp"), "{program}");
    }
    folder.run(&["servers", "add", "--to", "nano", "-y", "web", "https://h/mcp"]).exits(2);
    folder.run(&["servers", "add", "web"]).exits(2).says(&["mcpjoin servers add web URL"]);
    folder.run(&["servers", "cursor"]).exits(2).says(&["try      mcpjoin servers --config .cursor/mcp.json"]);
}

#[test]
fn a_full_disk_leaves_no_part_of_a_new_file() {
    let folder = Folder::new("edit-full");
    let limited = "trap '' XFSZ; ulimit -f 0; exec \"$0\" servers add --to cursor -y web https://h/mcp";
    let mut limited = program("sh", ["-c", limited, env!("CARGO_BIN_EXE_mcpjoin")]);
    folder.place(&mut limited);
    start(limited).finish().exits(2).says(&["mcp.json was not written: File too large"]);
    assert!(!folder.path().join("here/.cursor/mcp.json").exists());
}

#[test]
fn the_user_is_asked_and_a_link_stays_a_link() {
    let folder = Folder::new("edit-asks");
    let real = folder.file("../dotfiles/mcp.json", "{\"mcpServers\": {}}\n");
    let link = folder.path().join("here/.mcp.json");
    symlink(&real, &link).unwrap();
    let asked = |answer: &str| {
        let mut terminal = terminal::typed(
            "[N]o ",
            answer,
            &["servers", "add", "a", "--", "./server", "--token", "hunter2hunter2"],
        );
        folder.place(&mut terminal);
        let told = start(terminal).finish().exits(0).json();
        (told["exit"].as_i64(), fs::read_to_string(&real).unwrap())
    };
    let (exit, text) = asked("n\n");
    assert_eq!((exit, text.as_str()), (Some(2), "{\"mcpServers\": {}}\n"));
    let (exit, text) = asked("y\n");
    assert_eq!(exit, Some(0), "{text}");
    let program = folder
        .path()
        .join("here/server")
        .canonicalize()
        .unwrap_or_else(|_| folder.path().join("here").canonicalize().unwrap().join("server"));
    assert!(text.contains(&*program.to_string_lossy()) && text.contains("${A_SECRET}"), "{text}");
    assert!(!text.contains("hunter2") && link.is_symlink(), "{text}");
}

#[test]
fn a_file_that_cannot_be_used_is_not_written() {
    let folder = Folder::new("edit-broken");
    for text in ["{\"mcpServers\": {", "[]", "{\"mcpServers\": 7}"] {
        let file = folder.file(".mcp.json", text);
        folder.run(&["servers", "add", "-y", "a", "https://h/mcp"]).exits(2).says(&["(E_CONFIG)"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

#[test]
fn a_change_shows_no_secret_of_a_neighbour() {
    let folder = Folder::new("edit-neighbour");
    folder.file(
        ".mcp.json",
        "{\n\"token\": \"hunter2hunter2\",\n\"mcpServers\": {\n\"a\": {\"command\": \"x\", \"env\": {\"K\": \"hunter3hunter3\"}}\n}}",
    );
    for words in [&["servers", "add", "-y", "b", "https://h/mcp"][..], &["servers", "remove", "-y", "b"]] {
        let ran = folder.run(words).exits(0);
        assert!(ran.stderr.contains("\"b\": {") && !ran.stderr.contains("hunter"), "{}", ran.stderr);
    }
}

/// Gemini's timeout is in milliseconds, and its own name is read and written.
#[test]
fn the_timeout_of_gemini_is_used_and_that_of_others_explained() {
    let folder = Folder::new("edit-timeout");
    let entry = r#"{"mcpServers": {"a": {"command": "true", "timeout": 30000}}}"#;
    folder.file(".gemini/settings.json", entry);
    let shown = folder.run(&["servers"]).exits(0).stdout;
    assert!(shown.starts_with(".gemini/settings.json gemini\n") && !shown.contains("warning"), "{shown}");
    let toml = folder.run(&["servers", "convert", "--to", "codex"]).exits(0).stdout;
    assert!(toml.contains("tool_timeout_sec = 30\n"), "{toml}");
    folder.file(".mcp.json", entry.replace("\"a\"", "\"b\""));
    let shown = folder.run(&["servers", "b"]).exits(0).stdout;
    assert!(
        shown.contains("timeout is not used, because its unit differs between programs: use --timeout"),
        "{shown}"
    );
}

#[test]
fn a_value_that_is_typed_is_written_or_named_and_no_option_is_dropped() {
    let folder = Folder::new("edit-typed");
    let add = |words: &[&str]| folder.run(&[&["servers", "add", "--yes"], words].concat());
    let file = folder.path().join("here/.mcp.json");
    let ran =
        add(&["a", "-e", "LOG_LEVEL=debug", "-e", "ROOT=/srv", "-e", "API_KEY=x", "--", "cat"]).exits(0);
    ran.says(&[
        "+         \"LOG_LEVEL\": \"debug\",\n",
        "written as typed: the values of LOG_LEVEL, ROOT\n",
        "values that may be secrets were replaced by variables: set API_KEY, or write the values with --values",
    ]);
    let text = fs::read_to_string(&file).unwrap();
    for part in [r#""LOG_LEVEL": "debug""#, r#""ROOT": "/srv""#, r#""API_KEY": "${API_KEY}""#] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    // A value that looks like a token is a secret under every name.
    add(&["b", "-e", "X=0123456789abcdef0123", "-e", "Y=https://me:pass@h/", "-e", "Z=$${A}", "--", "cat"])
        .exits(0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("0123456789") && !text.contains("pass@"), "{text}");
    // With -q, too.
    let ran = folder.run(&["servers", "add", "-q", "-y", "c", "-e", "TOKEN=x", "--", "cat"]).exits(0);
    ran.says(&["set TOKEN"]);
    let before = fs::read_to_string(&file).unwrap();
    for (words, problem) in [
        (
            &["d", "-H", "K: V", "--", "cat"][..],
            "--header is for a server over HTTP, and cat is run as a child",
        ),
        (
            &["d", "-H", "K: V", "tcp://h:1"],
            "--header is for a server over HTTP, and tcp://h:1 is a server on a socket",
        ),
        (
            &["d", "-e", "K=V", "http://h/mcp"],
            "-e is for a server run as a child, and http://h/mcp speaks over HTTP",
        ),
        (&["d", "--cwd", "/", "http://h/mcp"], "--cwd is for a server run as a child"),
    ] {
        add(words).exits(2).says(&[problem]);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    // The header of a server over HTTP.
    add(&["e", "-H", "K: V", "http://h/mcp"]).exits(0).says(&["set E_K, or write the values with --values"]);
    add(&["f", "--values", "-H", "K: V", "-e", "TOKEN=x", "http://h/mcp"]).exits(2);
    add(&["f", "--values", "-H", "K: V", "http://h/mcp"]).exits(0);
    assert!(fs::read_to_string(&file).unwrap().contains(r#""K": "V""#));
    add(&["g", "sse+http://h/sse"]).exits(0);
    assert!(fs::read_to_string(&file).unwrap().contains(r#""type": "sse""#));
}
