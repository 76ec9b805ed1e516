//! What a child has started, as far as `/proc` tells.
//!
//! A process group is left by `setsid`, and parentage is lost when the parent ends first. So each child gets a
//! variable of its own in its environment, which everything that it starts inherits, and what was once seen below
//! it is remembered by its id and its time of birth. Whoever carries the variable, belongs to the group or was
//! seen is ours; about everybody else nothing can be proved.

use std::cell::{LazyCell, OnceCell};
use std::collections::HashSet;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
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

    /// What the variable holds in an environment, as `/proc` shows it.
    fn of(environment: &[u8]) -> Option<&[u8]> {
        environment
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(Self::VARIABLE.as_bytes())?.strip_prefix(b"="))
    }

    /// Whether this name is in the list that a variable holds.
    fn is_in(&self, marks: &[u8]) -> bool {
        marks.split(|byte| *byte == Self::SEPARATOR).any(|name| name == self.0.as_bytes())
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
    /// What [`Marker::VARIABLE`] holds in its environment; read when it is asked for.
    marks: OnceCell<Option<Vec<u8>>>,
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
            marks: OnceCell::new(),
        })
    }

    fn is_marked(&self, marker: &Marker) -> bool {
        let marks = self.marks.get_or_init(|| {
            let environment = std::fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
            Marker::of(&environment).map(<[u8]>::to_vec)
        });
        marks.as_ref().is_some_and(|marks| marker.is_in(marks))
    }

    const fn identity(&self) -> Identity {
        Identity { pid: self.pid, born: self.born }
    }
}

/// All processes at one moment. Taking it costs a few microseconds for each, so it is taken once for all children
/// that end together.
pub(super) struct World(Vec<Stat>);

impl World {
    /// Looks, when it is first asked for.
    pub(super) fn when_needed() -> LazyCell<Self> {
        LazyCell::new(|| {
            let Ok(entries) = std::fs::read_dir("/proc") else { return Self(Vec::new()) };
            let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            Self(pids.filter_map(Stat::read).collect())
        })
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

    /// Remembers whoever is below the child, by parentage alone.
    pub(super) fn remember(&mut self, world: &World) {
        self.members(world, false);
    }

    /// Whoever belongs to the family and lives, the child itself left out.
    pub(super) fn living(&mut self, world: &World) -> Vec<Relative> {
        let members = self.members(world, true);
        let mut living = Vec::new();
        for stat in members.into_iter().filter(|stat| !stat.dead) {
            let handle = Pid::from_raw(stat.pid).and_then(handle);
            // The handle was opened by id: only when the id still has the same birth is it that process.
            if Stat::read(stat.pid).is_some_and(|now| now.born == stat.born && !now.dead) {
                living.push(Relative { identity: stat.identity(), name: stat.name.clone(), handle });
            }
        }
        living
    }

    /// Those that belong to the family. Parents come before their children only by chance, so the search goes on
    /// until it finds nobody new.
    fn members<'a>(&mut self, world: &'a World, environment: bool) -> Vec<&'a Stat> {
        // Nobody in it is older than the child.
        let others = || world.0.iter().filter(|stat| stat.pid != self.root && stat.born >= self.born);
        let mut members: HashSet<i32> = others()
            .filter(|stat| {
                stat.group == self.root
                    || stat.parent == self.root
                    || self.seen.contains(&stat.identity())
                    || (environment && !stat.dead && stat.is_marked(&self.marker))
            })
            .map(|stat| stat.pid)
            .collect();
        loop {
            let before = members.len();
            for stat in others() {
                if members.contains(&stat.parent) {
                    members.insert(stat.pid);
                }
            }
            if members.len() == before {
                break;
            }
        }
        let members: Vec<_> = others().filter(|stat| members.contains(&stat.pid)).collect();
        let room = REMEMBERED.saturating_sub(self.seen.len());
        self.seen.extend(members.iter().map(|stat| stat.identity()).take(room));
        members
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
        let found = |environment| Marker::of(environment).is_some_and(|marks| marker.is_in(marks));
        assert!(found(b"A=1\0MCPJOIN_CHILD=9-9-9:12-0-ab\0B=2"));
        assert!(found(b"MCPJOIN_CHILD=12-0-ab:1-1-1"));
        assert!(!found(b"MCPJOIN_CHILD=12-0-abc"));
        assert!(!found(b"XMCPJOIN_CHILD=12-0-ab"));
    }
}
