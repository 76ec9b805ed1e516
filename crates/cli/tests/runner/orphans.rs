//! The binary is killed with SIGKILL, which nobody can hear: what it has started is gone all the same.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use super::support::{Running, command, legacy, marked, start, takes_less_than};

/// What may be there after our death, and how long.
const LIMIT: Duration = Duration::from_secs(2);
/// No test waits longer for what has to come.
const DEADLINE: Duration = Duration::from_secs(30);

/// Never answers a call, and says when its standard input has ended.
const MUTE: &str = r#"while read -r line; do :; done; echo end >&2; while :; do sleep 1000; done"#;

/// A call under way. Whatever comes, what was started for it does not outlive it.
struct Call {
    running: Running,
    said: BufReader<ChildStderr>,
}

impl Call {
    /// Begins a call of a server of the legacy era in shell, in a process group of its own.
    fn begin(server: &str) -> Self {
        let words = ["call", "-v", "--timeout", "1h", "--era", "legacy", "x", "--", "sh", "-c"];
        let mut command = command(words);
        command.arg(legacy(server)).process_group(0);
        let mut running = start(command);
        let said = BufReader::new(running.child.stderr.take().unwrap());
        Self { running, said }
    }

    /// Waits until the server has said that word so many times, and gives what it said behind it.
    fn hear(&mut self, word: &str, times: usize) -> Vec<String> {
        let mut heard = Vec::new();
        while heard.len() < times {
            let mut line = String::new();
            assert_ne!(self.said.read_line(&mut line).unwrap(), 0, "it ended without `{word}`");
            heard.extend(line.split_once(word).map(|(_, rest)| rest.trim().to_owned()));
        }
        heard
    }

    fn pid(&self) -> u32 {
        self.running.child.id()
    }

    /// The guard, once it runs.
    fn guard(&self) -> u32 {
        let found = until(|| guards(self.pid()).first().copied());
        assert_eq!(guards(self.pid()), [found]);
        found
    }

    /// Kills the binary, and waits until everything that it has started is gone; how long it took.
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
        // More than once, because what is ended last may have started something meanwhile.
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

/// A process that is none of theirs, whatever it looks like.
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

/// Looks until it sees.
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

/// The guards among the children of a process.
pub(super) fn guards(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // A thread that has just ended cannot be read and has no children.
    let lists =
        tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default());
    let children: Vec<String> =
        lists.flat_map(|list| list.split_whitespace().map(Into::into).collect::<Vec<_>>()).collect();
    let guards = children.iter().filter(|pid| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words.starts_with(b"mcpjoin: guard\0"))
    });
    guards.map(|pid| pid.parse().unwrap()).collect()
}

/// Is there, and is no zombie.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}

#[test]
fn d78_after_sigkill_in_mid_call_nothing_is_left_within_two_seconds() {
    // One heeds nothing, holds all pipes and has a session of its own. Another has lost its parent, too, and is
    // stopped. The third has given up its environment, and its parent is there.
    let deaf = format!(
        r#"setsid sh -c 'trap "" TERM HUP INT PIPE; echo ready >&2; while :; do sleep 1000; done' &
sh -c 'setsid sh -c "trap \"\" TERM; echo ready >&2; kill -STOP \$\$; sleep 1000" &'
setsid sh -c 'trap "" TERM; env -i /bin/sh -c "echo ready \$\$ >&2; exec /bin/sleep 1000"; sleep 1000' &
{MUTE}"#
    );
    let strangers = ["1-0123456789abcdef-0", "", "MCPJOIN_CHILD"].map(Stranger::new);
    takes_less_than(LIMIT, || {
        let mut call = Call::begin(&deaf);
        let heard = call.hear("ready", 3);
        // The one that nothing shows to be ours.
        let bare: Vec<u32> = heard.iter().filter_map(|pid| pid.parse().ok()).collect();
        assert!(bare.len() == 1 && lives(bare[0]), "{heard:?}");
        let took = call.kill();
        assert!(!lives(bare[0]));
        for stranger in &strangers {
            assert!(lives(stranger.0.id()));
        }
        took
    });
}

#[test]
fn d78_after_sigkill_whoever_leaves_by_itself_may() {
    let path = std::env::temp_dir().join(format!("mcpjoin-left-{}", std::process::id()));
    // The grandchild has the standard input, and the shell reads no more.
    let polite = format!(
        "exec 3<&0; setsid sh -c 'echo ready >&2; read -r line <&3; echo left >{}' & exec 3<&-
while :; do sleep 1000; done",
        path.display()
    );
    let mut call = Call::begin(&format!("read -r line; {polite}"));
    call.hear("ready", 1);
    call.kill();
    let left = fs::read_to_string(&path);
    let _ = fs::remove_file(&path);
    assert_eq!(left.unwrap(), "left\n");
}

#[test]
fn d78_a_guard_does_not_hear_ctrl_c() {
    let mut call = Call::begin(&format!("trap '' INT TERM; echo ready >&2; {MUTE}"));
    call.hear("ready", 1);
    let guard = call.guard();
    // To the group, as a terminal does it. The binary begins to end its child, which takes its time.
    let group = format!("-{}", call.pid());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    call.hear("end", 1);
    assert!(lives(guard));
    call.kill();
}

#[test]
fn a_guard_holds_nothing_of_ours() {
    let mut call = Call::begin(&format!("echo ready >&2; {MUTE}"));
    call.hear("ready", 1);
    let of = |name: &str| PathBuf::from(format!("/proc/{}/{name}", call.guard()));
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
    call.hear("ready", 1);
    let guard = call.guard();
    call.running.signal("TERM");
    // Twice: nobody wants to wait.
    while call.running.child.try_wait().unwrap().is_none() {
        call.running.signal("TERM");
    }
    assert!(!fs::exists(format!("/proc/{guard}")).unwrap());
    assert_eq!(marked(&call.running.mark), []);
}

#[test]
fn a_server_has_no_guard() {
    let mut command = command(["serve", "demo"]);
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
fn nobody_becomes_a_guard_by_accident() {
    for words in [&[][..], &["1"], &["list"], &["12-abc-"]] {
        let mut command = command(words);
        command.arg0("mcpjoin: guard");
        start(command).finish().exits(2);
    }
}
