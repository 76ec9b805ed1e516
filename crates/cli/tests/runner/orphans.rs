//! Tests that all child processes are gone after the binary is killed with SIGKILL, which it cannot handle.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use super::support::{Running, command, legacy, marked, start, takes_less_than};

/// The time within which all child processes must be gone.
const LIMIT: Duration = Duration::from_secs(2);
/// The timeout for an event that a test waits for.
const DEADLINE: Duration = Duration::from_secs(30);

/// Never responds to a call, and reports the end of its standard input.
const MUTE: &str = r#"while read -r line; do :; done; echo end >&2; while :; do sleep 1000; done"#;

/// A call in progress. Its processes are killed when this is dropped.
struct Call {
    running: Running,
    said: BufReader<ChildStderr>,
}

impl Call {
    /// Starts a call to a shell server of the legacy era, in a process group of its own.
    fn begin(server: &str) -> Self {
        let words = ["call", "-v", "--timeout", "1h", "--era", "legacy", "--force", "x", "--", "sh", "-c"];
        let mut command = command(words);
        command.arg(legacy(server)).process_group(0);
        let mut running = start(command);
        let said = BufReader::new(running.child.stderr.take().unwrap());
        Self { running, said }
    }

    /// Waits until the server has printed that word this many times. Returns the text after each word.
    fn receive(&mut self, word: &str, times: usize) -> Vec<String> {
        let mut received = Vec::new();
        while received.len() < times {
            let mut line = String::new();
            assert_ne!(self.said.read_line(&mut line).unwrap(), 0, "it ended without `{word}`");
            received.extend(line.split_once(word).map(|(_, rest)| rest.trim().to_owned()));
        }
        received
    }

    fn pid(&self) -> u32 {
        self.running.child.id()
    }

    /// The process id of the guard, once it runs.
    fn guard(&self) -> u32 {
        let found = until(|| guards(self.pid()).first().copied());
        assert_eq!(guards(self.pid()), [found]);
        found
    }

    /// Kills the binary, and waits until all of its child processes are gone. Returns how long that took.
    fn kill(&mut self) -> Duration {
        let guard = self.guard();
        assert!(marked(&self.running.mark).len() > 1, "there is nothing to end");
        self.running.child.kill().unwrap();
        let began = Instant::now();
        self.running.child.wait().unwrap();
        loop {
            let left = marked(&self.running.mark);
            if left.is_empty() && !lives(guard) {
                return began.elapsed();
            }
            let took = began.elapsed();
            assert!(took < DEADLINE, "after {took:?}: {left:?}, and the guard lives: {}", lives(guard));
            std::thread::yield_now();
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let _ = self.running.child.kill();
        let _ = self.running.child.wait();
        // Repeated, because a process can start another one before it is killed.
        for _ in 0..100 {
            let left = marked(&self.running.mark);
            if left.is_empty() {
                break;
            }
            let pids = left.iter().map(|(pid, _)| pid.to_string());
            let _ = Command::new("kill").arg("-9").args(pids).stderr(Stdio::null()).status();
        }
    }
}

/// A process that resembles a child process, but must not be killed.
struct Stranger(Child);

impl Stranger {
    fn new(mark: &str) -> Self {
        Self(Command::new("sleep").arg("1000").env("MCPJOIN_CHILD", mark).spawn().unwrap())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Polls until the function returns a value.
#[track_caller]
pub(super) fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < DEADLINE, "it does not come");
        std::thread::yield_now();
    }
}

/// The guards among the child processes of a process.
pub(super) fn guards(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // The entry of a thread that has just ended cannot be read. Such a thread has no child processes.
    let lists =
        tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default());
    let children: Vec<String> =
        lists.flat_map(|list| list.split_whitespace().map(Into::into).collect::<Vec<_>>()).collect();
    let guards = children.iter().filter(|pid| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words.starts_with(b"mcpjoin: guard\0"))
    });
    guards.map(|pid| pid.parse().unwrap()).collect()
}

/// Whether the process exists and is not a zombie.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}

#[test]
fn d78_after_sigkill_in_mid_call_nothing_is_left_within_two_seconds() {
    // The first process ignores signals, holds all pipes and has its own session. The second also has lost its parent and is
    // stopped. The third has an empty environment, and its parent is alive.
    let deaf = format!(
        r#"setsid sh -c 'trap "" TERM HUP INT PIPE; echo ready >&2; while :; do sleep 1000; done' &
sh -c 'setsid sh -c "trap \"\" TERM; echo ready >&2; kill -STOP \$\$; sleep 1000" &'
setsid sh -c 'trap "" TERM; env -i /bin/sh -c "echo ready \$\$ >&2; exec /bin/sleep 1000"; sleep 1000' &
{MUTE}"#
    );
    let strangers = ["1-0123456789abcdef-0", "", "MCPJOIN_CHILD"].map(Stranger::new);
    takes_less_than(LIMIT, || {
        let mut call = Call::begin(&deaf);
        let received = call.receive("ready", 3);
        // The process that has no mark of mcpjoin.
        let bare: Vec<u32> = received.iter().filter_map(|pid| pid.parse().ok()).collect();
        assert!(bare.len() == 1 && lives(bare[0]), "{received:?}");
        let took = call.kill();
        assert!(!lives(bare[0]));
        for stranger in &strangers {
            assert!(lives(stranger.0.id()));
        }
        took
    });
}

#[test]
fn d78_after_sigkill_a_server_that_exits_by_itself_may() {
    let path = std::env::temp_dir().join(format!("mcpjoin-left-{}", std::process::id()));
    // The grandchild reads the standard input, and the shell does not.
    let polite = format!(
        "exec 3<&0; setsid sh -c 'echo ready >&2; read -r line <&3; echo left >{}' & exec 3<&-
while :; do sleep 1000; done",
        path.display()
    );
    let mut call = Call::begin(&format!("read -r line; {polite}"));
    call.receive("ready", 1);
    call.kill();
    let left = fs::read_to_string(&path);
    let _ = fs::remove_file(&path);
    assert_eq!(left.unwrap(), "left\n");
}

#[test]
fn d78_a_guard_does_not_end_on_ctrl_c() {
    let mut call = Call::begin(&format!("trap '' INT TERM; echo ready >&2; {MUTE}"));
    call.receive("ready", 1);
    let guard = call.guard();
    // The signal goes to the process group, as from a terminal. The binary then ends its child, which takes some time.
    let group = format!("-{}", call.pid());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    call.receive("end", 1);
    assert!(lives(guard));
    call.kill();
}

#[test]
fn a_guard_holds_nothing_of_ours() {
    let mut call = Call::begin(&format!("echo ready >&2; {MUTE}"));
    call.receive("ready", 1);
    let guard = call.guard();
    let of = |name: &str| PathBuf::from(format!("/proc/{guard}/{name}"));
    // Before it names itself, the loader still has files open.
    until(|| (fs::read_to_string(of("comm")).unwrap() == "mcpjoin-guard\n").then_some(()));
    let files: Vec<_> = fs::read_dir(of("fd"))
        .unwrap()
        .map(|entry| fs::read_link(entry.unwrap().path()).unwrap().display().to_string())
        .collect();
    let [input, output, errors] = &files[..] else { panic!("it has {files:?}") };
    assert!(input.starts_with("pipe:"), "{files:?}");
    assert_eq!([output, errors], ["/dev/null"; 2]);
    assert_eq!(fs::read_link(of("cwd")).unwrap(), PathBuf::from("/"));
    assert_eq!(fs::read(of("environ")).unwrap(), b"");
}

#[test]
fn a_guard_is_gone_when_the_binary_is() {
    let mut call = Call::begin(&format!("echo ready >&2; {MUTE}"));
    call.receive("ready", 1);
    let guard = call.guard();
    call.running.signal("TERM");
    // The second signal skips the wait for the server.
    while call.running.child.try_wait().unwrap().is_none() {
        call.running.signal("TERM");
    }
    assert!(!fs::exists(format!("/proc/{guard}")).unwrap());
    assert_eq!(marked(&call.running.mark), []);
}

#[test]
fn a_server_has_no_guard() {
    let mut command = command(["serve", "demo", "--full"]);
    command.stdin(Stdio::piped());
    let mut running = start(command);
    let mut stdin = running.child.stdin.take().unwrap();
    let mut stdout = BufReader::new(running.child.stdout.take().unwrap());
    std::io::Write::write_all(&mut stdin, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains("\"id\":1"), "{line}");
    assert!(guards(running.child.id()).is_empty());
    drop(stdin);
    running.finish().exits(0);
}

#[test]
fn no_program_becomes_a_guard_by_accident() {
    for words in [&[][..], &["1"], &["list"], &["12-abc-"]] {
        let mut command = command(words);
        command.arg0("mcpjoin: guard");
        start(command).finish().exits(2);
    }
}
