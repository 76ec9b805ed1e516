//! Tests of the era cache: it saves a request in later runs, and a wrong entry costs at most one more start.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::config::Folder;
use super::support::{Ran, start};

/// A server that records its requests, and behaves as the file `mode` says.
const SERVER: &str = r#"#!/bin/sh
reply() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while read -r line; do
    id=${line#*\"id\":}; id=${id%%[,\}]*}
    case "$(cat mode) $line" in
    legacy*server/discover*) echo probed >> asked; reply '"error":{"code":-32601,"message":"unknown"}';;
    legacy*'"initialize"'*) echo initialized >> asked
        reply '"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}';;
    dead*) echo died >> asked; exit 7;;
    *server/discover*) echo discovered >> asked
        reply '"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}';;
    refuses*'"initialize"'*) echo refused >> asked; reply '"error":{"code":-32601,"message":"unknown"}';;
    named*'"initialize"'*) echo refused >> asked
        reply '"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}';;
    garbles*'"initialize"'*) echo garbled >> asked; reply '"result":7';;
    dies*'"initialize"'*) echo died >> asked; exit 1;;
    mute*'"initialize"'*) echo ignored >> asked;;
    esac
done
if [ -e slow ]; then sleep 0.2; echo left >> asked; fi
"#;

struct Server {
    folder: Folder,
    cache: PathBuf,
}

impl Server {
    fn new(name: &str) -> Self {
        let folder = Folder::new(&format!("verdict-{name}"));
        fs::write(folder.path().join("here/server.sh"), SERVER).unwrap();
        fs::write(folder.path().join("here/mode"), "legacy").unwrap();
        let cache = folder.path().join("cache");
        Self { folder, cache }
    }

    fn mode(&self, mode: &str) {
        fs::write(self.folder.path().join("here/mode"), mode).unwrap();
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = self
            .folder
            .command(&[&["list", "--connect-timeout", "20s"], options, &["sh", "server.sh"]].concat());
        command.env("XDG_CACHE_HOME", &self.cache);
        command
    }

    #[track_caller]
    fn run(&self, options: &[&str]) -> Ran {
        start(self.command(options)).finish()
    }

    /// The requests since the last call.
    fn asked(&self) -> String {
        let path = self.folder.path().join("here/asked");
        let asked = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        asked.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn file(&self) -> PathBuf {
        self.cache.join("mcpjoin/eras")
    }
}

#[test]
fn a_legacy_server_is_probed_once() {
    let server = Server::new("once");
    server.run(&["--no-cache"]).exits(0);
    assert_eq!(server.asked(), "probed initialized");
    assert!(!server.file().exists());
    server.run(&[]).exits(0).says(&["(legacy)"]);
    assert_eq!(server.asked(), "probed initialized");
    for _ in 0..2 {
        server.run(&[]).exits(0).says(&["(legacy)"]);
        assert_eq!(server.asked(), "initialized");
    }
    // The command line overrides the cache.
    server.run(&["--no-cache"]).exits(0);
    assert_eq!(server.asked(), "probed initialized");
    server.run(&["--era", "modern"]).exits(4);
    assert_eq!(server.asked(), "probed");
    server.run(&["--era", "legacy"]).exits(0);
    assert_eq!(server.asked(), "initialized");
    // A changed program counts as another server.
    fs::write(server.folder.path().join("here/server.sh"), format!("{SERVER}# changed\n")).unwrap();
    server.run(&[]).exits(0);
    assert_eq!(server.asked(), "probed initialized");
}

#[test]
fn no_cache_uses_nothing_that_is_remembered_and_remembers_nothing() {
    let server = Server::new("no-cache");
    server.run(&[]).exits(0);
    let kept = fs::read(server.file()).unwrap();
    server.asked();
    for (options, asked) in [(&[][..], "initialized"), (&["--no-cache"], "probed initialized")] {
        server.run(options).exits(0).says(&["(legacy)"]);
        assert_eq!(server.asked(), asked, "{options:?}");
    }
    // A different result is not stored either.
    server.mode("modern");
    server.run(&["--no-cache"]).exits(0).says(&["(modern)"]);
    assert_eq!(server.asked(), "discovered");
    assert_eq!(fs::read(server.file()).unwrap(), kept);
}

#[test]
fn an_entry_is_remembered_like_its_command() {
    let server = Server::new("entry");
    let entries = r#"{"mcpServers": {"a": {"command": "sh", "args": ["server.sh"]}}}"#;
    server.folder.file(".mcp.json", entries);
    for asked in ["probed initialized", "initialized"] {
        let mut command = server.folder.command(&["list", "a"]);
        start({
            command.env("XDG_CACHE_HOME", &server.cache);
            command
        })
        .finish()
        .exits(0);
        assert_eq!(server.asked(), asked);
    }
    server.run(&[]).exits(0);
    assert_eq!(server.asked(), "initialized");
}

#[test]
fn a_wrong_verdict_costs_one_more_start_and_is_corrected() {
    let server = Server::new("wrong");
    for (mode, first, options) in [
        ("refuses", "refused discovered", &[][..]),
        ("named", "refused discovered", &[]),
        ("garbles", "garbled discovered", &[]),
        ("dies", "died discovered", &[]),
        ("mute", "ignored discovered", &["--connect-timeout", "3s"]),
    ] {
        server.mode("legacy");
        server.run(&[]).exits(0);
        server.run(&[]).exits(0);
        assert!(server.asked().ends_with("initialized initialized"), "{mode}");
        server.mode(mode);
        let mut command = server.folder.command(&[&["list"], options, &["sh", "server.sh"]].concat());
        command.env("XDG_CACHE_HOME", &server.cache);
        start(command).finish().exits(0).says(&["(modern)"]);
        assert_eq!(server.asked(), first, "{mode}");
        server.run(&[]).exits(0).says(&["(modern)"]);
        assert_eq!(server.asked(), "discovered", "{mode}");
    }
}

#[test]
fn a_server_is_gone_before_it_is_started_again() {
    let server = Server::new("again");
    server.run(&[]).exits(0);
    server.asked();
    server.mode("refuses");
    fs::write(server.folder.path().join("here/slow"), "").unwrap();
    server.run(&[]).exits(0).says(&["(modern)"]);
    assert_eq!(server.asked(), "refused left discovered left");
}

#[test]
fn a_dead_server_is_reported_as_without_memory() {
    let server = Server::new("dead");
    server.run(&[]).exits(0);
    server.mode("dead");
    let remembered = server.run(&["--json"]).exits(4).failure();
    let asked = server.asked();
    let fresh = server.run(&["--json", "--no-cache"]).exits(4).failure();
    assert!(asked.ends_with("died died died"), "{asked}");
    for member in ["id", "message", "phase", "status", "hint"] {
        assert!(!fresh[member].is_null(), "{member} is missing in {fresh}");
        assert_eq!(remembered[member], fresh[member]);
    }
    assert_eq!(fresh["status"]["code"], 7);
    // The failed run changed no cache entry.
    server.mode("legacy");
    server.asked();
    server.run(&[]).exits(0);
    assert_eq!(server.asked(), "initialized");
}

#[test]
fn i176_without_a_place_for_it_everything_works() {
    let mut server = Server::new("nowhere");
    for cache in ["/dev/null", "/proc/nothing", "/no/such/folder"] {
        server.cache = PathBuf::from(cache);
        let ran = server.run(&[]).exits(0);
        assert!(!ran.stderr.contains("error") && !ran.stderr.contains("warning"), "{cache}: {}", ran.stderr);
        assert_eq!(server.asked(), "probed initialized", "{cache}");
    }
    // A relative path is ignored, and the default path is used.
    server.cache = PathBuf::from("relative");
    server.run(&[]).exits(0);
    assert!(!server.folder.path().join("here/relative").exists());
    assert!(server.folder.path().join(".cache/mcpjoin/eras").exists());
    server.asked();
    // A file that mcpjoin did not write is no cache entry.
    server.cache = server.folder.path().join("cache");
    fs::create_dir_all(server.file()).unwrap();
    server.run(&[]).exits(0);
    fs::remove_dir(server.file()).unwrap();
    assert!(Command::new("mkfifo").arg(server.file()).status().unwrap().success());
    server.asked();
    server.run(&[]).exits(0);
    assert_eq!(server.asked(), "probed initialized");
    server.run(&[]).exits(0);
    assert_eq!(server.asked(), "initialized");
}

#[test]
fn i180_many_at_once_do_not_disturb_each_other() {
    let server = Server::new("many");
    let running: Vec<_> = (0..6).map(|_| start(server.command(&[]))).collect();
    for run in running {
        run.finish().exits(0);
    }
    server.asked();
    server.run(&[]).exits(0);
    assert_eq!(server.asked(), "initialized");
    assert_eq!(fs::read_dir(server.cache.join("mcpjoin")).unwrap().count(), 1);
}
