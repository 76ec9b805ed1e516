//! Tests of the file of tool names: what is kept of what a server lists, and that invalid content has no effect.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mcpjoin::proto::Raw;

use super::{
    FORMAT, MAX_FILE_BYTES, MAX_NAME_BYTES, MAX_SERVER_BYTES, MAX_SERVERS, Servers, ToolNames, add, identity,
};
use crate::config::ToolFilter;
use crate::object::Object;
use crate::target::{Named, Target};

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcpjoin-tool-names-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn server(&self, server: usize) -> ToolNames {
        let file = self.0.join("cache").join("mcpjoin").join("tools");
        ToolNames { file, server: server.to_be_bytes().to_vec() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What is kept of a page of tools: names, and the names of their parameters.
fn kept(tools: &[(&str, &[&str])]) -> String {
    let tool = |(name, parameters): &(&str, &[&str])| {
        let properties: serde_json::Map<_, _> =
            parameters.iter().map(|name| ((*name).to_owned(), serde_json::json!({}))).collect();
        serde_json::json!({"name": name, "inputSchema": {"type": "object", "properties": properties}})
    };
    let tools: Vec<_> = tools.iter().map(tool).collect();
    let page = Raw::from_value(&serde_json::json!({"tools": tools})).unwrap();
    let mut listed = String::new();
    add(&mut listed, &Object::of(&page).unwrap(), &ToolFilter::default());
    listed
}

#[test]
fn only_names_of_plain_characters_are_kept() {
    let long = "n".repeat(MAX_NAME_BYTES);
    let longer = "n".repeat(MAX_NAME_BYTES + 1);
    let listed = kept(&[
        ("read_file", &["path", "a b", "$(reboot)", "--x", "a-b"]),
        ("ns/tool.v1", &[]),
        (&long, &[]),
        (&longer, &[]),
        ("", &[]),
        ("-rf", &[]),
        ("a b", &[]),
        ("`reboot`", &[]),
        ("$(reboot)", &[]),
        ("a;b", &[]),
        ("a\nb", &[]),
        ("a\u{1b}[2J", &[]),
        ("a:b", &[]),
        ("a'b", &[]),
        ("ä", &[]),
        ("x(y)", &[]),
    ]);
    assert_eq!(listed, format!("read_file(path,a-b) ns/tool.v1() {long}()"));
}

#[test]
fn the_names_of_a_server_have_64_kib_at_most() {
    let name = "n".repeat(MAX_NAME_BYTES);
    let tools: Vec<_> = (0..1000).map(|_| (name.as_str(), &[][..])).collect();
    let listed = kept(&tools);
    assert!(listed.len() <= MAX_SERVER_BYTES && listed.len() > MAX_SERVER_BYTES - 2 * MAX_NAME_BYTES);
    let parameters: Vec<String> = (0..MAX_SERVER_BYTES).map(|number| number.to_string()).collect();
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    assert_eq!(kept(&[("a", &[]), ("large", &parameters), ("b", &[])]), "a()");
}

#[test]
fn the_tools_that_were_listed_last_are_kept_and_the_servers_are_bounded() {
    let folder = Folder::new("kept");
    assert!(folder.server(0).read().is_empty());
    folder.server(0).store("", true).unwrap();
    assert!(!folder.0.join("cache").exists(), "there was nothing to keep");

    let names =
        |server| -> Vec<String> { folder.server(server).read().into_iter().map(|(name, _)| name).collect() };
    folder.server(0).store("a(x,y) b()", false).unwrap();
    assert_eq!(folder.server(0).read()[0], ("a".to_owned(), vec!["x".to_owned(), "y".to_owned()]));
    assert_eq!(names(0), ["a", "b"]);
    // The first page alone does not replace all of them.
    folder.server(0).store("a(x,y)", false).unwrap();
    assert_eq!(names(0), ["a", "b"]);
    folder.server(0).store("c()", true).unwrap();
    assert_eq!(names(0), ["c"]);
    folder.server(0).store("", true).unwrap();
    assert!(names(0).is_empty() && names(1).is_empty());

    for number in 1..=MAX_SERVERS + 10 {
        folder.server(number).store("a()", true).unwrap();
    }
    assert!(names(10).is_empty());
    assert_eq!(names(11), ["a"]);
    let file = folder.server(0).file;
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let around = file.parent().unwrap();
    assert_eq!(fs::metadata(around).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read_dir(around).unwrap().count(), 1, "temporary files are left");
}

#[test]
fn the_file_has_1_mib_at_most() {
    let folder = Folder::new("large");
    let large = format!("a({})", "p,".repeat(MAX_SERVER_BYTES / 2 - 2));
    for number in 0..20 {
        folder.server(number).store(&large, true).unwrap();
    }
    let file = folder.server(0).file;
    assert!(fs::metadata(&file).unwrap().len() <= MAX_FILE_BYTES);
    assert!(folder.server(0).read().is_empty() && !folder.server(19).read().is_empty());
    // A larger file is none of ours.
    let sound = fs::read(&file).unwrap();
    let with = |bytes: usize| {
        let line = format!("{:0>64} ", 0);
        [&sound, line.as_bytes(), &vec![b' '; bytes - sound.len() - line.len()]].concat()
    };
    fs::write(&file, with(1 << 20)).unwrap();
    assert!(Servers::<String>::read(&file, &FORMAT).is_some());
    fs::write(&file, with((1 << 20) + 1)).unwrap();
    assert!(Servers::<String>::read(&file, &FORMAT).is_none());
}

#[test]
fn a_damaged_file_of_tools_completes_nothing_that_a_shell_obeys_and_is_replaced() {
    let folder = Folder::new("damaged");
    folder.server(0).store("a(x)", true).unwrap();
    let file = folder.server(0).file;
    let sound = fs::read_to_string(&file).unwrap();
    fs::write(&file, sound.replace("a(x)", "$(reboot) ok($x,y) `a`() b")).unwrap();
    assert_eq!(folder.server(0).read(), [("ok".to_owned(), vec!["y".to_owned()])]);
    let mut damaged: Vec<Vec<u8>> = vec![Vec::new(), b"\xff\xfe".to_vec(), vec![b'x'; 2 << 20]];
    damaged.extend((0..sound.len()).map(|end| sound.as_bytes()[..end].to_vec()));
    for content in damaged {
        fs::write(&file, &content).unwrap();
        let _ = folder.server(0).read();
        folder.server(1).store("b()", true).unwrap();
        assert_eq!(folder.server(1).read(), [("b".to_owned(), vec![])]);
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(folder.server(1).store("b()", true).is_err() && folder.server(1).read().is_empty());
}

#[test]
fn two_projects_may_have_entries_of_one_name() {
    let entry = |name: &str| {
        Target::Entry(Named { file: None, name: name.into(), or_program: false, instead: String::new() })
    };
    let of = |name, file| identity(&entry(name), Some(Path::new(file))).unwrap();
    assert_ne!(of("files", "/a/.mcp.json"), of("files", "/b/.mcp.json"));
    assert_ne!(of("files", "/a/.mcp.json"), of("memory", "/a/.mcp.json"));
    assert_eq!(of("files", "/a/.mcp.json"), of("files", "/a/.mcp.json"));
    assert_ne!(Some(of("files", "/a/.mcp.json")), identity(&entry("files"), None));
    let command = |args: &[&str]| {
        let args = args.iter().map(|arg| (*arg).into()).collect();
        identity(&Target::Command { program: "npx".into(), args }, None)
    };
    assert_ne!(command(&["a", "b"]), command(&["a b"]));
}
