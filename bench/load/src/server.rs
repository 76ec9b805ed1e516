//! A server's process over stdio: its start, its costs, its end.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::messages::{INITIALIZE, INITIALIZED};

/// The time limit for the response to `initialize`.
const OPENING: Duration = Duration::from_secs(20);
/// The time limit for its end after its standard input was closed.
const ENDING: Duration = Duration::from_secs(2);

pub(crate) struct Server {
    pub(crate) child: Child,
    /// From the start to the response to `initialize`.
    pub(crate) opened: Duration,
    /// The bytes that were read after that response.
    pub(crate) read: Vec<u8>,
}

impl Server {
    /// Starts the server, and does the handshake of 2025-11-25.
    pub(crate) fn start(command: &[String]) -> Result<Self, String> {
        let (program, arguments) = command.split_first().ok_or("no command follows --")?;
        let began = Instant::now();
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let mut server = Self { child, opened: Duration::ZERO, read: Vec::new() };
        server.send(INITIALIZE)?;
        let reply = server.line()?;
        server.opened = began.elapsed();
        let reply: Value = serde_json::from_slice(&reply).map_err(|error| format!("initialize: {error}"))?;
        if reply["result"]["protocolVersion"] != "2025-11-25" {
            return Err(format!("initialize: {reply}"));
        }
        server.send(INITIALIZED)?;
        Ok(server)
    }

    fn send(&mut self, message: &str) -> Result<(), String> {
        let stdin = self.child.stdin.as_mut().ok_or("standard input is closed")?;
        stdin.write_all(format!("{message}\n").as_bytes()).map_err(|error| error.to_string())
    }

    /// Reads one line. The reads are large, so that a long response does not need more of them than a short one.
    fn line(&mut self) -> Result<Vec<u8>, String> {
        let stdout = self.child.stdout.as_mut().ok_or("standard output is closed")?;
        let mut piece = [0; 8 << 10];
        loop {
            if let Some(feed) = memchr::memchr(b'\n', &self.read) {
                let behind = self.read.split_off(feed + 1);
                return Ok(std::mem::replace(&mut self.read, behind));
            }
            let mut readable = [PollFd::new(stdout, PollFlags::IN)];
            let patience = Timespec { tv_sec: OPENING.as_secs().cast_signed(), tv_nsec: 0 };
            if !matches!(poll(&mut readable, Some(&patience)), Ok(1..)) {
                return Err("no answer to initialize".into());
            }
            match stdout.read(&mut piece) {
                Ok(0) => return Err("the server has closed its standard output".into()),
                Ok(count) => self.read.extend_from_slice(&piece[..count]),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// CPU time of the whole process so far.
    pub(crate) fn cpu(&self) -> Duration {
        cpu(self.child.id())
    }

    /// The peak memory, in KiB.
    pub(crate) fn peak(&self) -> Option<u64> {
        peak(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.stdout.take());
        let handle = rustix::process::Pid::from_child(&self.child);
        let ended = rustix::process::pidfd_open(handle, rustix::process::PidfdFlags::empty());
        if let Ok(ended) = ended {
            let mut ending = [PollFd::new(&ended, PollFlags::IN)];
            let patience = Timespec { tv_sec: ENDING.as_secs().cast_signed(), tv_nsec: 0 };
            if !matches!(poll(&mut ending, Some(&patience)), Ok(1..)) {
                let _ = kill_process(handle, Signal::KILL);
            }
        }
        let _ = self.child.wait();
    }
}

/// The peak memory of a process, in KiB.
pub(crate) fn peak(process: u32) -> Option<u64> {
    status(process, "VmHWM:")
}

/// The current memory of a process, in KiB.
pub(crate) fn memory(process: u32) -> Option<u64> {
    status(process, "VmRSS:")
}

/// The current memory of a process that is not mapped from a file, in KiB.
pub(crate) fn heap(process: u32) -> Option<u64> {
    status(process, "RssAnon:")
}

fn status(process: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// CPU time of a process, including threads that have ended.
pub(crate) fn cpu(pid: u32) -> Duration {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.cast_signed()));
    let time = clock.and_then(clock_gettime).map_or(0, |time| time.num_nanoseconds());
    Duration::from_nanos(time.unsigned_abs())
}

/// CPU time of a process and of its descendants that still run.
pub(crate) fn cpu_of_tree(process: u32) -> Duration {
    cpu(process) + children(process).into_iter().map(cpu_of_tree).sum::<Duration>()
}

/// The processes that a process has started and that still run.
pub(crate) fn children(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    children
        .flat_map(|line| line.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// CPU time of this process.
pub(crate) fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(0, |time| time.num_nanoseconds());
    Duration::from_nanos(time.unsigned_abs())
}

pub(crate) fn startup(command: &[String]) -> Result<Value, String> {
    let server = Server::start(command)?;
    Ok(json!({ "ms": millis(server.opened), "cpu_ms": millis(server.cpu()), "peak_kib": server.peak() }))
}

pub(crate) fn wall(command: &[String]) -> Result<Value, String> {
    let (program, arguments) = command.split_first().ok_or("no command follows --")?;
    let began = Instant::now();
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    let took = began.elapsed();
    if !output.status.success() || output.stdout.is_empty() {
        return Err(format!("{program}: {}, {} bytes printed", output.status, output.stdout.len()));
    }
    // This process has had no other child.
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
    let cpu = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    let cpu = Duration::from_micros(cpu.unsigned_abs());
    Ok(json!({ "ms": millis(took), "cpu_ms": millis(cpu), "peak_kib": usage.max_rss() }))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Makes reads and writes non-blocking.
pub(crate) fn never_block(stream: impl AsFd) -> Result<(), String> {
    let flags = rustix::fs::fcntl_getfl(&stream).map_err(|error| error.to_string())?;
    rustix::fs::fcntl_setfl(&stream, flags | rustix::fs::OFlags::NONBLOCK).map_err(|error| error.to_string())
}
