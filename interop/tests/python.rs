//! `mcpjoin list` and `mcpjoin call` on servers of the Python SDK, as PyPI publishes them: checks results and exit codes, in
//! the era that each uses by default (the modern one) and in the other, and that no process is left.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what is not as it should be fails the test")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use interop::{Folder, LEGACY, MODERN, Peer, first_text};

fn time() -> Peer {
    Peer::installed("venv/bin/mcp-server-time")
}

fn git(repository: &Folder) -> Peer {
    Peer::installed("venv/bin/mcp-server-git").arg("--repository").arg(repository.path())
}

/// The fetch server, without a proxy, because the pages are local.
fn fetch() -> Peer {
    Peer::installed("venv/bin/mcp-server-fetch")
        .arg("--allow-private-ips")
        .env("NO_PROXY", "127.0.0.1")
        .env("no_proxy", "127.0.0.1")
}

#[test]
fn time_speaks_the_modern_era() {
    let (version, tools) = time().list(&[]);
    assert_eq!(version, MODERN);
    assert!(tools.iter().eq(["convert_time", "get_current_time"]), "{tools:?}");

    let now = time().run(&["call", "--json", "get_current_time", "timezone=Etc/UTC"]).json();
    assert_eq!(now["structuredContent"]["timezone"], "Etc/UTC");
    assert!(now["structuredContent"]["datetime"].as_str().unwrap().ends_with("+00:00"), "{now}");
}

#[test]
fn time_converts_between_zones() {
    let words = ["call", "convert_time", "source_timezone=UTC", "time=12:00", "target_timezone=Asia/Tokyo"];
    let ran = time().run(&words);
    assert!(ran.text().contains("T21:00:00+09:00"), "{}", ran.stdout);
}

#[test]
fn time_is_also_reached_in_the_legacy_era() {
    let (version, tools) = time().list(&["--era", "legacy"]);
    assert_eq!(version, LEGACY);
    assert!(tools.iter().eq(["convert_time", "get_current_time"]), "{tools:?}");
}

#[test]
fn time_refuses_a_zone_that_does_not_exist() {
    time().run(&["call", "get_current_time", "timezone=Nowhere/Land"]).refused_with("Nowhere/Land");
}

/// A repository with one commit and one untracked file.
fn repository(name: &str) -> Folder {
    let folder = Folder::new(name);
    let git = |words: &[&str]| {
        let done = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"])
            .args(words)
            .current_dir(folder.path())
            // Without this machine's configuration and without a repository in a parent folder.
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env_remove("GIT_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(done.success(), "git {words:?}");
    };
    git(&["init", "--quiet", "--initial-branch=trunk"]);
    git(&["commit", "--quiet", "--allow-empty", "--message=The first of all"]);
    std::fs::write(folder.path().join("new.txt"), "x").unwrap();
    folder
}

#[test]
fn git_shows_status_and_log() {
    let repository = repository("git");
    let server = git(&repository);
    let (version, tools) = server.list(&[]);
    assert_eq!(version, MODERN);
    assert!(tools.contains("git_status") && tools.contains("git_log"), "{tools:?}");

    let path = format!("repo_path={}", repository.path().display());
    let status = server.run(&["call", "git_status", &path]);
    assert!(status.text().contains("On branch trunk") && status.stdout.contains("new.txt"), "{status:?}");
    let log = server.run(&["call", "--json", "--era", "legacy", "git_log", &path]).json();
    assert!(first_text(&log).contains("Message: The first of all"), "{log}");
}

#[test]
fn git_refuses_another_repository() {
    let repository = repository("git-refuses");
    let elsewhere = format!("repo_path={}", std::env::temp_dir().display());
    git(&repository).run(&["call", "git_log", &elsewhere]).refused_with("outside the allowed repository");
}

/// A server of two texts, on a thread that ends with the test's process: one for `/robots.txt` and one for all other
/// paths.
fn pages(robots: &'static str) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, robots);
        }
    });
    address
}

fn answer(mut stream: TcpStream, robots: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut head = BufReader::new(stream.try_clone()?).lines();
    let first = head.next().unwrap_or_else(|| Ok(String::new()))?;
    for line in head {
        if line?.is_empty() {
            break;
        }
    }
    let (status, body) = match first.split(' ').nth(1) {
        Some("/robots.txt") => ("200 OK", robots),
        Some("/page.txt") => ("200 OK", "a page that is only here"),
        _ => ("404 Not Found", "nothing"),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn fetch_brings_a_page() {
    let address = pages("User-agent: *\nAllow: /\n");
    let (version, tools) = fetch().list(&[]);
    assert_eq!(version, MODERN);
    assert!(tools.iter().eq(["fetch"]), "{tools:?}");
    let ran = fetch().run(&["call", "fetch", &format!("url=http://{address}/page.txt")]);
    assert!(ran.text().contains("a page that is only here"), "{}", ran.stdout);
    let absent = format!("url=http://{address}/none.txt");
    fetch().run(&["call", "--era", "legacy", "fetch", &absent]).refused_with("404");
}

#[test]
fn fetch_obeys_robots_txt_by_default() {
    let url = format!("url=http://{}/page.txt", pages("User-agent: *\nDisallow: /\n"));
    let ran = fetch().run(&["call", "fetch", &url]);
    ran.refused_with("robots.txt");
    assert!(!ran.stdout.contains("a page that is only here"), "{}", ran.stdout);
    let ran = fetch().arg("--ignore-robots-txt").run(&["call", "fetch", &url]);
    assert!(ran.text().contains("a page that is only here"), "{}", ran.stdout);
}
