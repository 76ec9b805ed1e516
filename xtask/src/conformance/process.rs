//! The processes of a run of the suite. Each has a time limit and is ended in every case.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The interval between two looks at a process or a file.
const TICK: Duration = Duration::from_millis(5);
/// How long a server may take until it reports that it listens.
const START: Duration = Duration::from_secs(30);

/// Runs a command with all its output in a file, and kills it after `longest`. Kills what remains of its process group.
/// Returns the reason if the command did not end with success.
pub(crate) fn run(command: &mut Command, log: &Path, longest: Duration) -> Result<Option<String>> {
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let mut child = group::start(command).context("cannot start the suite")?;
    let began = Instant::now();
    let in_time = loop {
        match group::has_ended(&mut child) {
            Ok(true) => break true,
            Ok(false) if began.elapsed() > longest => break false,
            Ok(false) => sleep(TICK),
            Err(error) => {
                group::end(&mut child);
                return Err(error).context("cannot wait for the suite");
            }
        }
    };
    // Before the exit status is read: until then the process id cannot be reused.
    group::end(&mut child);
    let status = child.wait()?;
    Ok(match in_time {
        false => Some(format!("the suite was ended after {} s", longest.as_secs())),
        true if status.success() => None,
        true => Some(format!("the suite ended with {}", code(status))),
    })
}

fn code(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| code.to_string())
}

/// A running server. It is ended when this value is dropped.
pub(crate) struct Running {
    child: Child,
    name: &'static str,
}

impl Running {
    /// Starts a server with its output in a file.
    pub(crate) fn start(command: &mut Command, name: &'static str, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { child, name })
    }

    /// Waits until `look` returns a value, which shows that the server is ready.
    pub(crate) fn wait_for<T>(&mut self, log: &Path, look: impl Fn() -> Option<T>) -> Result<T> {
        let began = Instant::now();
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if let Err(error) = self.runs() {
                bail!("{error}: {}", fs::read_to_string(log).unwrap_or_default().trim());
            }
            if began.elapsed() > START {
                bail!("{} is not ready after {} s", self.name, START.as_secs());
            }
            sleep(TICK);
        }
    }

    /// Fails if the server has ended by itself.
    pub(crate) fn runs(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} has ended by itself with {}", self.name, code(status)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        group::ask_to_end(&mut self.child);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            sleep(TICK);
        }
        // Kills a process that does not end on request. `kill` fails if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
mod group {
    use std::io;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

    /// Starts a command in a process group of its own.
    pub(super) fn start(command: &mut Command) -> io::Result<Child> {
        command.process_group(0).spawn()
    }

    /// Whether the process has ended. It stays a zombie, so that its process id is not reused.
    pub(super) fn has_ended(child: &mut Child) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_some())
    }

    /// Kills the remaining processes of the group.
    pub(super) fn end(child: &mut Child) {
        // The zombie is a member, so the group exists. Processes that cannot be killed are not ours.
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    }

    pub(super) fn ask_to_end(child: &mut Child) {
        if matches!(child.try_wait(), Ok(None)) {
            // The process may end at this moment; its process id stays valid, because only this code waits for it.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
    }
}

/// For systems without process groups: only the process itself. The suite is not installed there.
#[cfg(not(unix))]
mod group {
    use std::io;
    use std::process::{Child, Command};

    pub(super) fn start(command: &mut Command) -> io::Result<Child> {
        command.spawn()
    }

    pub(super) fn has_ended(child: &mut Child) -> io::Result<bool> {
        Ok(child.try_wait()?.is_some())
    }

    pub(super) fn end(child: &mut Child) {
        let _ = child.kill();
    }

    pub(super) fn ask_to_end(child: &mut Child) {
        let _ = child.kill();
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::run;

    fn log(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("xtask-conformance-{}-{name}.txt", std::process::id()))
    }

    fn sh(script: &str, name: &str, longest: u64) -> (Option<String>, String) {
        let log = log(name);
        let ended = run(Command::new("sh").args(["-c", script]), &log, Duration::from_secs(longest)).unwrap();
        let printed = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        (ended, printed)
    }

    #[test]
    fn the_end_is_reported() {
        assert_eq!(sh("echo one; echo two >&2", "well", 60), (None, "one\ntwo\n".into()));
        assert_eq!(sh("exit 3", "badly", 60).0.unwrap(), "the suite ended with 3");
    }

    #[test]
    fn what_takes_too_long_is_ended_with_all_that_it_has_started() {
        let began = Instant::now();
        let (ended, printed) = sh("sleep 600 & echo $!; wait", "long", 1);
        assert_eq!(ended.unwrap(), "the suite was ended after 1 s");
        assert!(began.elapsed() < Duration::from_secs(300));
        gone(printed.trim());
    }

    #[test]
    fn what_is_left_behind_is_ended() {
        let (ended, printed) = sh("sleep 600 >/dev/null 2>&1 & echo $!", "left", 60);
        assert_eq!(ended, None);
        gone(printed.trim());
    }

    /// Asserts that a killed process disappears. Its new parent may need a moment to reap it.
    fn gone(number: &str) {
        let began = Instant::now();
        loop {
            let alive = Command::new("sh").args(["-c", &format!("kill -0 {number}")]).output().unwrap();
            let state = Command::new("ps").args(["-o", "stat=", "-p", number]).output();
            let zombie = state.is_ok_and(|state| state.stdout.starts_with(b"Z"));
            if !alive.status.success() || zombie {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{number} is left");
            std::thread::yield_now();
        }
    }
}
