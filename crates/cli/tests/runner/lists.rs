//! Tests of lists that are long, break off, or come from many servers. Items are printed in order as they arrive, and are
//! not kept in memory.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::config::Folder;
use super::support::{Running, command, run, start};

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");
/// interface.md: "Memory flat" means a peak at most 16 MiB above the limit in force, here the message limit. In KiB.
const LIMIT: u64 = (10 + 16) * 1024;
/// A timeout far above the usual waiting time.
const LONG: Duration = Duration::from_secs(40);

/// A server of the legacy era on a socket, whose list of tools has a given number of pages.
struct Paged {
    address: String,
    /// The pages that were requested.
    asked: Receiver<usize>,
    /// Opens the gate of a page.
    gates: BTreeMap<usize, Sender<()>>,
}

/// A failure that replaces a page.
#[derive(Clone, Copy, PartialEq)]
enum Break {
    Never,
    Error(usize),
    End(usize),
}

impl Paged {
    /// Starts a server with pages of `tools` tools. A page in `gated` is sent after the test opens its gate.
    fn start(pages: usize, tools: usize, gated: &[usize], breaks: Break) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("tcp://{}", listener.local_addr().unwrap());
        let (told, asked) = channel();
        let (mut gates, mut waits) = (BTreeMap::new(), BTreeMap::new());
        for page in gated {
            let (open, wait) = channel();
            gates.insert(*page, open);
            waits.insert(*page, wait);
        }
        std::thread::spawn(move || {
            if let Ok((stream, _)) = listener.accept() {
                // An error here means that the client has disconnected.
                let _ = serve(&stream, pages, tools, &waits, breaks, &told);
            }
        });
        Self { address, asked, gates }
    }

    fn open(&self, page: usize) {
        self.gates[&page].send(()).unwrap();
    }
}

fn serve(
    stream: &TcpStream,
    pages: usize,
    tools: usize,
    waits: &BTreeMap<usize, Receiver<()>>,
    breaks: Break,
    told: &Sender<usize>,
) -> std::io::Result<()> {
    let mut out = stream;
    for line in BufReader::new(stream).lines() {
        let message: Value = serde_json::from_str(&line?).unwrap();
        let Some(id) = message.get("id") else { continue };
        let text = match message["method"].as_str() {
            Some("initialize") => json!({"jsonrpc": "2.0", "id": id, "result": {
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "paged", "version": "1"}}})
            .to_string(),
            Some("tools/list") => {
                let cursor = message["params"]["cursor"].as_str();
                let page: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
                let _ = told.send(page);
                if let Some(wait) = waits.get(&page) {
                    // If the gate is not opened in time, the test has failed already.
                    let _ = wait.recv_timeout(LONG);
                }
                match breaks {
                    Break::End(at) if at == page => return Ok(()),
                    Break::Error(at) if at == page => json!({"jsonrpc": "2.0", "id": id,
                        "error": {"code": -32603, "message": "the disk is gone"}})
                    .to_string(),
                    _ => {
                        let items: Vec<String> = (0..tools)
                            .map(|tool| {
                                let number = page * tools + tool;
                                format!(
                                    r#"{{"name":"tool-{number}","description":"Does the thing with the number {number}","inputSchema":{{"type":"object"}}}}"#
                                )
                            })
                            .collect();
                        let next = if page + 1 < pages {
                            format!(r#","nextCursor":"{}""#, page + 1)
                        } else {
                            String::new()
                        };
                        format!(
                            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{}]{next}}}}}"#,
                            items.join(",")
                        )
                    }
                }
            }
            _ => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}).to_string(),
        };
        // Written in one piece: the second of two small writes would wait for the acknowledgement of the first.
        out.write_all(format!("{text}\n").as_bytes())?;
    }
    Ok(())
}

/// A memory figure of a process, in KiB.
fn memory(running: &Running, figure: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(figure)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Lists this number of pages. Returns the peak of memory before the last page, and the number of tools printed.
fn listed(options: &[&str], pages: usize) -> (u64, usize) {
    let paged = Paged::start(pages, 100, &[1, pages - 1], Break::Never);
    let mut words = vec!["list", "--era", "legacy"];
    words.extend(options);
    words.push(&paged.address);
    let mut running = start(command(words));
    let mut lines = BufReader::new(running.child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The second page is not sent before the first has been printed.
    let first = lines.find(|line| line.contains("tool-0")).unwrap();
    assert!(first.contains("tool-0"), "{first}");
    paged.open(1);
    let last = format!("tool-{}", (pages - 1) * 100 - 1);
    let shown = lines.by_ref().take_while(|line| !line.contains(&last)).filter(|line| line.contains("tool-"));
    let mut count = shown.count() + 2;
    let most = memory(&running, "VmHWM:");
    // The mapped program file does not count: with debug information it is large.
    assert!(memory(&running, "RssAnon:") < LIMIT, "{pages} pages");
    paged.open(pages - 1);
    count += lines.filter(|line| line.contains("tool-")).count();
    running.finish().exits(0);
    (most, count)
}

#[test]
fn i178_a_hundred_thousand_tools_are_shown_as_they_come_in_memory_that_does_not_grow() {
    const GROWN: u64 = 4 * 1024;
    let (short, count) = listed(&[], 3);
    assert_eq!(count, 300);
    for (options, pages) in [(&[][..], 1000), (&["--json"], 100)] {
        let (long, count) = listed(options, pages);
        assert_eq!(count, pages * 100);
        assert!(long < short + GROWN, "{options:?}: {short} KiB for 300 tools, {long} KiB for {count}");
    }
}

#[test]
fn i169_a_reader_that_has_seen_enough_ends_it() {
    let paged = Paged::start(1000, 100, &[1], Break::Never);
    let mut running = start(command(["list", "-q", "--era", "legacy", &paged.address]));
    let mut out = BufReader::new(running.child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "Tools\n");
    drop(out);
    paged.open(1);
    let ran = running.finish().exits(0);
    assert_eq!(ran.stderr, "");
    let last = paged.asked.iter().last().unwrap();
    assert!(last < 999, "all pages were read");
}

#[test]
fn a_list_that_breaks_off_is_shown_as_far_as_it_came_and_its_document_is_valid() {
    for (breaks, exit, id) in [(Break::Error(2), 5, "E_SERVER_ERROR"), (Break::End(2), 4, "E_CLOSED")] {
        let list = |options: &[&str]| {
            let paged = Paged::start(9, 3, &[], breaks);
            let mut words = vec!["list", "--era", "legacy"];
            words.extend(options);
            words.push(&paged.address);
            run(words).exits(exit)
        };
        let ran = list(&["--json"]);
        let document = ran.json();
        assert_eq!(document["tools"].as_array().map(Vec::len), Some(6), "{document}");
        assert_eq!(document["errors"][0]["method"], "tools/list", "{document}");
        assert_eq!(document["errors"][0]["id"], id, "{document}");
        assert_eq!(ran.failure()["id"], id);
        let ran = list(&[]);
        assert_eq!(ran.stdout.lines().count(), 7, "{}", ran.stdout);
        assert!(ran.stdout.contains("  tool-5  Does the thing"), "{}", ran.stdout);
        ran.says(&[id]);
    }
}

#[test]
fn a_list_has_no_more_pages_than_it_may() {
    let list = |pages: usize, limit: &str| {
        let paged = Paged::start(pages, 1, &[], Break::Never);
        run(["list", "--era", "legacy", "--max-pages", limit, &paged.address])
    };
    let ran = list(2, "1").exits(5);
    assert_eq!(ran.stdout, "Tools\n  tool-0  Does the thing with the number 0\n");
    ran.says(&[
        "(E_BAD_REPLY)",
        "more pages than the limit of 1",
        "try      mcpjoin list --max-pages NUMBER reads more",
    ]);
    assert_eq!(list(3, "3").exits(0).stdout.lines().count(), 4);
    list(1001, "2000").exits(0);
}

/// A server whose tools come in many pages. `before` is code that runs before the first page is sent.
fn paged_program(before: &str) -> String {
    format!(
        r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}},
                   "serverInfo": {{"name": "paged", "version": "1"}}}}
    elif message["method"] == "tools/list":
        page = int(message.get("params", {{}}).get("cursor", 0))
        if page == 0:
            {before}
        result = {{"tools": [{{"name": f"tool-{{page}}-{{tool}}", "description": "x" * 200}} for tool in range(100)]}}
        if page < 99:
            result["nextCursor"] = str(page + 1)
    else:
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "error": {{"code": -32601, "message": "no"}}}}), flush=True)
        continue
    print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}}), flush=True)
"#
    )
}

#[test]
fn f26_servers_are_asked_at_once_and_reported_in_their_order_without_being_kept() {
    let folder = Folder::new("lists-every");
    let pipe = super::support::scratch("lists-pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let path = pipe.display().to_string();
    // The first server sends no tool before the second one has also received its request.
    let first = folder.file("first.py", paged_program(&format!("open({path:?}).read()")));
    let second = folder.file("second.py", paged_program(&format!("open({path:?}, 'w').write('x')")));
    let entry = |script: &std::path::Path| json!({"command": "python3", "args": [script]});
    let servers = json!({"mcpServers": {
        "first": entry(&first), "second": entry(&second),
        "third": {"command": BINARY, "args": ["serve", "demo", "--full"]}}});
    folder.file(".mcp.json", servers.to_string());
    let mut running = start(folder.command(&["list", "-d", "--era", "legacy"]));
    let mut text = String::new();
    running.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let running = running.finish().exits(0);
    let places: Vec<_> = ["first: ", "tool-99-99", "second: ", "third: ", "\n  echo"]
        .iter()
        .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} is missing: {}", running.stderr)))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(text.matches("  tool-").count(), 20_000);
    std::fs::remove_file(pipe).unwrap();
}

#[test]
fn a_silent_entry_is_given_up_after_the_time_that_is_given_and_hides_none() {
    let folder = Folder::new("lists-silent");
    let servers = json!({"mcpServers": {
        "silent": {"command": "sh", "args": ["-c", "cat >/dev/null"]},
        "works": {"command": BINARY, "args": ["serve", "demo", "--full"]}}});
    folder.file(".mcp.json", servers.to_string());
    let began = Instant::now();
    let ran = folder.run(&["list", "--json", "-q", "--connect-timeout", "300ms"]).exits(4);
    // Without the option, the probe alone has 5 s, and `initialize` 30 s more.
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    let document = ran.json();
    assert_eq!(document["servers"][0]["error"]["id"], "E_SILENT", "{document}");
    assert_eq!(document["servers"][1]["server"]["serverInfo"]["name"], "mcpjoin-demo", "{document}");
}

#[test]
fn all_that_is_said_of_an_entry_can_be_asked_for() {
    let text = run(["list", "--describe", "demo:"]).exits(0).stdout;
    for part in [
        "  add\n    ",
        "    Parameters\n      a  number, required\n",
        "\nPrompts\n",
        "  translate\n",
        "    text  required\n",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    run(["list", "-d", "--json", "demo:"]).exits(2).says(&["--json"]);
    let folder = Folder::new("lists-described");
    folder.file(
        ".mcp.json",
        json!({"mcpServers": {"one": {"command": BINARY, "args": ["serve", "demo", "--full"]}}}).to_string(),
    );
    let ran = folder.run(&["search", "-d", "add"]).exits(0);
    assert!(
        ran.stdout.starts_with("one/add\n  ") && ran.stdout.contains("  a  number, required\n"),
        "{}",
        ran.stdout
    );
}
