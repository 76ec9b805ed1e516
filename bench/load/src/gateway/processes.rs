//! The processes of a gateway: its own, and those of the servers that it has started.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::server::{children, cpu, memory};

pub(super) struct Processes {
    /// The gateway, and what it needs to start servers, such as a shell.
    own: Vec<u32>,
    /// The servers, each with its program.
    servers: Vec<(u32, PathBuf)>,
}

impl Processes {
    /// The process and all its descendants. Those that were started as a program in `folder` are servers.
    pub(super) fn of(root: u32, folder: &Path) -> Self {
        let mut all = Self { own: Vec::new(), servers: Vec::new() };
        let mut waiting = vec![root];
        while let Some(process) = waiting.pop() {
            waiting.extend(children(process));
            match started_as(process) {
                Some(program) if program.parent() == Some(folder) => all.servers.push((process, program)),
                _ => all.own.push(process),
            }
        }
        all
    }

    /// The memory of the gateway without the servers, in KiB.
    pub(super) fn memory(&self) -> u64 {
        self.own.iter().filter_map(|process| memory(*process)).sum()
    }

    /// CPU time of the gateway without the servers.
    pub(super) fn cpu(&self) -> Duration {
        self.own.iter().map(|process| cpu(*process)).sum()
    }

    /// The number of processes of servers.
    pub(super) fn backends(&self) -> usize {
        self.servers.len()
    }

    /// Kills the processes of one server; returns how many it had.
    pub(super) fn kill(&self, program: &Path) -> usize {
        let its = self.servers.iter().filter(|(_, started)| started == program);
        its.map(|(process, _)| kill(*process)).count()
    }

    /// Kills all processes.
    pub(super) fn end(&self) {
        self.own
            .iter()
            .chain(self.servers.iter().map(|(process, _)| process))
            .for_each(|process| kill(*process));
    }
}

/// The first word of the command line of a process.
fn started_as(process: u32) -> Option<PathBuf> {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let program = line.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(std::str::from_utf8(program).ok()?))
}

fn kill(process: u32) {
    // It may have ended already.
    let _ = Pid::from_raw(process.cast_signed()).map(|process| kill_process(process, Signal::KILL));
}
