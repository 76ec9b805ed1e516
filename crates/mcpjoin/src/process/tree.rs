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
//! - a process in the middle of an `execve` makes the look unsettled unless its parent shows that it is none of
//!   these, and so does a relative that has ended since it was looked at: it may have had a child.
//!
//! An unsettled look is repeated a little later. The last look of a child's life is a settled one that finds nobody,
//! unless the time that the [ladder](super::kept) has for it is over.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
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
    /// It is about to be gone.
    pub(super) exiting: bool,
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

    #[cfg(test)]
    pub(super) fn out_of_reach(pid: i32, name: &str) -> Self {
        Self { identity: Identity { pid, born: 0 }, name: name.into(), exiting: false, handle: None }
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
    /// It will be dead in a moment: it has no memory any more.
    exiting: bool,
    /// It is the kernel's, and has no memory of its own.
    kernel: bool,
    /// Its program is there as a whole: the kernel notes last in an `execve` where the code is.
    loaded: bool,
    /// Where its environment begins and ends in its memory.
    environment: (u64, u64),
    marks: Marks,
}

/// Bits of the flags of a process: it is about to be gone; it is the kernel's. From `include/linux/sched.h`.
const PF_EXITING: u64 = 0x0000_0004;
const PF_KTHREAD: u64 = 0x0020_0000;

/// How much room there is for a file at first. A line of `stat` has some 300 bytes.
const FILE_BYTES: usize = 1024;

/// Reads a file below `/proc/<pid>`; `None` when that process is gone.
///
/// Such a file does not know its size beforehand: without room for it, it would be read in half a dozen pieces.
fn read(pid: i32, name: &str) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(FILE_BYTES);
    let file = File::open(format!("/proc/{pid}/{name}"));
    match file.and_then(|file| file.take(u64::MAX).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
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
            exiting: flags & PF_EXITING != 0 && alone,
            kernel: flags & PF_KTHREAD != 0,
            loaded: number(field(27)).is_some_and(|end_of_code| end_of_code != 0),
            environment: (number(field(50)).unwrap_or_default(), number(field(51)).unwrap_or_default()),
            marks: Marks::None,
        })
    }

    /// Reads whose mark it carries.
    ///
    /// What is read is empty in the middle of an `execve`, and may break off when one begins meanwhile. It is whole
    /// when it is as long as the kernel says.
    fn read_marks(&mut self) {
        let environment = match read(self.pid, "environ") {
            Ok(Some(environment)) => environment,
            Ok(None) => {
                self.dead = true;
                return;
            }
            // Whoever may not be looked at may not be signalled either; and one that cannot be read never will be.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => return,
            Err(_) => {
                self.marks = Marks::Unknown;
                return;
            }
        };
        if !self.is_whole(&environment) {
            match Self::read(self.pid) {
                Ok(Some(now)) if now.dead => self.dead = true,
                Ok(None) => self.dead = true,
                // Its mark is gone with its memory. Whoever knows it by its group or its parent waits for its end.
                Ok(Some(now)) if now.exiting => self.exiting = true,
                Ok(Some(now)) if now.kernel || now.is_whole(&environment) => {}
                _ => {
                    self.marks = Marks::Unknown;
                    return;
                }
            }
        }
        if let (false, Some(names)) = (self.dead, Mark::held_in(&environment)) {
            self.marks = Marks::Held(names.to_vec());
        }
    }

    /// Whether this is all of its environment.
    fn is_whole(&self, environment: &[u8]) -> bool {
        let (start, end) = self.environment;
        self.loaded && start != 0 && end.checked_sub(start) == u64::try_from(environment.len()).ok()
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
    /// Children that are kept: whose they are is known without their mark.
    roots: HashSet<i32>,
    /// Ourselves and those above us: whoever loses its parent gets one of them.
    above: HashSet<i32>,
}

/// Whose environment is read.
pub(super) enum Scope {
    /// Nobody's: it is parentage that is asked for.
    Parents,
    /// Of those who are not older than all of these children, and none of them.
    Families { since: u64, roots: HashSet<i32> },
    /// Everybody's.
    Everybody,
}

impl Scope {
    pub(super) fn families<'a>(families: impl Iterator<Item = &'a Family>) -> Self {
        let (mut since, mut roots) = (u64::MAX, HashSet::new());
        for family in families {
            since = since.min(family.born);
            roots.extend(family.root);
        }
        Self::Families { since, roots }
    }
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
    /// Looks.
    pub(super) fn look(scope: Scope) -> Self {
        let (since, roots) = match scope {
            Scope::Parents => (u64::MAX, HashSet::new()),
            Scope::Families { since, roots } => (since, roots),
            Scope::Everybody => (0, HashSet::new()),
        };
        let mut world = Self { stats: Vec::new(), sight: Sight::Whole, roots, above: HashSet::new() };
        world.read_all(since);
        let mut next = i32::try_from(std::process::id()).ok();
        while let Some(pid) = next.filter(|pid| world.above.insert(*pid)) {
            next = world.stats.iter().find(|stat| stat.pid == pid).map(|stat| stat.parent);
        }
        // Where a process has a namespace of its own, those above it are not shown.
        world.above.insert(1);
        world
    }

    fn read_all(&mut self, since: u64) {
        let mut known = HashSet::new();
        for _ in 0..READINGS {
            let new = match pids() {
                Ok(pids) => pids.into_iter().filter(|pid| known.insert(*pid)).collect::<Vec<_>>(),
                Err(error) => {
                    let missing = error.kind() == io::ErrorKind::NotFound;
                    self.sight = if missing { Sight::None } else { Sight::Partial };
                    return;
                }
            };
            if new.is_empty() {
                return;
            }
            for pid in new {
                match Stat::read(pid) {
                    Ok(Some(mut stat)) => {
                        if stat.born >= since && !self.roots.contains(&pid) {
                            stat.read_marks();
                        }
                        self.stats.push(stat);
                    }
                    Ok(None) => {}
                    Err(_) => self.sight = Sight::Partial,
                }
            }
        }
        self.sight = Sight::Partial;
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

    /// Remembers whoever is below the child, by parentage alone.
    pub(super) fn remember(&mut self, world: &World) {
        self.members(world, false);
    }

    /// Whoever belongs to the family and lives, the child itself left out.
    pub(super) fn living(&mut self, world: &World) -> Found {
        let mut found = Found { living: Vec::new(), sight: world.sight };
        let members = self.members(world, true);
        let mut missed = self.may_have_missed(world, &members);
        for stat in members.into_iter().filter(|stat| !stat.dead) {
            let handle = Pid::from_raw(stat.pid).and_then(handle);
            // The handle was opened by id: only when the id still has the same birth is it that process.
            let now = Stat::read(stat.pid).ok().flatten();
            match now.filter(|now| now.born == stat.born && !now.dead) {
                Some(now) => found.living.push(Relative {
                    identity: stat.identity(),
                    name: stat.name.clone(),
                    exiting: now.exiting,
                    handle,
                }),
                None => missed = true,
            }
        }
        if missed && found.sight == Sight::Whole {
            found.sight = Sight::Partial;
        }
        found
    }

    /// Whether somebody whose mark could not be read may be one of us. Its parent tells: one of us, or one of those
    /// whom it got in place of one of us, or one that has ended meanwhile.
    fn may_have_missed(&self, world: &World, members: &[&Stat]) -> bool {
        let unknown = world.stats.iter().filter(|stat| matches!(stat.marks, Marks::Unknown));
        unknown.filter(|stat| Some(stat.pid) != self.root && stat.born >= self.born).any(|stat| {
            let parent = world.stats.iter().find(|parent| parent.pid == stat.parent && !parent.dead);
            parent.is_none_or(|parent| {
                world.above.contains(&parent.pid)
                    || matches!(parent.marks, Marks::Unknown)
                    || Some(parent.pid) == self.root
                    || members.iter().any(|member| member.pid == parent.pid)
            })
        })
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

    #[test]
    fn a_process_is_about_to_be_gone_when_the_kernel_says_so_of_its_last_thread() {
        let exiting = |flags: u64, threads: u32| {
            let line = format!("42 (a) S 1 40 39 0 -1 {flags} 1 2 3 4 5 6 7 8 20 0 {threads} 0 777 1 2");
            Stat::parse(42, line.as_bytes()).expect("a line").exiting
        };
        assert!(exiting(4_194_560 | PF_EXITING, 1));
        assert!(!exiting(4_194_560, 1) && !exiting(4_194_560 | PF_EXITING, 2));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn whoever_dies_between_two_looks_is_dead_and_whoever_lives_is_not() {
        assert_eq!(read(i32::MAX, "stat").expect("no error"), None);
        let of = |pid: u32| {
            let pid = i32::try_from(pid).expect("a pid");
            let mut stat = Stat::read(pid).expect("it is ours").expect("it runs");
            // As if it had begun another program since.
            stat.environment = (1, 2);
            stat
        };
        let mut ourselves = of(std::process::id());
        ourselves.read_marks();
        assert!(!ourselves.dead && !matches!(ourselves.marks, Marks::Unknown));
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat");
        let mut stat = of(child.id());
        child.kill().expect("it is ours");
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        let id = rustix::process::WaitId::Pid(Pid::from_child(&child));
        rustix::process::waitid(id, options).expect("a zombie");
        stat.read_marks();
        child.wait().expect("it is ours");
        assert!(stat.dead);
    }

    #[test]
    fn a_look_is_partial_while_somebody_may_be_one_of_the_family() {
        let stat = |pid: i32, parent: i32, group: i32, marks: Marks| {
            let line = format!("{pid} (a) S {parent} {group} 39 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 777 1 2");
            Stat { marks, ..Stat::parse(pid, line.as_bytes()).expect("a line") }
        };
        let family = || Family { root: Some(1), born: 777, mark: Mark::of_a_child(), seen: HashSet::new() };
        let look = |stats: Vec<Stat>, above: &[i32]| {
            let above = above.iter().copied().collect();
            World { stats, sight: Sight::Whole, roots: HashSet::new(), above }
        };
        let sight = |stats, above: &[i32]| family().living(&look(stats, above)).sight;
        // Ids that no process here has, so that nobody is found.
        let [somebody, parent] = [i32::MAX - 1, i32::MAX];
        assert_eq!(sight(vec![], &[]), Sight::Whole);
        assert_eq!(
            sight(vec![stat(somebody, 7, 7, Marks::Unknown)], &[]),
            Sight::Partial,
            "it has no parent"
        );
        for (marks, above, expected) in [
            (Marks::None, &[][..], Sight::Whole),
            (Marks::Unknown, &[], Sight::Partial),
            (Marks::None, &[parent], Sight::Partial),
        ] {
            let stats = vec![stat(somebody, parent, 7, Marks::Unknown), stat(parent, 8, 7, marks)];
            let grandparent = stat(8, 8, 7, Marks::None);
            let stats = stats.into_iter().chain([grandparent]).collect();
            assert_eq!(sight(stats, above), expected, "{above:?}");
        }
        // An id that another process has by now: it runs, and is another.
        let ourselves = i32::try_from(std::process::id()).expect("a pid");
        let found = family().living(&look(vec![stat(ourselves, 7, 1, Marks::None)], &[]));
        assert!(found.living.is_empty() && found.sight == Sight::Partial);
        // A group whose id is the child's no more may be a stranger's.
        let world = look(vec![stat(somebody, 7, 1, Marks::None)], &[]);
        assert_eq!(family().members(&world, true).len(), 1);
        let mut lost = family();
        lost.lose_root();
        assert_eq!(lost.members(&world, true).len(), 0);
    }

    #[test]
    fn so_many_members_of_a_family_are_remembered() {
        let members = 2..=REMEMBERED as i32 + 2;
        // First they are the child's, then they have left it and its group.
        let [below, left] = [1, i32::MAX].map(|parent| {
            let stat = |pid: i32| {
                let line =
                    format!("{pid} (a) S {parent} {pid} 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 1 2");
                Stat::parse(pid, line.as_bytes()).expect("a line")
            };
            let (stats, sight) = (members.clone().map(stat).collect(), Sight::Whole);
            World { stats, sight, roots: HashSet::new(), above: HashSet::new() }
        });
        let mut family = Family { root: Some(1), born: 777, mark: Mark::of_a_child(), seen: HashSet::new() };
        assert_eq!(family.members(&left, false).len(), 0);
        assert_eq!(family.members(&below, false).len(), REMEMBERED + 1);
        let known: Vec<i32> = family.members(&left, false).iter().map(|stat| stat.pid).collect();
        assert_eq!((known.len(), family.seen.len()), (REMEMBERED, REMEMBERED));
        assert!(known.into_iter().eq(members.take(REMEMBERED)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_look_finds_ourselves_and_is_whole() {
        let world = World::look(Scope::Everybody);
        let own = i32::try_from(std::process::id()).expect("a pid");
        let stat = world.stats.iter().find(|stat| stat.pid == own).expect("ourselves");
        assert!(!stat.dead && !stat.exiting && !stat.kernel && stat.loaded);
        assert!(matches!(stat.marks, Marks::Held(_) | Marks::None));
        assert_eq!(world.sight, Sight::Whole);
    }
}
