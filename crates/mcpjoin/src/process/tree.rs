//! What a child has started, as far as `/proc` tells.
//!
//! Whoever carries a child's [mark](super::mark) in its environment, belongs to the child's process group, has one
//! of these for a parent or was once seen to have one is ours; about everybody else nothing can be proved. What was
//! seen is remembered by its id and its time of birth.
//!
//! One look that finds nobody proves nothing unless it was whole. A process can fork and end while we look, and in
//! the middle of an `execve` its environment is empty: once it has left its group and lost its parent, such a
//! process looks like a stranger. So
//!
//! - the list of processes is read again until it shows nobody new: whoever lives at the last reading was looked at
//!   while it lived;
//! - a process in the middle of an `execve` makes the look unsettled, and so does a relative that has ended since it
//!   was looked at: it may have had a child.
//!
//! An unsettled look is repeated a little later. The last look of a child's life is a settled one that finds nobody,
//! unless the time that the [ladder](super::kept) has for it is over.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::Survivor;
use super::mark::Mark;

/// How often the list of processes is read for one look at most: on a machine where so much is started that this is
/// not enough, the look is unsettled.
const READINGS: usize = 8;

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

/// Whose mark a process carries.
enum Marks {
    /// The names in its environment.
    Held(Vec<u8>),
    /// None, or its environment is not for us to read: then it is not for us to signal either.
    None,
    /// It is in the middle of an `execve`, or the system had no file descriptor for us to look.
    Unknown,
}

/// A line of `/proc/<pid>/stat`, and what stands in the process's environment.
struct Stat {
    pid: i32,
    name: String,
    dead: bool,
    parent: i32,
    group: i32,
    born: u64,
    /// It has no memory of its own: the kernel's, or about to be gone.
    bare: bool,
    /// Where its environment begins and ends in its memory: 0 in the middle of an `execve`.
    environment: (u64, u64),
    marks: Marks,
}

/// Bits of the flags of a process: it is about to be gone; it is the kernel's. From `include/linux/sched.h`.
const PF_EXITING: u64 = 0x0000_0004;
const PF_KTHREAD: u64 = 0x0020_0000;

/// Reads a file below `/proc/<pid>`; `None` when that process is gone.
fn read(pid: i32, name: &str) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(format!("/proc/{pid}/{name}")) {
        Ok(bytes) => Ok(Some(bytes)),
        // Gone before it was opened; or after.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Stat {
    /// `None` when there is no such process.
    fn read(pid: i32) -> io::Result<Option<Self>> {
        Ok(read(pid, "stat")?.and_then(|line| Self::parse(pid, &line)))
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
        let number = |field: Option<&str>| field.and_then(|field| field.parse::<u64>().ok());
        let flags = number(field(9)).unwrap_or_default();
        // The first thread of a process may end before the others.
        let alone = number(field(20)).is_none_or(|threads| threads <= 1);
        Some(Self {
            pid,
            name,
            dead: matches!(field(3)?, "Z" | "X" | "x") && alone,
            parent: field(4)?.parse().ok()?,
            group: field(5)?.parse().ok()?,
            born: field(22)?.parse().ok()?,
            bare: flags & (PF_EXITING | PF_KTHREAD) != 0,
            environment: (number(field(50)).unwrap_or_default(), number(field(51)).unwrap_or_default()),
            marks: Marks::None,
        })
    }

    /// Reads whose mark it carries.
    fn read_marks(&mut self) {
        let environment = match read(self.pid, "environ") {
            Ok(Some(environment)) => environment,
            // Whoever may not be looked at may not be signalled either.
            Ok(None) => return,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
            Err(_) => {
                self.marks = Marks::Unknown;
                return;
            }
        };
        self.marks = match Mark::held_in(&environment) {
            Some(names) => Marks::Held(names.to_vec()),
            None if !environment.is_empty() => Marks::None,
            // Empty because it is, or because that of a new program was not there yet.
            None => match Self::read(self.pid) {
                Ok(None) => Marks::None,
                Ok(Some(now)) if now.dead || now.bare || now.has_no_environment() => Marks::None,
                _ => Marks::Unknown,
            },
        };
    }

    /// It was started with an empty environment.
    const fn has_no_environment(&self) -> bool {
        self.environment.0 != 0 && self.environment.0 == self.environment.1
    }

    fn is_marked(&self, mark: &Mark) -> bool {
        matches!(&self.marks, Marks::Held(names) if mark.is_in(names))
    }

    const fn identity(&self) -> Identity {
        Identity { pid: self.pid, born: self.born }
    }
}

/// All processes at one moment. Taking it costs some ten microseconds for each, so it is taken once for all children
/// that end together.
pub(super) struct World {
    stats: Vec<Stat>,
    sight: Sight,
}

/// How much was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Whoever lived at the end of the look.
    Whole,
    /// Not everybody; another look may see more.
    Partial,
    /// Nobody: there is no `/proc` here.
    None,
}

impl World {
    /// Looks. The environment is read of those who were born at `since` or later.
    pub(super) fn look(since: u64) -> Self {
        let mut world = Self { stats: Vec::new(), sight: Sight::Whole };
        let mut known = HashSet::new();
        for _ in 0..READINGS {
            let new = match pids() {
                Ok(pids) => pids.into_iter().filter(|pid| known.insert(*pid)).collect::<Vec<_>>(),
                Err(error) => {
                    let missing = error.kind() == io::ErrorKind::NotFound;
                    world.sight = if missing { Sight::None } else { Sight::Partial };
                    return world;
                }
            };
            if new.is_empty() {
                return world;
            }
            for pid in new {
                match Stat::read(pid) {
                    Ok(Some(mut stat)) => {
                        if stat.born >= since {
                            stat.read_marks();
                        }
                        world.stats.push(stat);
                    }
                    Ok(None) => {}
                    Err(_) => world.sight = Sight::Partial,
                }
            }
        }
        world.sight = Sight::Partial;
        world
    }
}

/// The ids of all processes.
fn pids() -> io::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(pids)
}

/// What is remembered of a child's family, or of those of all children of one process.
pub(super) struct Family {
    /// The child itself, whose group is the family's, too.
    root: Option<i32>,
    born: u64,
    mark: Mark,
    seen: HashSet<Identity>,
}

/// Members of a family that are remembered at most; a family larger than that is found by its mark.
const REMEMBERED: usize = 4096;

/// Who was found.
pub(super) struct Found {
    pub(super) living: Vec<Relative>,
    /// How much was seen: [`Sight::Partial`] unless nobody can have been missed.
    pub(super) sight: Sight,
}

impl Family {
    pub(super) fn new(root: Pid, mark: Mark) -> Self {
        let root = root.as_raw_nonzero().get();
        let born = Stat::read(root).ok().flatten().map_or(0, |stat| stat.born);
        Self { root: Some(root), born, mark, seen: HashSet::new() }
    }

    /// Whoever carries this mark, and their children: without a child that is kept here, nothing else is known.
    #[cfg(target_os = "linux")]
    pub(super) fn marked(mark: Mark) -> Self {
        Self { root: None, born: 0, mark, seen: HashSet::new() }
    }

    /// The child's id is not its own any more: whoever is in a group of that id now may be a stranger.
    pub(super) const fn lose_root(&mut self) {
        self.root = None;
    }

    /// When the child was born; nobody in the family is older.
    pub(super) const fn born(&self) -> u64 {
        self.born
    }

    /// Remembers whoever is below the child, by parentage alone.
    pub(super) fn remember(&mut self, world: &World) {
        self.members(world, false);
    }

    /// Whoever belongs to the family and lives, the child itself left out.
    pub(super) fn living(&mut self, world: &World) -> Found {
        let unknown = world.stats.iter().any(|stat| {
            Some(stat.pid) != self.root && stat.born >= self.born && matches!(stat.marks, Marks::Unknown)
        });
        let mut found = Found { living: Vec::new(), sight: world.sight };
        let mut missed = unknown;
        for stat in self.members(world, true).into_iter().filter(|stat| !stat.dead) {
            let handle = Pid::from_raw(stat.pid).and_then(handle);
            // The handle was opened by id: only when the id still has the same birth is it that process.
            let now = Stat::read(stat.pid).ok().flatten();
            if now.is_some_and(|now| now.born == stat.born && !now.dead) {
                found.living.push(Relative { identity: stat.identity(), name: stat.name.clone(), handle });
            } else {
                missed = true;
            }
        }
        if missed && found.sight == Sight::Whole {
            found.sight = Sight::Partial;
        }
        found
    }

    /// Those that belong to the family. Parents come before their children only by chance, so the search goes on
    /// until it finds nobody new.
    fn members<'a>(&mut self, world: &'a World, environment: bool) -> Vec<&'a Stat> {
        // Nobody in it is older than the child.
        let others =
            || world.stats.iter().filter(|stat| Some(stat.pid) != self.root && stat.born >= self.born);
        let mut members: HashSet<i32> = others()
            .filter(|stat| {
                self.root.is_some_and(|root| stat.group == root || stat.parent == root)
                    || self.seen.contains(&stat.identity())
                    || (environment && !stat.dead && stat.is_marked(&self.mark))
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
    fn a_process_whose_first_thread_has_ended_lives() {
        let stat = |threads: u32| {
            let line = format!("42 (a) Z 1 40 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 777 1 2");
            Stat::parse(42, line.as_bytes()).expect("a line")
        };
        assert!(stat(1).dead);
        assert!(!stat(2).dead);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_look_finds_ourselves_and_is_whole() {
        let world = World::look(0);
        let own = i32::try_from(std::process::id()).expect("a pid");
        let stat = world.stats.iter().find(|stat| stat.pid == own).expect("ourselves");
        assert!(!stat.dead && !stat.bare && stat.environment.1 > 0);
        assert!(matches!(stat.marks, Marks::Held(_) | Marks::None));
        assert_eq!(world.sight, Sight::Whole);
    }
}
