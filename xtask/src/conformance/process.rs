//! Processes that a run starts: each has an end, whatever it does.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often it is looked whether something has happened.
const TICK: Duration = Duration::from_millis(5);
/// How long a server may take to say that it listens.
const START: Duration = Duration::from_secs(30);

/// Runs a command to its end, with everything that it prints in a file, and ends it when it takes too long. Nothing of its
/// process group is left. Gives why it did not end well, if it did not.
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
    // Before its status is taken: until then its number is nobody else's.
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

/// A server. Ended when it is dropped.
pub(crate) struct Running {
    child: Child,
    name: &'static str,
}

impl Running {
    /// Starts a server whose outputs go into a file.
    pub(crate) fn start(command: &mut Command, name: &'static str, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { child, name })
    }

    /// Waits until it is ready, as `look` tells.
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

    /// Whether it has not ended by itself.
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
        // What does not end when it is asked to, or cannot be looked at, is killed; what is gone already cannot be.
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

    /// Whether it has ended. It stays a zombie: its number is not given to another.
    pub(super) fn has_ended(child: &mut Child) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_some())
    }

    /// Kills what is left of the group.
    pub(super) fn end(child: &mut Child) {
        // The zombie is in the group, so there is one; and what cannot be killed is nothing that we have started.
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    }

    pub(super) fn ask_to_end(child: &mut Child) {
        if matches!(child.try_wait(), Ok(None)) {
            // It may end in this moment, and is not waited for by anybody else.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
    }
}

/// Where there are no process groups: the process alone. The suite is not installed there.
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
    fn how_it_ends_is_told() {
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

    /// It has been killed, and whoever inherits it may take a moment to notice.
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
