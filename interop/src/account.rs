//! Compares what a foreign client receives from a server directly with what it receives through `mcpjoin bridge`. The
//! bridge must change nothing and leave no process behind.
//!
//! Used only by the tests of the bridge. A client's script in `interop/clients/` is started as
//! `SCRIPT ERA account -- SERVER WORDS...`, or as `SCRIPT ERA account URL`. It requests everything that the server has, and
//! prints its account, the received values, as one JSON object. The script omits values that differ between runs, such as
//! the time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what is not as it should be fails the test that asked for it"
)]

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use serde_json::Value;

use crate::client::{Client, Way, said, wait};
use crate::overheard::TERMINATED;
use crate::run::mcpjoin;
use crate::witness::{GRACE, kill, left};
use crate::{Folder, MARK, command_line, marked, running};

/// The values that a client received from a server.
#[derive(Debug)]
pub struct Account(Value);

impl Account {
    /// Checks that it equals the account of the direct connection, except for members with the names in `besides`, at any
    /// depth; `what` names this account in messages.
    ///
    /// # Panics
    ///
    /// When something differs; the message gives the place.
    pub fn is_as(&self, direct: &Self, besides: &[&str], what: &str) {
        let mut differences = String::new();
        compare("", Some(&direct.0), Some(&self.0), besides, &mut differences);
        assert!(differences.is_empty(), "{what}: through the bridge it is something else:\n{differences}");
    }

    /// A member of the account.
    #[must_use]
    pub fn member(&self, name: &str) -> &Value {
        &self.0[name]
    }
}

/// Records where the two differ, and how.
fn compare(
    place: &str,
    direct: Option<&Value>,
    seen: Option<&Value>,
    besides: &[&str],
    differences: &mut String,
) {
    match (direct, seen) {
        (Some(Value::Object(direct)), Some(Value::Object(seen))) => {
            let names = direct.keys().chain(seen.keys().filter(|name| !direct.contains_key(*name)));
            for name in names.filter(|name| !besides.contains(&name.as_str())) {
                compare(&format!("{place}/{name}"), direct.get(name), seen.get(name), besides, differences);
            }
        }
        (Some(Value::Array(direct)), Some(Value::Array(seen))) if direct.len() == seen.len() => {
            for (number, (direct, seen)) in direct.iter().zip(seen).enumerate() {
                compare(&format!("{place}/{number}"), Some(direct), Some(seen), besides, differences);
            }
        }
        (direct, seen) if direct == seen => {}
        (direct, seen) => {
            let shown = |value: Option<&Value>| {
                let text = value.map_or_else(|| "nothing".to_owned(), Value::to_string);
                text.chars().take(600).collect::<String>()
            };
            writeln!(differences, "  {place}: {} instead of {}", shown(seen), shown(direct)).unwrap();
        }
    }
}

/// A unique mark for the processes of one test, also used to name its folder.
fn mark(what: &str) -> String {
    static MARKS: AtomicU32 = AtomicU32::new(0);
    format!("{what}-{}-{}", std::process::id(), MARKS.fetch_add(1, Ordering::Relaxed))
}

impl Client {
    /// The client's account of a server that it starts with this command line, or reaches at this URL. No process of the run
    /// may remain.
    ///
    /// # Panics
    ///
    /// When the script fails, does not end, or leaves a process.
    #[must_use]
    pub fn account(&self, era: &str, server: &[OsString]) -> Account {
        let folder = Folder::new(&mark("account"));
        let mark = folder.path().to_str().unwrap().to_owned();
        let mut command = self.command(folder.path(), &mark);
        command.args([era, "account"]);
        if let [_, _, ..] = server {
            // Several clients give a server a reduced environment, so the mark is also passed on the command line.
            command.args(["--", "env", &format!("{MARK}={mark}")]);
        }
        let success = wait(command.args(server).spawn().unwrap(), &mark);
        let left = left(&mark);
        kill(&mark);
        let (stdout, said) = said(folder.path());
        assert!(success, "the script has failed; {said}");
        assert!(left.is_empty(), "left running: {left:?}; {said}");
        Account(serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}; {said}")))
    }

    /// The client's account through `mcpjoin bridge WORDS`, which it reaches over this transport. The bridge leaves no
    /// process: each server ends with its session, and the bridge ends with the right exit code.
    ///
    /// # Panics
    ///
    /// As [`Self::account`], and when the bridge leaves a process.
    #[must_use]
    pub fn account_through_a_bridge(&self, era: &str, way: Way, words: &[OsString]) -> Account {
        if way == Way::Stdio {
            let bridge = mcpjoin();
            let bridge = [bridge.get_program(), OsStr::new("bridge")].map(OsStr::to_owned);
            return self.account(era, &[&bridge, words].concat());
        }
        let bridge = Bridge::start(words);
        let account = self.account(era, &[bridge.url(way).into()]);
        bridge.ends(era == "legacy");
        account
    }
}

/// A process `mcpjoin bridge --listen http://127.0.0.1:0/mcp WORDS`. It is ended when this value is dropped.
#[derive(Debug)]
pub struct Bridge {
    child: Child,
    /// What it prints after its address. Read to its end: a bridge whose pipe is full would block.
    printed: Option<JoinHandle<String>>,
    mark: String,
    address: String,
}

impl Bridge {
    /// Starts the bridge, which prints nothing before its address.
    ///
    /// # Panics
    ///
    /// When it does not listen.
    #[must_use]
    pub fn start(words: &[OsString]) -> Self {
        let (bridge, before) = Self::spawn(words);
        assert_eq!(before, "");
        bridge
    }

    /// Starts a bridge of joined servers, which prints their names before its address.
    ///
    /// # Panics
    ///
    /// When it does not listen.
    #[must_use]
    pub fn joined(words: &[OsString]) -> Self {
        let (bridge, before) = Self::spawn(words);
        assert!(before.contains("joins "), "{before}");
        bridge
    }

    /// The bridge, and what it has printed before its address.
    fn spawn(words: &[OsString]) -> (Self, String) {
        let mark = mark("bridge");
        let mut child = mcpjoin()
            .args(["bridge", "--listen", "http://127.0.0.1:0/mcp"])
            .args(words)
            .env(MARK, &mark)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut before = String::new();
        let address = lines.by_ref().find_map(|line| {
            let address =
                line.strip_prefix("listening on http://").and_then(|rest| rest.strip_suffix("/mcp"));
            if address.is_none() {
                writeln!(before, "{line}").unwrap();
            }
            address.map(str::to_owned)
        });
        let printed = thread::spawn(move || lines.collect::<Vec<_>>().join("\n"));
        let listens = address.is_some();
        let bridge = Self { child, printed: Some(printed), mark, address: address.unwrap_or_default() };
        assert!(listens, "the bridge said {before}");
        (bridge, before)
    }

    /// The URL for a client with this transport, in the form that its script expects.
    #[must_use]
    pub fn url(&self, way: Way) -> String {
        match way {
            Way::Sse => format!("sse+http://{}/sse", self.address),
            _ => format!("http://{}/mcp", self.address),
        }
    }

    /// The bridge's process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The processes of the bridge without the bridge itself, and without the watchdog that ends all of them if it dies.
    #[must_use]
    pub fn servers(&self) -> Vec<String> {
        running(&self.mark).unwrap().into_iter().filter(|line| !is_of_the_bridge(line)).collect()
    }

    /// Waits until the bridge has `count` processes besides its own.
    ///
    /// # Panics
    ///
    /// When it does not reach the number in time.
    pub fn has_servers(&self, count: usize) {
        let begun = Instant::now();
        while self.servers().len() != count {
            assert!(begun.elapsed() < GRACE, "there are {:?} instead of {count}", self.servers());
            thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Kills its servers whose command line contains this text, and returns how many were killed.
    ///
    /// # Panics
    ///
    /// When `/proc` cannot be read.
    #[must_use]
    pub fn kill_servers(&self, command: &str) -> usize {
        let mut servers = marked(&self.mark).unwrap();
        servers.retain(|folder| {
            let line = command_line(folder);
            line.contains(command) && !is_of_the_bridge(&line)
        });
        let ids = servers.iter().filter_map(|folder| folder.file_name());
        if !servers.is_empty() {
            // Fails if one of them has ended by itself.
            let _ = Command::new("kill").arg("-KILL").args(ids).status();
        }
        servers.len()
    }

    /// Sends SIGTERM to the bridge, and checks that it ends with the right exit code and leaves no process. If its clients
    /// had sessions and have ended them, its servers must be gone before the signal.
    ///
    /// # Panics
    ///
    /// When one of these checks fails.
    pub fn ends(mut self, sessions: bool) {
        if sessions {
            self.has_servers(0);
        }
        Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status().unwrap();
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < GRACE, "the bridge has not ended in {GRACE:?}");
            thread::sleep(std::time::Duration::from_millis(10));
        };
        let left = left(&self.mark);
        assert!(left.is_empty(), "the bridge left {left:?}");
        let printed = self.printed.take().and_then(|reader| reader.join().ok());
        assert_eq!(status.code(), Some(TERMINATED), "{}", printed.unwrap_or_default());
    }
}

/// Whether this command line is that of the bridge, or of the watchdog that ends its servers if it dies.
fn is_of_the_bridge(line: &str) -> bool {
    line.contains(" bridge --listen ") || line.starts_with("mcpjoin: guard")
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // Kills nothing if the bridge has ended.
        kill(&self.mark);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_differs_is_found_wherever_it_is() {
        let direct = Account(json!({ "a": [{ "b": 1 }, 2], "c": { "d": null } }));
        Account(json!({ "c": { "d": null }, "a": [{ "b": 1 }, 2] })).is_as(&direct, &[], "turned");
        Account(json!({ "a": [], "c": { "d": null } })).is_as(&direct, &["a"], "besides");
        Account(json!({ "a": [{ "b": 2 }, 2], "c": {} })).is_as(&direct, &["b", "d"], "besides, deeper");
        for (other, place) in [
            (json!({ "a": [{ "b": 1 }, 3], "c": { "d": null } }), "a/1: 3 instead of 2"),
            (json!({ "a": [{ "b": 1 }, 2], "c": {} }), "c/d: nothing instead of null"),
            (json!({ "a": [{ "b": 1 }, 2], "c": { "d": null }, "e": 0 }), "e: 0 instead of nothing"),
            (json!({ "a": [{ "b": 1 }], "c": { "d": null } }), r#"a: [{"b":1}] instead of [{"b":1},2]"#),
        ] {
            let mut differences = String::new();
            compare("", Some(&direct.0), Some(&other), &[], &mut differences);
            assert_eq!(differences.trim(), format!("/{place}"));
        }
    }
}
