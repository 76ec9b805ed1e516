//! What a child has started, as far as `/proc` tells.
//!
//! A process group is left by `setsid`, and parentage is lost when the parent ends first. So each child gets a
//! variable of its own in its environment, which everything that it starts inherits, and what was once seen below
//! it is remembered by its id and its time of birth. Whoever carries the variable, belongs to the group or was
//! seen is ours; about everybody else nothing can be proved.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal};

use super::Survivor;
use super::command::Spec;

/// The longest value of the variable, in bytes: some 20 of our processes below one another.
const LONGEST: usize = 1024;

/// The name that everything below one child carries in its environment.
pub(super) struct Marker(String);

impl Marker {
    /// The variable. Its value is a list: a child may use this library itself.
    pub(super) const VARIABLE: &'static str = "MCPJOIN_CHILD";
    const SEPARATOR: u8 = b':';

    /// A name that no other child on this machine has.
    pub(super) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let random = RandomState::new().build_hasher().finish();
        Self(format!("{}-{}-{random:016x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// What the child's variable holds: the names of those above us, then its own.
    pub(super) fn value(&self, spec: &Spec) -> OsString {
        let mut value = spec.variable(Self::VARIABLE).map(OsString::into_vec).unwrap_or_default();
        if value.len() + self.0.len() >= LONGEST {
            value.clear();
        }
        if !value.is_empty() {
            value.push(Self::SEPARATOR);
        }
        value.extend_from_slice(self.0.as_bytes());
        OsString::from_vec(value)
    }

    /// Whether an environment, as `/proc` shows it, carries this name.
    fn is_in(&self, environment: &[u8]) -> bool {
        environment
            .split(|byte| *byte == 0)
            .filter_map(|entry| entry.strip_prefix(Self::VARIABLE.as_bytes())?.strip_prefix(b"="))
            .any(|value| value.split(|byte| *byte == Self::SEPARATOR).any(|name| name == self.0.as_bytes()))
    }
}

/// A handle of a process, which stays that process's when its id is reused, and becomes readable when it ends.
pub(super) fn handle(pid: Pid) -> Option<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = pid;
        None
    }
}

/// A process, named so that a reused id is not taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pid: i32,
    /// When it was born, in clock ticks since the machine started.
    born: u64,
}

/// A living process that belongs to a child.
pub(super) struct Relative {
    pub(super) identity: Identity,
    name: String,
    /// Becomes readable when it ends.
    pub(super) handle: Option<OwnedFd>,
}

impl Relative {
    /// Sends a signal to this process and to no other.
    pub(super) fn signal(&self, signal: Signal) {
        #[cfg(target_os = "linux")]
        if let Some(handle) = &self.handle {
            // Gone already, or not ours to signal: the next look tells.
            let _ = rustix::process::pidfd_send_signal(handle, signal);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = signal;
    }

    pub(super) fn survivor(&self) -> Survivor {
        Survivor { pid: self.identity.pid.unsigned_abs(), name: self.name.clone() }
    }
}

/// A line of `/proc/<pid>/stat`.
struct Stat {
    pid: i32,
    name: String,
    dead: bool,
    parent: i32,
    group: i32,
    born: u64,
}

impl Stat {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// `pid (name) state ppid pgrp session ...`, where the name may hold anything: proc_pid_stat(5).
    fn parse(pid: i32, line: &[u8]) -> Option<Self> {
        let open = line.iter().position(|byte| *byte == b'(')?;
        let close = line.iter().rposition(|byte| *byte == b')')?;
        let name = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The third field of the manual's count is the first here.
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Self {
            pid,
            name,
            dead: matches!(field(3)?, "Z" | "X" | "x"),
            parent: field(4)?.parse().ok()?,
            group: field(5)?.parse().ok()?,
            born: field(22)?.parse().ok()?,
        })
    }

    const fn identity(&self) -> Identity {
        Identity { pid: self.pid, born: self.born }
    }
}

/// What is remembered of a child's family.
pub(super) struct Family {
    root: i32,
    born: u64,
    marker: Marker,
    seen: HashSet<Identity>,
}

/// Members of a family that are remembered at most; a family larger than that is found by the variable.
const REMEMBERED: usize = 4096;

impl Family {
    pub(super) fn new(root: Pid, marker: Marker) -> Self {
        let root = root.as_raw_nonzero().get();
        let born = Stat::read(root).map_or(0, |stat| stat.born);
        Self { root, born, marker, seen: HashSet::new() }
    }

    /// Remembers whoever is below the child now, by parentage alone.
    pub(super) fn remember(&mut self) {
        let stats = self.younger();
        self.relatives(&stats, false);
    }

    /// Whoever belongs to the family and lives, the child itself left out.
    pub(super) fn living(&mut self) -> Vec<Relative> {
        let stats = self.younger();
        let members = self.relatives(&stats, true);
        let mut living = Vec::new();
        for stat in stats.iter().filter(|stat| !stat.dead && members.contains(&stat.pid)) {
            let handle = Pid::from_raw(stat.pid).and_then(handle);
            // The handle was opened by id: only when the id still has the same birth is it that process.
            let same = Stat::read(stat.pid).filter(|now| now.born == stat.born && !now.dead);
            if same.is_some() {
                living.push(Relative { identity: stat.identity(), name: stat.name.clone(), handle });
            }
        }
        living
    }

    /// Processes that are not older than the child, itself left out.
    fn younger(&self) -> Vec<Stat> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| *pid != self.root)
            .filter_map(Stat::read)
            .filter(|stat| stat.born >= self.born)
            .collect()
    }

    /// The ids of those that belong to the family. Parents come before their children only by chance, so the
    /// search goes on until it finds nobody new.
    fn relatives(&mut self, stats: &[Stat], environment: bool) -> HashSet<i32> {
        let mut members: HashSet<i32> = HashSet::new();
        for stat in stats {
            let ours = stat.group == self.root
                || stat.parent == self.root
                || self.seen.contains(&stat.identity())
                || (environment && !stat.dead && self.is_marked(stat.pid));
            if ours {
                members.insert(stat.pid);
            }
        }
        loop {
            let before = members.len();
            for stat in stats {
                if members.contains(&stat.parent) {
                    members.insert(stat.pid);
                }
            }
            if members.len() == before {
                break;
            }
        }
        for stat in stats.iter().filter(|stat| members.contains(&stat.pid)) {
            if self.seen.len() < REMEMBERED {
                self.seen.insert(stat.identity());
            }
        }
        members
    }

    fn is_marked(&self, pid: i32) -> bool {
        std::fs::read(OsStr::from_bytes(format!("/proc/{pid}/environ").as_bytes()))
            .is_ok_and(|environment| self.marker.is_in(&environment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read() {
        let line = b"42 (a) b (c) S 1 40 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 1 2";
        let stat = Stat::parse(42, line).expect("a line");
        assert_eq!((stat.name.as_str(), stat.parent, stat.group, stat.born), ("a) b (c", 1, 40, 777));
        assert!(!stat.dead);
    }

    #[test]
    fn a_name_is_found_in_a_list_and_only_whole() {
        let marker = Marker("12-0-ab".into());
        assert!(marker.is_in(b"A=1\0MCPJOIN_CHILD=9-9-9:12-0-ab\0B=2"));
        assert!(marker.is_in(b"MCPJOIN_CHILD=12-0-ab:1-1-1"));
        assert!(!marker.is_in(b"MCPJOIN_CHILD=12-0-abc"));
        assert!(!marker.is_in(b"XMCPJOIN_CHILD=12-0-ab"));
    }
}
